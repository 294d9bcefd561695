"""All heads of a random model of 12 layers × 12 heads at 128 tokens; every key typed draws the next run."""

from pathlib import Path

import streamlit as st
import torch

from models import Scope, Trace
from models.architectures.transformer import Transformer, TransformerConfig
from models.checkpoint import Checkpoint
from models.tokenizers.base import Tokenizer
from viz_app import words
from viz_app.components.catalogue import OVERVIEW
from viz_app.components.mounting import show
from viz_app.drawing.overview import overview
from viz_app.session import process

LAYERS, HEADS, TOKENS, D_HEAD = 12, 12, 128, 16
RUNS = 30  # Streamlit does not send the same data again, so every picture differs


@st.cache_resource
def runs() -> list[Trace]:
    """Yield runs of an encoder alone, which has exactly LAYERS × HEADS heads; the end token is the last token."""
    torch.manual_seed(0)
    tokenizer, d_model = Tokenizer.characters("ab"), HEADS * D_HEAD
    model = Transformer(
        TransformerConfig(tokenizer.vocab_size, d_model, HEADS, LAYERS, 0, 4 * d_model, 0.0, TOKENS)
    ).eval()
    scope = Scope(Checkpoint(Path("random"), model, tokenizer, {}), torch.device("cpu"))
    return [
        scope.run("".join("ab"[j % (i + 2) == 0] for j in range(TOKENS - 1)), "a")
        for i in range(RUNS)
    ]


@st.fragment
def page() -> None:
    text = st.text_input("Text", key="source", live="0ms")
    st.text(text or "nothing typed yet")
    show(
        OVERVIEW,
        overview(runs()[len(text)], words.terms("")),
        on_pick=lambda site, head: None,
        on_join=lambda is_on: None,
    )


process.prepare()
page()
process.freeze_garbage()
