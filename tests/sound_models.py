"""Small random speech models of transformers, each with the library's feature extractor for it."""

import json
from pathlib import Path
from typing import Any

import tokenizers
import torch
import transformers
from hub_models import library_tokenizer

MELS, SECONDS, VOCABULARY = 20, 2, 97
FRAMES = 100 * SECONDS // 2  # a frame for every second column, of which there are 100 a second
START = 90
LANGUAGES = {"<|en|>": 91, "<|fr|>": 92, "<|de|>": 93}
TASKS = ("<|transcribe|>", "<|translate|>")
PROMPT = {
    "lang_to_id": LANGUAGES, "task_to_id": {"transcribe": 94, "translate": 95}, "no_timestamps_token_id": 96,
    "is_multilingual": True, "suppress_tokens": [0, 5, 7, 11, 50], "begin_suppress_tokens": [2, 13],
}  # fmt: skip
_WHISPER = {
    "vocab_size": VOCABULARY, "num_mel_bins": MELS, "encoder_layers": 3, "decoder_layers": 2, "d_model": 22,
    "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 31, "decoder_ffn_dim": 37,
    "max_source_positions": FRAMES, "max_target_positions": 61, "pad_token_id": 0, "bos_token_id": 3, "eos_token_id": 2,
    "decoder_start_token_id": START, "suppress_tokens": None, "begin_suppress_tokens": None,
}  # fmt: skip


def save(folder: Path, *, prompt: dict[str, Any] | None = None, tokenizer: bool = True) -> Any:
    """Save a random Whisper, whose encoder and decoder differ in all sizes, and return it."""
    module = transformers.WhisperForConditionalGeneration(
        transformers.WhisperConfig(**_WHISPER)
    ).eval()
    randomise(module)
    module.generation_config._from_model_config = False  # what is set below is read again
    for name, value in (PROMPT if prompt is None else prompt).items():
        setattr(module.generation_config, name, value)
    module.save_pretrained(folder)
    transformers.WhisperFeatureExtractor(
        feature_size=MELS, chunk_length=SECONDS, hop_length=160, n_fft=400
    ).save_pretrained(folder)
    if tokenizer:
        library = library_tokenizer(folder, START - 1)
        library.add_tokens(
            ["<|startoftranscript|>", *LANGUAGES, *TASKS, "<|notimestamps|>"], special_tokens=True
        )
        library.save_pretrained(folder)
        assert library.convert_tokens_to_ids(["<|startoftranscript|>", "<|notimestamps|>"]) == [
            START,
            96,
        ]
    return module


def randomise(module: torch.nn.Module, std: float = 0.3) -> None:
    torch.manual_seed(1)
    with torch.no_grad():
        for p in module.parameters():
            if p.requires_grad and p.dim() > 1:
                p.normal_(std=std)  # so that heads differ by more than rounding


_ENCODER = {
    "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 31,
    "conv_dim": (16, 16, 16), "conv_stride": (5, 8, 8), "conv_kernel": (10, 8, 8), "num_feat_extract_layers": 3,
    "num_conv_pos_embeddings": 17, "num_conv_pos_embedding_groups": 2, "classifier_proj_size": 11,
}  # fmt: skip
NAMES = {
    "id2label": {0: "tone", 1: "noise", 2: "speech"},
    "label2id": {"tone": 0, "noise": 1, "speech": 2},
}
LETTERS = {"[PAD]": 0, "|": 1, "a": 2, "b": 3, "c": 4, "<i>": 5}
# class → configuration; read from a waveform
READERS = {
    "Wav2Vec2ForSequenceClassification": "Wav2Vec2Config",
    "HubertForSequenceClassification": "HubertConfig",
    "UniSpeechSatForSequenceClassification": "UniSpeechSatConfig",
    "SEWForSequenceClassification": "SEWConfig",
    "Wav2Vec2ForCTC": "Wav2Vec2Config",
    "HubertForCTC": "HubertConfig",
    "WavLMForCTC": "WavLMConfig",
    "Data2VecAudioForCTC": "Data2VecAudioConfig",
    "UniSpeechForCTC": "UniSpeechConfig",
    "Wav2Vec2ConformerForCTC": "Wav2Vec2ConformerConfig",
    "SEWForCTC": "SEWConfig",
    "SEWDForCTC": "SEWDConfig",
    "Wav2Vec2BertForCTC": "Wav2Vec2BertConfig",
    "Wav2Vec2BertForSequenceClassification": "Wav2Vec2BertConfig",
}
BANDS = 10  # of a spectrogram that is as long as its sound
# configuration → sizes beside those of an encoder
_OWN = {
    "SEWConfig": {"squeeze_factor": 2, "num_conv_pos_embeddings": 16},
    "SEWDConfig": {
        "squeeze_factor": 2, "num_conv_pos_embeddings": 16, "max_position_embeddings": 64, "position_buckets": 16,
    },
    "Wav2Vec2ConformerConfig": {"conv_depthwise_kernel_size": 5},
    "Wav2Vec2BertConfig": {"conv_depthwise_kernel_size": 5, "feature_projection_input_dim": 2 * BANDS},
}  # fmt: skip


