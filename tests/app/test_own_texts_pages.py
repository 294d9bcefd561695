"""A user's module that reads two texts, in the app: every page opens, and Attention names what is not shown."""

from pathlib import Path

import pytest
from app_parts import page_at, picture, said

from viz_app import checkpoints
from viz_app.navigation import PAGES

MODULE = """
import torch
from torch import nn
import models

class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.net = nn.Embedding(128, 22), nn.Transformer(22, 2, 2, 2, 31, batch_first=True)
        self.latent, self.learned = nn.MultiheadAttention(22, 2, batch_first=True), nn.Parameter(torch.randn(1, 3, 22))

    def forward(self, source, target):
        x = self.embedding(source)
        self.latent(self.learned, x, x)
        return self.net(x, self.embedding(target))

def make_scope():
    encode = lambda *texts: [list(text.encode("ascii")) for text in texts]
    net = Translator().eval()
    return models.watch(net, encode=encode, fields=("source", "target"), example=("bad cafe", "fig"))
"""


WRITER = """
import torch
from torch import nn
import models

class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.net = nn.Embedding(128, 22), nn.Transformer(22, 2, 2, 2, 31, batch_first=True)
        self.head = nn.Linear(22, 128)

    def forward(self, source, target):
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        return self.head(self.net(self.embedding(source), self.embedding(target), tgt_mask=mask))

def make_scope():
    torch.manual_seed(1)
    encode = lambda source, target: [list(source.encode("ascii")), [1, *target.encode("ascii")]]
    decode = lambda ids: bytes(ids).decode("ascii")
    fields = ("source", "target")
    return models.watch(Translator().eval(), encode=encode, decode=decode, end=2, fields=fields, example="bad", n_ctx=31)
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's module that is shown."""
    file = tmp_path / "mine.py"
    file.write_text(MODULE, "utf-8")
    monkeypatch.setenv(checkpoints.MODULE_VARIABLE, f"{file}:make_scope")


@pytest.mark.slow(except_one_in=5)
@pytest.mark.parametrize("module", [MODULE, WRITER], ids=["shown", "writes"])
@pytest.mark.parametrize("view", list(PAGES))
def test_every_page_opens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, view: str, module: str
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(module, "utf-8")
    monkeypatch.setenv(checkpoints.MODULE_VARIABLE, f"{file}:make_scope")
    page_at(view)


@pytest.mark.usefixtures("own")
def test_attention_names_the_parts_that_are_not_shown() -> None:
    app = page_at("attention")
    [[_, line]] = said(app, "unrecorded")["rows"]
    assert line == "Not shown: latent, it is not known which text its queries come from."
    blocks = picture(app, "overview")[0]["blocks"]
    assert [len(block["sites"]) for block in blocks] == [2, 2, 2]


@pytest.mark.usefixtures("own")
def test_both_texts_are_typed_and_label_the_axes_of_cross_attention() -> None:
    app = page_at("attention", site="net.decoder.layers.0.multihead_attn")
    boxes = {box.label.removesuffix(" (type here)"): box for box in app.text_area}
    next(
        box for label, box in boxes.items() if label.startswith(("Target", "Translation"))
    ).set_value("node").run()
    assert not app.exception
    header, arrays = picture(app, "head")
    assert [key for key, *_ in header["keys"]] == [
        "98",
        "97",
        "100",
        "32",
        "99",
        "97",
        "102",
        "101",
    ]
    assert arrays["weights"].size == 4 * 8
