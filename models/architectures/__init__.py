"""The families of models that a checkpoint can hold, by the name in its config.json."""

from models.architectures.attention_only import AttentionOnly, AttentionOnlyConfig
from models.architectures.base import Architecture, Config, Family
from models.architectures.bert import BERT, BERTConfig
from models.architectures.gpt import GPT, GPTConfig
from models.architectures.seq2seq import Seq2Seq, Seq2SeqConfig
from models.architectures.transformer import Transformer, TransformerConfig
from models.architectures.xlnet import XLNet, XLNetConfig

Model = Architecture

ARCHITECTURES: dict[str, tuple[type[Model], type[Config]]] = {
    "transformer": (Transformer, TransformerConfig),
    "seq2seq": (Seq2Seq, Seq2SeqConfig),
    "attention only": (AttentionOnly, AttentionOnlyConfig),
    "gpt": (GPT, GPTConfig),
    "bert": (BERT, BERTConfig),
    "xlnet": (XLNet, XLNetConfig),
}


def architecture_name(config: Config) -> str:
    """Return the architecture of a configuration; an unregistered one names its own."""
    names = (name for name, (_, kind) in ARCHITECTURES.items() if type(config) is kind)
    return next(names, "") or getattr(config, "architecture", type(config).__name__)


def family_of(config: Config) -> Family:
    """Return the family of a model; one that does not name any sorts last, by its architecture."""
    return getattr(config, "family", Family(architecture_name(config)))


def build(config: Config) -> Model:
    """Return a new model of these sizes, with weights drawn by torch's generator."""
    make, _ = ARCHITECTURES[architecture_name(config)]
    return make(config)
