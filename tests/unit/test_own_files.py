"""The route for uploading an image or a sound to a session: what it keeps, and attacks on it."""

import os
from io import BytesIO
from types import SimpleNamespace

import pytest
from PIL import Image
from starlette.applications import Starlette
from starlette.testclient import TestClient

from models.architectures.base import IMAGE_FIELD, SOUND_FIELD, TEXT_FIELD, Field
from models.images import ImageFile, example
from models.images.file import MAX_IMAGE_BYTES
from models.sounds import SoundFile
from models.sounds import example_sound as sound
from models.sounds.file import MAX_SOUND_BYTES
from viz_app.session import byte_cache, live, own_files, uploads
from viz_app.session.cache import store
from viz_app.session.live import LiveSession


def scope(kind: str) -> SimpleNamespace:
    return SimpleNamespace(model=SimpleNamespace(fields=(Field("image", "patches", kind=kind),)))


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> LiveSession:
    one = LiveSession()
    one.scope = scope(IMAGE_FIELD)  # type: ignore[assignment]
    monkeypatch.setitem(live._sessions, one.token, one)
    return one


def post(
    session: LiveSession,
    content: bytes,
    name: str = "mine.png",
    token: str = "",
    kind: str = IMAGE_FIELD,
):
    client = TestClient(Starlette(routes=own_files.own_files_routes()))
    headers = {"Authorization": f"Bearer {token or session.token}"}
    return client.post(
        own_files.own_files_path(),
        params={"name": name, "kind": kind},
        content=content,
        headers=headers,
    )


def picture(shade: int, side: int = 30) -> bytes:
    content = BytesIO()
    Image.new("RGB", (side, side + 1), (shade, 0, 0)).save(content, "PNG")
    return content.getvalue()


def test_an_image_that_is_sent_is_the_session_s(session):
    answer = post(session, picture(7), "<b>mine\u202e.png")
    assert answer.status_code == 200
    assert answer.json()["kept"] == "30 × 31 pixels"
    assert answer.headers["cache-control"] == "no-store"
    file = session.files[answer.json()["reference"]]
    assert isinstance(file, ImageFile)
    assert file.content == picture(7)
    assert file.startswith("<b>mine")
    assert "\u202e" not in file


def test_a_session_keeps_the_last_three(session):
    references = [post(session, picture(shade)).json()["reference"] for shade in (1, 2, 3, 4, 2)]
    assert list(session.files) == [references[2], references[3], references[1]]
    assert references[4] == references[1]


BAD = {
    "noise": (os.urandom(5000), "damaged, or not a"),
    "html": (b"<html><script>alert(1)</script>", "damaged, or not a"),
    "empty": (b"", "damaged, or not a"),
    "too large": (bytes(MAX_IMAGE_BYTES + 1), "larger than 5 MB"),
}


@pytest.mark.parametrize("how", BAD)
def test_a_file_that_is_no_image_is_refused_and_the_last_image_stays(session, how):
    kept = post(session, picture(5)).json()["reference"]
    answer = post(session, BAD[how][0])
    assert answer.status_code == 422
    assert BAD[how][1] in answer.json()["error"]
    assert list(session.files) == [kept]


def test_the_route_refuses_strangers_and_models_of_texts(session):
    assert post(session, picture(1), token="0.AAAAAAAAAAAAAAAAAAAAAA").status_code == 404
    session.scope = scope(TEXT_FIELD)
    assert post(session, picture(1)).status_code == 404
    session.scope = None
    assert post(session, picture(1)).status_code == 404
    assert session.files == {}


BAD_SOUNDS = {
    "noise": (os.urandom(5000), "not a WAV file"),
    "an image": (picture(3), "not a WAV file"),
    "cut off": (sound().content[:40], "cut off"),
    "too large": (bytes(MAX_SOUND_BYTES + 1), "larger than 8 MB"),
}


def test_a_sound_is_kept_for_a_model_that_reads_one_and_no_other(session):
    assert post(session, sound().content, kind=SOUND_FIELD).status_code == 404
    session.scope = scope(SOUND_FIELD)
    answer = post(session, sound().content, "<b>mine\u202e.wav", kind=SOUND_FIELD)
    assert answer.json()["kept"] == "2.0 s at 16,000 Hz"
    reference = answer.json()["reference"]
    file = session.files[reference]
    assert isinstance(file, SoundFile)
    assert file.content == sound().content
    assert "\u202e" not in file
    assert post(session, picture(1), kind=IMAGE_FIELD).status_code == 404
    assert post(session, picture(1), kind="../etc").status_code == 404
    for content, wanted in BAD_SOUNDS.values():
        answer = post(session, content, kind=SOUND_FIELD)
        assert answer.status_code == 422
        assert wanted in answer.json()["error"]
    assert list(session.files) == [reference]
    assert own_files.file_choices(session, SOUND_FIELD)[reference].startswith("<b>mine")
    assert reference not in own_files.file_choices(session, IMAGE_FIELD)


def test_a_sound_is_not_accepted_as_an_image(session):
    session.scope = scope(SOUND_FIELD)
    reference = post(session, sound().content, kind=SOUND_FIELD).json()["reference"]
    images, sounds = ((Field(kind, kind, kind=kind),) for kind in (IMAGE_FIELD, SOUND_FIELD))
    assert own_files.with_files(session, sounds, (reference,))[0].content == sound().content
    assert own_files.with_files(session, images, (None,)) == (example(),)


def test_too_much_is_not_read_to_its_end(session):
    sent = []

    def endless():
        for _ in range(200):
            sent.append(1)
            yield b"a" * 100_000

    assert "larger than" in post(session, endless()).json()["error"]  # type: ignore[arg-type]
    assert session.files == {}


def test_one_file_of_a_session_at_a_time(session, monkeypatch):
    monkeypatch.setitem(uploads._sending, session.token, 1)
    assert post(session, picture(1)).status_code == 429


def test_the_bytes_of_an_image_count_in_the_budget_of_all_runs(session, monkeypatch):
    cache = byte_cache.ByteCache(10**7)
    monkeypatch.setattr(store, "cache_store", cache)
    noise = BytesIO()
    Image.frombytes("RGB", (600, 500), os.urandom(900_000)).save(noise, "PNG")
    n = len(noise.getvalue())
    post(session, noise.getvalue())
    assert cache.bytes >= n
    assert byte_cache.held_parts(ImageFile("x", noise.getvalue()))[0]
    assert sum(byte_cache.held_parts({"image": ImageFile("x", noise.getvalue())})[0].values()) >= n


def test_an_unknown_reference_is_the_example(session, monkeypatch):
    stood_in = []
    monkeypatch.setattr(own_files.url_state, "use_fallback", lambda *args: stood_in.append(args))
    fields = (Field("image", "patches", kind=IMAGE_FIELD),)
    reference = post(session, picture(9)).json()["reference"]
    assert own_files.with_files(session, fields, (reference,))[0].content == picture(9)
    assert own_files.with_files(session, fields, (None,)) == (example(),)
    assert not stood_in
    assert own_files.with_files(session, fields, ("own-" + "0" * 12,)) == (example(),)
    assert "a link cannot hold an image file" in stood_in[0][2]
