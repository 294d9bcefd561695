"""A speech model in a browser: a frame, a token and a head are clicked, and a user's file is read or refused."""

from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from playwright.sync_api import Page, expect
from served_app import visit
from sound_models import FRAMES, save

from models.sounds import SoundFile, Waveform, decoded_sound, example_sound

MAP, SAYS, BOX = ".sound-map", ".own-file .says", ".sound-map .plain"
SELF, CROSS = "model.encoder.layers.0.self_attn", "model.decoder.layers.0.encoder_attn"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whisper")
    save(folder)
    return folder


def frames_read(folder: Path, file: SoundFile) -> torch.Tensor:
    """Return the library's weights of the first layer: (head, query, key)."""
    made = transformers.WhisperForConditionalGeneration
    module = made.from_pretrained(folder, attn_implementation="eager").eval()
    extractor = transformers.WhisperFeatureExtractor.from_pretrained(folder)
    given = extractor(decoded_sound(file).samples, sampling_rate=16_000, return_tensors="pt")
    with torch.no_grad():
        return module.get_encoder()(**given, output_attentions=True).attentions[0][0]


def at(page: Page, frame: int, n: int = FRAMES) -> dict[str, float]:
    box = page.locator(BOX).bounding_box()
    assert box
    return {"x": box["width"] * (frame + 0.5) / n, "y": 20}


def best(page: Page) -> float:
    """Return the first weight in the sentence under the picture."""
    return float(page.locator(f"{MAP} .reading span").nth(3).inner_text().strip(" ,."))


def test_a_clicked_frame_is_the_query_and_a_small_head_the_chosen_one(
    page: Page, folder: Path
) -> None:
    where = {"checkpoint": str(folder), "site": SELF, "head": "0", "lock": "q3"}
    visit(page, "attention", f"{MAP}[data-painted]", **where)
    wanted = frames_read(folder, example_sound())
    assert abs(best(page) - float(wanted[0, 3].max())) < 6e-4
    page.hover(BOX, position=at(page, 41))  # type: ignore[arg-type]
    expect(page.locator(MAP)).to_have_attribute("data-shown", "41")
    expect(page.locator(f"{MAP} .what")).to_have_text("What the frame at 0.82 s attends to")
    page.click(BOX, position=at(page, 41))  # type: ignore[arg-type]
    expect(page.locator(MAP)).to_have_attribute("data-query", "41")
    page.wait_for_url("**lock=q41*")
    page.click(f"{MAP} .small button >> nth=1")
    expect(page.locator(MAP)).to_have_attribute("data-head", "1")
    assert abs(best(page) - float(wanted[1, 41].max())) < 6e-4
    page.focus(BOX)
    page.keyboard.press("ArrowLeft")
    expect(page.locator(MAP)).to_have_attribute("data-query", "40")
    page.locator(f"{MAP} .cells").hover(position=at(page, 9))  # type: ignore[arg-type]
    shown = float(page.locator(f"{MAP} .tip").get_attribute("data-weight") or "nan")
    assert abs(shown - float(wanted[1, 40, 9])) < 1e-6


def test_a_token_is_clicked_and_a_file_is_read_or_keeps_the_picture(
    page: Page, folder: Path
) -> None:
    where = {"checkpoint": str(folder), "site": CROSS, "head": "0", "lock": "q2"}
    visit(page, "attention", f"{MAP}[data-painted]", **where)
    page.click(f"{MAP} .queries button >> nth=5")
    expect(page.locator(MAP)).to_have_attribute("data-query", "5")
    page.wait_for_url("**lock=q5*")
    files = page.locator(".own-file input")
    assert "wav" in str(files.get_attribute("accept"))
    short = Waveform(np.random.default_rng(2).uniform(-0.5, 0.5, 8000).astype(np.float32), 16_000)
    own = {"name": "<b>mine.wav", "mimeType": "audio/wav", "buffer": short.as_wav()}
    files.set_input_files([own])  # type: ignore[list-item]
    expect(page.locator(SAYS)).to_contain_text("<b>mine.wav: 0.5 s at 16,000 Hz")
    page.wait_for_url("**sound-sound=own-*")
    expect(page.locator(MAP)).to_have_attribute("data-across", "25")
    expect(page.locator(f"{MAP} .reading")).to_contain_text(
        "is on the silence that is put after it"
    )
    page.click(f"{MAP} .extent")
    expect(page.locator(MAP)).to_have_attribute("data-across", str(FRAMES))
    for name, content, wanted in (
        ("<i>bad.wav", b"<svg onload=alert(1)>", "<i>bad.wav: the file is not a WAV file"),
        ("large.wav", bytes(8_000_001), "large.wav: more than 8 MB"),
    ):
        bad = {"name": name, "mimeType": "audio/wav", "buffer": content}
        files.set_input_files([bad])  # type: ignore[list-item]
        expect(page.locator(f"{SAYS}.bad")).to_contain_text(wanted)
    assert page.locator(".own-file i, .own-file b, .own-file svg").count() == 0
    expect(page.locator(MAP)).to_have_attribute("data-across", str(FRAMES))
    page.reload()
    page.wait_for_selector(f"{MAP}[data-painted]")
    expect(page.locator(".stMain")).to_contain_text("a link cannot hold a sound file")
    expect(page.locator(MAP)).to_have_attribute("data-across", "100")


def test_on_task_a_generated_token_chooses_what_is_shown_over_the_sound(
    page: Page, folder: Path
) -> None:
    where = {"checkpoint": str(folder), "site": CROSS, "head": "0", "task-position": "2"}
    visit(page, "task", f"{MAP}[data-painted]", **where)
    expect(page.locator(MAP)).to_have_attribute("data-query", "2")
    assert not page.locator(f"{MAP} .queries").is_visible()
    page.click(".answers .place >> nth=5")
    expect(page.locator(MAP)).to_have_attribute("data-query", "5")
    page.focus(BOX)
    page.keyboard.press("ArrowRight")
    expect(page.locator(".answers")).to_have_attribute("data-position", "6")
    page.wait_for_url("**task-position=6*")
