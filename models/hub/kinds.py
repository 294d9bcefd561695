"""What a folder's model was made for, as its config.json says: transformers' class that opens it, and ours that asks it."""

from typing import Any

from models.errors import CheckpointError
from models.hub.model import HubModel
from models.hub.readers import Classifier, MaskedLM, QuestionAnswering
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
    ("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "AutoModelForCausalLM", CausalLM),
    ("MODEL_FOR_PRETRAINING_MAPPING_NAMES", "AutoModelForMaskedLM", MaskedLM),
    ("MODEL_MAPPING_NAMES", "AutoModel", HubModel),
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
    raise CheckpointError(
        f"{names[0]:.80} is none of what can be opened here: models that read text and write, fill masks, "
        "classify, answer questions or make vectors"
    )