def save_reader(name: str, folder: Path, **sizes: Any) -> Any:
    """Save a random encoder that classifies or transcribes a sound, and return it."""
    labels = {"vocab_size": len(LETTERS), "pad_token_id": 0} if "CTC" in name else NAMES
    made = getattr(transformers, READERS[name])
    config = made(**(_ENCODER | _OWN.get(READERS[name], {}) | labels | sizes))
    module = getattr(transformers, name)(config).eval()
    randomise(module, 0.2)
    module.save_pretrained(folder)
    extractor = (
        transformers.SeamlessM4TFeatureExtractor(feature_size=BANDS, num_mel_bins=BANDS)
        if made is transformers.Wav2Vec2BertConfig
        else transformers.Wav2Vec2FeatureExtractor(do_normalize=True)
    )
    extractor.save_pretrained(folder)
    if "CTC" in name:
        (folder / "vocab.json").write_text(json.dumps(LETTERS), "utf-8")
    return module


# class → configuration, sizes of its encoder, and feature extractor; with a tokenizer instead of letters
SPELLERS: dict[str, tuple[str, dict[str, Any], Any]] = {
    "ParakeetForCTC": (
        "ParakeetCTCConfig",
        {"num_attention_heads": 3, "subsampling_conv_channels": 8},
        transformers.ParakeetFeatureExtractor,
    ),
    "LasrForCTC": (
        "LasrCTCConfig",
        {"num_attention_heads": 2, "subsampling_conv_channels": 8},
        transformers.LasrFeatureExtractor,
    ),
}


def save_speller(name: str, folder: Path) -> Any:
    """Save a random model that transcribes with sub-words, and return it."""
    config, own, extractor = SPELLERS[name]
    sizes = {
        "hidden_size": 24,
        "num_hidden_layers": 2,
        "intermediate_size": 31,
        "conv_kernel_size": 5,
    }
    made = getattr(transformers, config)(
        vocab_size=len(LETTERS), pad_token_id=0, encoder_config=sizes | own | {"num_mel_bins": 16}
    )
    module = getattr(transformers, name)(made).eval()
    randomise(module, 0.2)
    module.save_pretrained(folder)
    extractor(feature_size=16).save_pretrained(folder)
    pieces = {piece.replace("b", "▁b"): i for piece, i in LETTERS.items()}
    tokenizers.Tokenizer(tokenizers.models.WordLevel(pieces, "a")).save(
        str(folder / "tokenizer.json")
    )
    return module


def save_whisper_classifier(folder: Path) -> Any:
    """Save a random Whisper encoder that classifies a sound, and return it."""
    module = transformers.WhisperForAudioClassification(
        transformers.WhisperConfig(**_WHISPER, classifier_proj_size=11, **NAMES)
    ).eval()
    randomise(module)
    module.save_pretrained(folder)
    transformers.WhisperFeatureExtractor(
        feature_size=MELS, chunk_length=SECONDS, hop_length=160, n_fft=400
    ).save_pretrained(folder)
    return module


_WRITER = {
    "vocab_size": VOCABULARY, "pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "decoder_start_token_id": 2,
}  # fmt: skip
# class → configuration, sizes and feature extractor; the sound that they read is as long as it is
WRITERS: dict[str, tuple[str, dict[str, Any], Any]] = {
    "Speech2TextForConditionalGeneration": (
        "Speech2TextConfig",
        {
            "encoder_layers": 3, "decoder_layers": 2, "d_model": 24, "encoder_attention_heads": 2, "conv_channels": 14,
            "decoder_attention_heads": 3, "encoder_ffn_dim": 31, "decoder_ffn_dim": 37, "max_source_positions": 211,
            "max_target_positions": 61, "input_feat_per_channel": MELS,
        },
        transformers.Speech2TextFeatureExtractor(feature_size=MELS, num_mel_bins=MELS),
    ),
    "MoonshineForConditionalGeneration": (
        "MoonshineConfig",
        {
            "hidden_size": 24, "intermediate_size": 31, "encoder_num_hidden_layers": 3, "decoder_num_hidden_layers": 2,
            "encoder_num_attention_heads": 3, "decoder_num_attention_heads": 3, "max_position_embeddings": 61,
        },
        transformers.Wav2Vec2FeatureExtractor(do_normalize=False),
    ),
    "SpeechT5ForSpeechToText": (
        "SpeechT5Config",
        _ENCODER | {
            "encoder_layers": 3, "decoder_layers": 2, "encoder_attention_heads": 3, "decoder_attention_heads": 2,
            "encoder_ffn_dim": 31, "decoder_ffn_dim": 37, "max_text_positions": 61, "positional_dropout": 0.0,
        },
        transformers.SpeechT5FeatureExtractor(),
    ),
}  # fmt: skip


def save_writer(name: str, folder: Path) -> Any:
    """Save a random model that generates text from a sound of any length, and return it."""
    config, sizes, extractor = WRITERS[name]
    module = getattr(transformers, name)(getattr(transformers, config)(**_WRITER, **sizes)).eval()
    randomise(module, 0.2)
    module.save_pretrained(folder)
    extractor.save_pretrained(folder)
    library_tokenizer(folder, VOCABULARY - 8)
    return module


SPECTROGRAM = {"max_length": 64, "num_mel_bins": 32}  # columns, bands


def save_spectrogram_reader(folder: Path, **sizes: Any) -> Any:
    """Save a random classifier of overlapping patches of 16 × 16, one every 10, and return it."""
    sizes = SPECTROGRAM | sizes
    config = transformers.ASTConfig(
        hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=31, **sizes, **NAMES
    )  # fmt: skip
    module = transformers.ASTForAudioClassification(config).eval()
    randomise(module)
    module.save_pretrained(folder)
    transformers.ASTFeatureExtractor(
        num_mel_bins=sizes["num_mel_bins"], max_length=sizes["max_length"]
    ).save_pretrained(folder)
    return module
