"""Small models of other libraries, made from their configurations when a test needs them. Sizes are all-different primes where
a family allows it."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import processors

from models.tokenizers.base import Tokenizer

VOCABULARY, LAYERS = 53, 2
TEXT = (
    "The little dog was very hungry because it had not eaten. She is reading a book about the sea."
)
_SPECIAL = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
_WIDE = {
    "vocab_size": VOCABULARY, "hidden_size": 22, "num_attention_heads": 2, "num_hidden_layers": LAYERS, "intermediate_size": 31,
}  # fmt: skip
_GPT2 = {"vocab_size": VOCABULARY, "n_embd": 22, "n_head": 2, "n_layer": LAYERS}
_GROUPED = _WIDE | {
    "hidden_size": 24,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 10,
}
_SEQ = {
    "vocab_size": VOCABULARY,
    "d_model": 22,
    "encoder_layers": LAYERS,
    "decoder_layers": LAYERS,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 31,
    "decoder_ffn_dim": 37,
    "max_position_embeddings": 61,
    "decoder_start_token_id": 1,
    "forced_eos_token_id": None,
}
_T5 = {
    "vocab_size": VOCABULARY,
    "d_model": 22,
    "d_kv": 7,
    "d_ff": 31,
    "num_heads": 3,
    "num_layers": LAYERS,
    "decoder_start_token_id": 0,
    "eos_token_id": 1,
}


@dataclass(frozen=True)
class Case:
    """One architecture: the names of its class and its configuration, and sizes."""

    model: str
    config: str
    sizes: dict[str, Any]

    def make(self) -> Any:
        config = getattr(transformers, self.config)(**(_SPECIAL | self.sizes))
        torch.manual_seed(1)
        module = getattr(transformers, self.model)(config).eval()
        with torch.no_grad():
            for name, p in module.named_parameters():
                if p.dim() > 1:
                    p.normal_(std=0.3)  # so that heads differ by more than rounding
                elif name.endswith("bias"):
                    p.normal_(std=0.1)
        return module

    def save(self, folder: Path) -> Any:
        module = self.make()
        module.save_pretrained(folder)
        return module


CASES = [
    Case("GPT2LMHeadModel", "GPT2Config", _GPT2 | {"n_positions": 61}),
    Case("LlamaForCausalLM", "LlamaConfig", _GROUPED),
    Case("MistralForCausalLM", "MistralConfig", _GROUPED | {"sliding_window": 3}),
    Case("Qwen2ForCausalLM", "Qwen2Config", _GROUPED),
    Case("Qwen3ForCausalLM", "Qwen3Config", _GROUPED),
    Case("GPTNeoXForCausalLM", "GPTNeoXConfig", _WIDE),
    Case(
        "OPTForCausalLM",
        "OPTConfig",
        {
            "vocab_size": VOCABULARY,
            "hidden_size": 22,
            "num_attention_heads": 2,
            "ffn_dim": 31,
            "num_hidden_layers": LAYERS,
            "max_position_embeddings": 61,
            "word_embed_proj_dim": 22,
        },
    ),
    Case("BertForMaskedLM", "BertConfig", _WIDE),
    Case("RobertaForMaskedLM", "RobertaConfig", _WIDE | {"max_position_embeddings": 61}),
    Case(
        "DistilBertForMaskedLM",
        "DistilBertConfig",
        {
            "vocab_size": VOCABULARY,
            "dim": 22,
            "n_heads": 2,
            "n_layers": LAYERS,
            "hidden_dim": 31,
            "max_position_embeddings": 61,
        },
    ),
    Case("AlbertForMaskedLM", "AlbertConfig", _WIDE | {"embedding_size": 7}),
    Case("ElectraForMaskedLM", "ElectraConfig", _WIDE | {"embedding_size": 7}),
    Case("BertForSequenceClassification", "BertConfig", _WIDE | {"num_labels": 5}),
    Case("GPT2ForSequenceClassification", "GPT2Config", _GPT2 | {"num_labels": 3}),
    Case(
        "DistilBertForQuestionAnswering",
        "DistilBertConfig",
        {"vocab_size": VOCABULARY, "dim": 22, "n_heads": 2, "n_layers": LAYERS, "hidden_dim": 31},
    ),
    Case("BertModel", "BertConfig", _WIDE),
    Case(
        "T5ForConditionalGeneration",
        "T5Config",
        _T5,
    ),
    Case("MarianMTModel", "MarianConfig", _SEQ),
    Case("BartForConditionalGeneration", "BartConfig", _SEQ),
    Case("MvpForConditionalGeneration", "MvpConfig", _SEQ),
    Case("BigBirdPegasusForConditionalGeneration", "BigBirdPegasusConfig", _SEQ),
    Case(
        "FSMTForConditionalGeneration",
        "FSMTConfig",
        _SEQ
        | {
            "src_vocab_size": VOCABULARY,
            "tgt_vocab_size": VOCABULARY,
            "langs": ["en", "de"],
            "tie_word_embeddings": False,
        },
    ),
    Case(
        "SwitchTransformersForConditionalGeneration",
        "SwitchTransformersConfig",
        _T5 | {"num_decoder_layers": LAYERS, "num_experts": 4, "expert_capacity": 16},
    ),
    Case(
        "XLNetForSequenceClassification",
        "XLNetConfig",
        {
            "vocab_size": VOCABULARY,
            "d_model": 22,
            "n_head": 2,
            "n_layer": LAYERS,
            "d_inner": 31,
            "num_labels": 3,
        },
    ),
    Case(
        "DebertaV2ForMaskedLM",
        "DebertaV2Config",
        _WIDE | {"relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    ),
]
NAMES = [case.model for case in CASES]
# for the sentences of a page: scores by distance that the library keeps to itself, windows in some layers, no head
MORE = [
    Case(
        "BloomForCausalLM",
        "BloomConfig",
        {"vocab_size": VOCABULARY, "hidden_size": 22, "n_head": 2, "n_layer": LAYERS},
    ),
    Case(
        "ModernBertForMaskedLM",
        "ModernBertConfig",
        _WIDE
        | {"num_hidden_layers": 3, "hidden_size": 24, "local_attention": 6}
        | {"cls_token_id": 1, "sep_token_id": 2},
    ),
    Case("GPT2Model", "GPT2Config", _GPT2 | {"n_positions": 61}),
    Case(  # leaves a part of each row to a sink, so that only weights are known
        "GptOssForCausalLM",
        "GptOssConfig",
        _WIDE
        | {"hidden_size": 32, "intermediate_size": 48, "num_key_value_heads": 1, "head_dim": 16}
        | {"num_local_experts": 4, "eos_token_id": None, "max_position_embeddings": 61},
    ),
]
BY_NAME = {case.model: case for case in (*CASES, *MORE)}
WRITERS = [
    name
    for name in NAMES
    if "CausalLM" in name or "LMHead" in name or "Conditional" in name or "Marian" in name
]


def library_tokenizer(folder: Path, size: int) -> transformers.PreTrainedTokenizerFast:
    """A WordPiece tokenizer with BERT's template."""
    backend = Tokenizer.wordpiece([TEXT] * 3, size).backend
    backend.encode_special_tokens = False
    special = [("[CLS]", backend.token_to_id("[CLS]")), ("[SEP]", backend.token_to_id("[SEP]"))]
    backend.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", special
    )
    names = {
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "mask_token": "[MASK]",
    }
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    library = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, model_input_names=inputs, **names
    )
    library.save_pretrained(folder)
    return library


def own_module_of_readme() -> str:
    """Return the lines of the README that define a module."""
    readme = Path(__file__).parents[1] / "README.md"
    return re.search(
        r"<!-- own module -->\n```python\n(.*?)```", readme.read_text("utf-8"), re.DOTALL
    )[1]
