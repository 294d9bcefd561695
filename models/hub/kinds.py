"""Model kinds that can be opened, by the class in config.json, and reasons why others cannot."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from models.errors import CheckpointError, first_line
from models.hub.choosers import MultipleChoice, NextSentence
from models.hub.images.model import ImageClassifier, ImageModel
from models.hub.images.text_image import TextImageModel
from models.hub.model import HubModel
from models.hub.readers import Classifier, MaskedLM, QuestionAnswering, TokenClassifier
from models.hub.sounds.model import SpeechToText
from models.hub.sounds.reader import CTCModel, SoundClassifier
from models.hub.writers import CausalLM, EncoderDecoderLM, is_encoder_decoder

N_LONG, N_SHORT = 5, 3  # tokens of the runs
_SOFTMAX = (F.softmax, torch.softmax, Tensor.softmax)
_TOKENS = {F.scaled_dot_product_attention: -2, F.multi_head_attention_forward: 0}  # their axis


def other_input(transformers: Any, name: str) -> str:
    """Return the input of a class of transformers, such as "pixel values"; "" for token ids."""
    reads = getattr(getattr(transformers, name, None), "main_input_name", "input_ids")
    return "" if reads in ("input_ids", "inputs") else reads.replace("_", " ")


@torch.no_grad()
def why_nothing_is_shown(module: nn.Module, otherwise: str = "") -> str:
    """Return the reason why no attention between the tokens of a text is seen in this model.

    `otherwise` is the reason if its attention is between tokens.
    """
    counter = _Softmaxes()
    try:
        with counter:
            _run(module, N_LONG)
    except Exception as error:  # the library may raise anything
        return _does_not_run(module, N_LONG, error)
    if not counter.shapes:
        return (
            "no softmax is computed in a run, so there are no attention weights between its tokens"
        )
    if (N_LONG, N_LONG) not in counter.shapes:
        shapes = " and ".join(f"{q} × {k}" for q, k in sorted(counter.shapes))
        return (
            f"its attention is not between the tokens of a text: in a run of {N_LONG} tokens it weighs {shapes} "
            "positions of its own"
        )
    return otherwise or (
        "it calls neither scaled_dot_product_attention nor multi_head_attention_forward, and returns no weights: "
        "there is nothing to show"
    )


@torch.no_grad()
def why_it_does_not_run(module: nn.Module) -> str:
    """Return why a model does not run on a text alone, in its library's words; empty if it does."""
    for n in (N_SHORT, N_LONG):
        try:
            _run(module, n)
        except Exception as error:  # the library may raise anything
            return _does_not_run(module, n, error)
    return ""


def _run(module: Any, n: int) -> None:
    """Run a model on n tokens; its decoder, if it has one, reads them too."""
    ids = torch.arange(3, 3 + n)[None] % max(2, getattr(module.config, "vocab_size", N_LONG + 3))
    ids = ids.to(next(module.parameters()).device)
    module(input_ids=ids, **({"decoder_input_ids": ids} if is_encoder_decoder(module) else {}))


def _does_not_run(module: nn.Module, n: int, error: Exception) -> str:
    reads = getattr(module, "input_modalities", ("text",))
    kinds = [reads] if isinstance(reads, str) else list(reads)
    others = f"it reads {' and '.join(kinds)}, and " if set(kinds) - {"text"} else "it "
    first = first_line(error)
    is_sentence = first and not isinstance(error, AttributeError | TypeError)  # Python's own
    in_its_words = f" ({first})" if is_sentence else ""
    return f"{others}does not run on a text of {n} tokens alone{in_its_words}"


