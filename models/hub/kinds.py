"""What a folder's model was made for, as its config.json says: transformers' class that opens it, and ours that asks it."""

from typing import Any

from models.errors import CheckpointError
from models.hub.choosers import MultipleChoice, NextSentence
from models.hub.labellers import TokenClassifier
from models.hub.model import HubModel
from models.hub.readers import Classifier, MaskedLM, QuestionAnswering
from models.hub.refusals import other_input
from models.hub.writers import CausalLM, EncoderDecoderLM

# transformers' table of classes → its class that opens them, and ours that asks them; what is in none makes vectors
KINDS: tuple[tuple[str, str, type[HubModel]], ...] = (
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
    ("MODEL_FOR_PRETRAINING_MAPPING_NAMES", "AutoModelForPreTraining", MaskedLM),
    ("MODEL_MAPPING_NAMES", "AutoModel", HubModel),
    ("MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES", "AutoModelForTextEncoding", HubModel),
)


def kind_of(described: dict[str, Any]) -> tuple[str, str, type[HubModel]]:
    """The name of a folder's class, transformers' class that opens it, and ours that asks it."""
    from transformers.models.auto import modeling_auto
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    kind, names = described.get("model_type"), described.get("architectures") or []
    if kind not in CONFIG_MAPPING_NAMES:
        if "auto_map" in described:
            raise CheckpointError(
                f"{kind!r:.60} brings code of its own to run (trust_remote_code), which is not done here"
            )
        raise CheckpointError(
            f"{kind!r:.60} is not a kind of model that this version of transformers knows"
        )
    if not isinstance(names, list) or not names or not isinstance(names[0], str):
        raise CheckpointError(
            "config.json names no architectures, so nothing says what the model was made for"
        )
    for table, opens, ask in KINDS:
        known = getattr(modeling_auto, table).get(kind, ())
        if names[0] in ((known,) if isinstance(known, str) else known):
            return names[0], opens, ask
    import transformers

    if reads := other_input(transformers, names[0]):
        raise CheckpointError(f"{names[0]:.80} reads {reads}; only models that read text are shown")
    raise CheckpointError(
        f"{names[0]:.80} is none of what can be opened here: models that read text and write, fill masks, label it or "
        "its tokens, compare texts, answer questions or make vectors"
    )
