"""Small transformers models that label tokens, compare texts, make vectors or have a decoder that reads the text again, with a
tokenizer; and input texts for them."""

from pathlib import Path

from hub_models import _SEQ, _T5, _WIDE, Case, library_tokenizer

TEXT, SECOND = "The little dog was hungry.", "She is reading a book."
SIZE = 160  # of the tokenizer, below
_NAMES = {
    "id2label": {0: "O", 1: "B-PER", 2: "B-LOC"},
    "label2id": {"O": 0, "B-PER": 1, "B-LOC": 2},
}
_END = {"eos_token_id": 3}  # [SEP] of the tokenizer
WIDE = _WIDE | {"vocab_size": SIZE}
CASES = [
    Case("BertForTokenClassification", "BertConfig", WIDE | _NAMES),
    Case("ElectraForPreTraining", "ElectraConfig", WIDE | {"embedding_size": 7}),
    Case("BertForNextSentencePrediction", "BertConfig", WIDE),
    Case("BertForPreTraining", "BertConfig", WIDE),
    Case("BertForMultipleChoice", "BertConfig", WIDE),
    Case(
        "BartForSequenceClassification",
        "BartConfig",
        _SEQ | _END | {"vocab_size": SIZE, "num_labels": 3},
    ),
    Case("T5EncoderModel", "T5Config", _T5 | {"vocab_size": SIZE}),
    Case("BartModel", "BartConfig", _SEQ | {"vocab_size": SIZE}),
]
BY_NAME = {case.model: case for case in CASES}
TEXTS = {
    "BertForNextSentencePrediction": (TEXT, SECOND),
    "BertForPreTraining": ("The little [MASK] was hungry.", SECOND),
    "BertForMultipleChoice": (TEXT, SECOND, "The sea.", "a book"),
}
HOW = {"return_tensors": "pt", "return_token_type_ids": True}


def texts(name: str) -> tuple[str, ...]:
    return TEXTS.get(name, (TEXT,))


def save(name: str, folder: Path) -> None:
    """Save the model of this class with its tokenizer."""
    BY_NAME[name].save(folder)
    library_tokenizer(folder, SIZE)