class _Softmaxes(TorchFunctionMode):
    """Collects the (query, key) shape of every softmax, even inside torch's attention."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: set[tuple[int, int]] = set()

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        if func in _SOFTMAX and result.dim() > 2:
            self.shapes.add((result.shape[-2], result.shape[-1]))
        elif func in _TOKENS:
            query, key = (*args, *(kwargs[name] for name in ("query", "key")[len(args) :]))[:2]
            self.shapes.add((query.shape[_TOKENS[func]], key.shape[_TOKENS[func]]))
        return result


PRETRAINING = "AutoModelForPreTraining"
# transformers' table of classes, its class that opens them, and our class
HUB_KINDS: tuple[tuple[str, str, type[HubModel]], ...] = (
    ("MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES", "AutoModelForSeq2SeqLM", EncoderDecoderLM),
    ("MODEL_FOR_MASKED_LM_MAPPING_NAMES", "AutoModelForMaskedLM", MaskedLM),
    (
        "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES",
        "AutoModelForSequenceClassification",
        Classifier,
    ),
    (
        "MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES",
        "AutoModelForQuestionAnswering",
        QuestionAnswering,
    ),
    (
        "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES",
        "AutoModelForTokenClassification",
        TokenClassifier,
    ),
    (
        "MODEL_FOR_NEXT_SENTENCE_PREDICTION_MAPPING_NAMES",
        "AutoModelForNextSentencePrediction",
        NextSentence,
    ),
    ("MODEL_FOR_MULTIPLE_CHOICE_MAPPING_NAMES", "AutoModelForMultipleChoice", MultipleChoice),
    ("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "AutoModelForCausalLM", CausalLM),
    ("MODEL_FOR_PRETRAINING_MAPPING_NAMES", PRETRAINING, MaskedLM),
    ("MODEL_FOR_CTC_MAPPING_NAMES", "AutoModelForCTC", CTCModel),
    ("MODEL_MAPPING_NAMES", "AutoModel", HubModel),
    ("MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES", "AutoModelForTextEncoding", HubModel),
    ("MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES", "AutoModelForSpeechSeq2Seq", SpeechToText),
    (
        "MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES",
        "AutoModelForAudioClassification",
        SoundClassifier,
    ),
    (
        "MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES",
        "AutoModelForImageClassification",
        ImageClassifier,
    ),
)
TOWER_METHODS = ("get_text_features", "get_image_features")  # of a class with two towers
PIXELS = "pixel values"  # the main input of a class that reads an image alone


def model_kind(described: dict[str, Any]) -> tuple[str, str, type[HubModel]]:
    """Return the name of a folder's class, transformers' class that opens it, and our own class.

    Raises CheckpointError for a class that cannot be opened here.
    """
    import transformers
    from transformers import CONFIG_MAPPING
    from transformers.models.auto import modeling_auto

    kind, names = described.get("model_type"), described.get("architectures") or []
    if kind not in CONFIG_MAPPING:
        if "auto_map" in described:
            raise CheckpointError(
                f"{kind!r:.60} needs its own code (trust_remote_code), which Attnscope does not run"
            )
        raise CheckpointError(
            f"{kind!r:.60} is not a kind of model that this version of transformers knows"
        )
    if not isinstance(names, list) or not names or not isinstance(names[0], str):
        raise CheckpointError(
            "config.json names no architectures, so it is unknown what the model was made for"
        )
    for table, opens, model_class in HUB_KINDS:
        classes = getattr(modeling_auto, table).get(kind, ())
        if names[0] in ((classes,) if isinstance(classes, str) else classes):
            return names[0], opens, _kind_of_class(transformers, names[0], opens, model_class)

    if reads := other_input(transformers, names[0]):
        raise CheckpointError(
            f"{names[0]:.80} reads {reads}; besides models that read text, only models that classify or embed "
            "images, or transcribe or classify sounds, can be opened"
        )
    raise CheckpointError(
        f"{names[0]:.80} cannot be opened: transformers does not list it among the {kind!r:.60} models that generate "
        "text, fill masks, classify texts or tokens, compare texts, answer questions, make vectors, classify images, "
        "or transcribe or classify sounds"
    )


def _kind_of_class(
    transformers: Any, name: str, opens: str, model_class: type[HubModel]
) -> type[HubModel]:
    """Return our class for a class of one table; some classes for pretraining generate text."""
    if opens == PRETRAINING and getattr(transformers, name).can_generate():
        return CausalLM
    return _with_image(transformers, name) if model_class is HubModel else model_class


def _with_image(transformers: Any, name: str) -> type[HubModel]:
    """Return our class for one that computes vectors: it reads a text, an image, or both."""
    if other_input(transformers, name) == PIXELS:
        return ImageModel
    model_class = getattr(transformers, name, None)
    both = all(hasattr(model_class, tower) for tower in TOWER_METHODS)
    return TextImageModel if both else HubModel
