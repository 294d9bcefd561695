"""Small random vision models of transformers, each with the library's image processor for it."""

from pathlib import Path
from typing import Any

import torch
import transformers
from hub_models import library_tokenizer

_SIZES = {
    "hidden_size": 24, "num_attention_heads": 3, "num_hidden_layers": 2, "intermediate_size": 31,
    "image_size": 20, "patch_size": 5, "num_labels": 3,
}  # fmt: skip
_TEXT = {
    "vocab_size": 53,
    "hidden_size": 22,
    "num_attention_heads": 2,
    "num_hidden_layers": 1,
    "intermediate_size": 31,
}
NAMES = {"id2label": {0: "cat", 1: "dog", 2: "owl"}, "label2id": {"cat": 0, "dog": 1, "owl": 2}}
# class → configuration, image processor
CLASSES = {
    "ViTForImageClassification": ("ViTConfig", "ViTImageProcessor"),
    "DeiTForImageClassification": ("DeiTConfig", "DeiTImageProcessor"),
    "DeiTForImageClassificationWithTeacher": ("DeiTConfig", "DeiTImageProcessor"),
    "ViTMSNForImageClassification": ("ViTMSNConfig", "ViTImageProcessor"),
    "BeitForImageClassification": ("BeitConfig", "BeitImageProcessor"),
    "Data2VecVisionForImageClassification": ("Data2VecVisionConfig", "BeitImageProcessor"),
    "Dinov2ForImageClassification": ("Dinov2Config", "BitImageProcessor"),
    "Dinov2WithRegistersForImageClassification": ("Dinov2WithRegistersConfig", "BitImageProcessor"),
    "IJepaForImageClassification": ("IJepaConfig", "ViTImageProcessor"),
    "SiglipForImageClassification": ("SiglipConfig", "SiglipImageProcessor"),
    "CLIPForImageClassification": ("CLIPConfig", "CLIPImageProcessor"),
    "ViTModel": ("ViTConfig", "ViTImageProcessor"),
    "CLIPVisionModel": ("CLIPVisionConfig", "CLIPImageProcessor"),
    "SwinForImageClassification": ("SwinConfig", "ViTImageProcessor"),
    "ResNetForImageClassification": ("ResNetConfig", "ViTImageProcessor"),
    "ConvNextForImageClassification": ("ConvNextConfig", "ConvNextImageProcessor"),
    "SegformerForImageClassification": ("SegformerConfig", "SegformerImageProcessor"),
    "PvtForImageClassification": ("PvtConfig", "PvtImageProcessor"),
    "ImageGPTForImageClassification": ("ImageGPTConfig", "ViTImageProcessor"),
    "HieraForImageClassification": ("HieraConfig", "BitImageProcessor"),
    "LevitForImageClassification": ("LevitConfig", "LevitImageProcessor"),
}
_OWN: dict[str, dict[str, Any]] = {
    "SwinForImageClassification": {
        "image_size": 32, "patch_size": 4, "embed_dim": 12, "depths": [1, 1], "num_heads": [2, 3], "window_size": 4,
    },
    "ResNetForImageClassification": {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"},
    "ConvNextForImageClassification": {"hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2},
    "Dinov2WithRegistersForImageClassification": {"num_register_tokens": 2},
    "BeitForImageClassification": {"use_relative_position_bias": True},
    "ImageGPTForImageClassification": {"n_embd": 24, "n_head": 3, "n_layer": 2, "n_positions": 401},
}  # fmt: skip


def sizes_of(name: str) -> dict[str, Any]:
    own = _OWN.get(name, {})
    if name in (
        "SwinForImageClassification",
        "ResNetForImageClassification",
        "ConvNextForImageClassification",
    ):
        return own | {"num_labels": 3}
    if name in (
        "SegformerForImageClassification",
        "PvtForImageClassification",
        "HieraForImageClassification",
        "LevitForImageClassification",
    ):
        return own
    sizes = _SIZES | own
    if name in ("SiglipForImageClassification", "CLIPForImageClassification"):
        return {"vision_config": sizes, "text_config": _TEXT, "num_labels": 3}
    return sizes


def save(name: str, folder: Path, size: int = 20, **sizes: Any) -> Any:
    """Save a random model of this class with its image processor, and return it."""
    config_name, processor_name = CLASSES[name]
    labels = NAMES if "Classification" in name else {}
    config = getattr(transformers, config_name)(**(sizes_of(name) | labels | sizes))
    torch.manual_seed(1)
    module = getattr(transformers, name)(config).eval()
    with torch.no_grad():
        for p in module.parameters():
            if p.dim() > 1:
                p.normal_(std=0.3)  # so that heads differ by more than rounding
    module.save_pretrained(folder)
    processor = getattr(transformers, processor_name)
    sides = {"height": size, "width": size}
    made = (
        processor(size=sides, crop_size=sides)
        if processor_name == "BitImageProcessor"
        else processor(size=sides)
    )
    if hasattr(made, "crop_size") and made.crop_size:
        made.crop_size = sides
    made.save_pretrained(folder)
    return module


def save_with_text(folder: Path, family: str = "CLIP") -> Any:
    """Save a random CLIP or SigLIP, whose towers differ in all sizes, with its tokenizer and image processor."""
    text = _TEXT | {
        "vocab_size": 97, "num_hidden_layers": 3, "max_position_embeddings": 40,
        "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3,
    }  # fmt: skip
    size = {"projection_dim": 14} if family == "CLIP" else {}
    if family == "Siglip":
        text |= {"projection_size": _SIZES["hidden_size"]}
    config = getattr(transformers, f"{family}Config")(
        text_config=text, vision_config=_SIZES, **size
    )
    torch.manual_seed(1)
    module = getattr(transformers, f"{family}Model")(config).eval()
    with torch.no_grad():
        for p in module.parameters():
            if p.dim() > 1:
                p.normal_(std=0.3)
        if family == "Siglip":
            module.logit_scale.fill_(1.1)
            module.logit_bias.fill_(-0.7)
    module.save_pretrained(folder)
    sides = {"height": 20, "width": 20}
    cropped = {"crop_size": sides} if family == "CLIP" else {}
    processor = getattr(transformers, f"{family}ImageProcessor")(size=sides, **cropped)
    processor.save_pretrained(folder)
    library_tokenizer(folder, 89)
    return module
