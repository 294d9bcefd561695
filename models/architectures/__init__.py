"""The families of models a checkpoint can hold, by the name in its config.json."""

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


def name_of(config: Config) -> str:
    """Return the architecture that a configuration belongs to; a configuration of no registered one names its own."""
    found = next((name for name, (_, read) in ARCHITECTURES.items() if type(config) is read), "")
    return found or config.architecture


def family_of(config: Config) -> Family:
    """What kind of model this is; one that does not say stands behind all that do, under its architecture's name."""
    return getattr(config, "family", Family(name_of(config), 9999))


def build(config: Config) -> Model:
    """A new model of these sizes, its weights drawn by torch's generator."""
    make, _ = ARCHITECTURES[name_of(config)]
    return make(config)
