"""The page Task of a classifier of the library: a row's head is chosen only if one token's row is classified."""

from pathlib import Path

import pytest
import transformers
from app_parts import page_at, picture
from hub_models import _WIDE, library_tokenizer


@pytest.mark.parametrize(("pooling", "parts"), [("cls", ["layer", "head"]), ("mean", [])])
def test_a_head_is_chosen_only_where_its_row_is_shown(
    pooling: str, parts: list[str], tmp_path: Path
) -> None:
    sizes = _WIDE | {"hidden_size": 24, "vocab_size": 97, "pad_token_id": 0}
    tokens = {"cls_token_id": 1, "sep_token_id": 2}
    config = transformers.ModernBertConfig(**sizes, **tokens, classifier_pooling=pooling)
    transformers.ModernBertForSequenceClassification(config).save_pretrained(tmp_path)
    library_tokenizer(tmp_path, 89)
    app = page_at("task", checkpoint=str(tmp_path), text="The little dog was hungry.")
    header, arrays = picture(app, "pair")
    assert bool(header["reading"]["keys"]) == bool(len(arrays["weights"])) == bool(parts)
    drawn = [str(group.key) for group in app.button_group]
    assert [key for key in drawn if key.startswith("which-")] == [f"which-{part}" for part in parts]
