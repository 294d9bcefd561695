"""Checkpoints that the app opens: any folder on the user's own machine; in a shared app only those offered."""

import os
import shutil
from pathlib import Path

import pytest
from app_parts import app_at, picker, picker_models, picture, said
from streamlit.testing.v1 import AppTest

import models
import viz_app
from models.checkpoint import CheckpointError
from models.opening import shipped_folder
from viz_app import checkpoints
from viz_app.input_bar import menu
from viz_app.session.current_run import CurrentRun
from viz_app.views.models.page import ALL_MODELS, cards

APP = Path(viz_app.__file__).with_name("app.py")


def copy_to(folder: Path) -> Path:
    return Path(
        shutil.copytree(
            shipped_folder() / "dates", folder, ignore=shutil.ignore_patterns("snapshots")
        )
    )


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    """A checkpoint that is not under the folder of --models."""
    return copy_to(tmp_path / "elsewhere" / "private")


@pytest.fixture
def shelf(tmp_path: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of --models: two checkpoints, links that lead out of it, and files that are no checkpoints."""
    shelf = tmp_path / "shelf"
    copy_to(shelf / "mine")
    copy_to(shelf / "group" / "dates")
    (shelf / "linked").symlink_to(elsewhere)
    (shelf / "up").symlink_to("..")
    (shelf / "circle").symlink_to("circle")
    (shelf / "half").mkdir()
    (shelf / "half" / "config.json").write_text("{}")
    (shelf / "half" / "model.safetensors").symlink_to(elsewhere / "model.safetensors")
    (shelf / "empty").mkdir()
    monkeypatch.setenv(checkpoints.MODELS_VARIABLE, str(shelf))
    return shelf


def share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(checkpoints.SHARED_VARIABLE, "1")


def opened(name: str) -> AppTest:
    return app_at(checkpoint=name, source="3 May 1999")


def note(app: AppTest) -> str:
    assert said(app, "note checkpoint")["look"] == "note bad"
    return said(app, "note checkpoint")["rows"][0][1]


def unfit(app: AppTest) -> str:
    """Return the note on parameters of a link that could not be restored."""
    return said(app, "note address")["rows"][0][1]


def test_checkpoints_in_the_folder_are_offered_and_links_out_of_it_are_not(
    shelf: Path,
) -> None:
    assert checkpoints.available() == [*models.shipped(), "shelf/group/dates", "shelf/mine"]
    assert checkpoints.folder("shelf/group/dates") == str(shelf / "group" / "dates")
    assert checkpoints.folder("dates") == "dates"


def test_the_newest_download_of_each_repository_in_a_cache_is_offered_under_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository = tmp_path / "hub" / "models--owner--some-dates"
    blobs = repository / "blobs"
    for file in copy_to(blobs).iterdir():
        file.rename(blobs / f"of {file.name}")
    for age, commit in enumerate(("1c0ffee", "0decade")):
        download = repository / "snapshots" / commit
        download.mkdir(parents=True)
        for blob in blobs.iterdir():
            (download / blob.name.removeprefix("of ")).symlink_to(f"../../blobs/{blob.name}")
        os.utime(download, (1e9 + age, 1e9 + age))
    monkeypatch.setenv(checkpoints.MODELS_VARIABLE, str(tmp_path / "hub"))
    assert checkpoints.available() == [*models.shipped(), "hub/owner/some-dates"]
    assert checkpoints.folder("hub/owner/some-dates") == str(repository / "snapshots" / "0decade")
    assert models.load(checkpoints.folder("hub/owner/some-dates")).name == "some-dates"
    assert checkpoints._changed_at(repository / "snapshots" / "gone") == 0
    copy_to(tmp_path / "hub" / "owner" / "some-dates")  # a folder of that name comes first
    assert checkpoints.folder("hub/owner/some-dates") == str(tmp_path / "hub/owner/some-dates")


def test_the_search_is_bounded_and_the_page_says_so(
    shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not checkpoints.is_search_cut()
    monkeypatch.setattr(checkpoints, "MAX_SEARCHED_FOLDERS", 5)  # without group/dates
    assert checkpoints.available() == [*models.shipped(), "shelf/mine"]
    scope = models.load("dates", device="cpu")
    run = CurrentRun(scope, scope.run("3 May 1999"))
    *_, (_, line) = ALL_MODELS.payloads(run, None)["note models"]["rows"]
    assert "first 5 folders" in line


def test_a_menu_reads_each_folder_once(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When each folder was read for each line, sixty folders delayed a page by two seconds."""
    looked, look = [], checkpoints._is_offered
    monkeypatch.setattr(
        checkpoints, "_is_offered", lambda folder: looked.append(folder) or look(folder)
    )
    menu.menu_entries()
    assert {shelf / "group" / "dates", shelf / "mine"} <= set(looked)
    assert len(looked) == len(set(looked))


def test_a_part_of_a_model_is_not_offered(shelf: Path) -> None:
    """The parts are folders that sentence-transformers puts beside or below its transformer."""
    for place in ("mini/1_Pooling", "mini/2_Dense", "old/1_Pooling"):
        (shelf / place).mkdir(parents=True)
        (shelf / place / "config.json").write_text(
            '{"word_embedding_dimension": 22, "pooling_mode_mean_tokens": true}'
        )
    (shelf / "mini" / "config.json").write_text(
        '{"architectures": ["BertModel"], "model_type": "bert"}'
    )
    (shelf / "old" / "0_Transformer").mkdir()
    (shelf / "old" / "0_Transformer" / "config.json").write_text('{"model_type": "bert"}')
    (shelf / "mini" / "checkpoint-5").mkdir()
    (shelf / "mini" / "checkpoint-5" / "config.json").write_text('{"architectures": ["BertModel"]}')
    (shelf / "torn").mkdir()
    (shelf / "torn" / "config.json").write_text("{")  # reported when it is picked
    assert checkpoints.available()[len(models.shipped()) :] == [
        "shelf/group/dates",
        "shelf/mine",
        "shelf/mini",
        "shelf/mini/checkpoint-5",
        "shelf/old/0_Transformer",
        "shelf/torn",
    ]


def bad_folders(shelf: Path) -> dict[str, str]:
    """Make folders under that of --models whose config.json would block, flood or confuse a reader; return name and reason."""
    names = [
        "deep",
        "pipe",
        "sparse",
        "circling",
        "<img src=x>",
        "two\nlines",
        "turned\u202e",
        "\udc80",
    ]
    folders = [shelf / name for name in names]
    for folder in folders:
        folder.mkdir()
    (folders[0] / "config.json").write_bytes(b"[" * 400_000)
    os.mkfifo(folders[1] / "config.json")
    (folders[2] / "config.json").touch()
    os.truncate(folders[2] / "config.json", 12 * 2**30)
    (folders[3] / "config.json").symlink_to("config.json")
    for folder in folders[4:]:
        (folder / "config.json").write_text("{")
    return {"deep": "nested too deeply", "pipe": "not a regular file", "sparse": "larger than the"}


def test_a_bad_folder_is_listed_as_bad_and_breaks_no_page(shelf: Path) -> None:
    reasons = bad_folders(shelf)
    app = opened("dates")
    (group,) = [one for one in picker(app)["groups"] if one["title"] == "Folder shelf"]
    bad = {one["label"] for one in group["options"] if one["detail"] == "cannot be read"}
    assert {"shelf/deep", "shelf/pipe", "shelf/sparse"} <= bad
    assert {
        "shelf/<img src=x>",
        "shelf/twoU+000Alines",
        "shelf/turnedU+202E",
        "shelf/U+DC80",
    } <= bad
    scope = models.load("dates", device="cpu")
    _, unreadable = cards(CurrentRun(scope, scope.run("3 May 1999")))
    for name, reason in reasons.items():
        assert reason in dict(unreadable)[f"shelf/{name}"]
    for name, reason in reasons.items():
        assert reason in note(opened(f"shelf/{name}"))


def test_without_such_a_folder_the_shipped_ones_are_offered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert checkpoints.available() == models.shipped()
    share(monkeypatch)
    assert checkpoints.available() == models.shipped()


def test_on_the_users_own_machine_any_folder_opens(
    shelf: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(elsewhere.parent))
    assert checkpoints.folder(str(elsewhere)) == str(elsewhere)
    assert checkpoints.folder("~/private") == str(elsewhere)
    monkeypatch.chdir(shelf)
    assert checkpoints.folder("linked") == "linked"


def strange_names(shelf: Path, elsewhere: Path) -> list[str]:
    """Return names that point elsewhere on this machine, to existing files and to missing ones."""
    fifo = elsewhere.parent / "fifo"
    os.mkfifo(fifo)
    out = [
        str(elsewhere),
        str(elsewhere.parent),
        str(elsewhere / "config.json"),
        str(elsewhere) + "/",
        str(fifo),
        "/dev/null",
    ]
    out += [
        "/dev/zero",
        "/proc/self",
        "/proc/self/cwd",
        "/proc/1/root",
        "/",
        "",
        ".",
        "..",
        "~",
        "~root",
        "~nosuchuser",
        "\x00",
    ]
    out += [
        "a\x00b",
        "a" * 300,
        "a/" * 5_000,
        r"\\server\share",
        "//server/share",
        r"\\?\C:\models",
        "C:",
        "file:///etc",
        "\ud800",
    ]
    out += [
        str(shelf),
        str(shelf / "mine"),
        "shelf",
        "shelf/",
        "shelf/mine/",
        "shelf/../elsewhere/private",
        "shelf/linked",
    ]
    out += [
        "shelf/up/elsewhere/private",
        "shelf/half",
        "shelf/empty",
        "shelf/circle",
        "shelf/./mine",
        "dates/../dates",
        "DATES",
    ]
    out += [
        "./dates",
        "../shelf/mine",
        "/no/such/folder",
        "no such folder",
        "group/dates",
        "mine",
        "$HOME",
        "*",
        "shelf/*",
    ]
    return [name for name in out if name]


def test_a_link_among_the_snapshots_is_followed_and_plain_files_are_not_opened(
    shelf: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The menu scans every folder at every rerun."""
    snapshots = shelf / "mine" / "snapshots"
    snapshots.mkdir()
    for number in range(100):
        (snapshots / f"{number}.safetensors").touch()
        (shelf / "group" / "dates" / f"{number}.txt").touch()
    resolve, resolved = Path.resolve, []
    monkeypatch.setattr(Path, "resolve", lambda path: (resolved.append(path), resolve(path))[1])
    assert "shelf/mine" in checkpoints.available()
    assert len(resolved) < 50
    (snapshots / "1.safetensors").unlink()
    (snapshots / "1.safetensors").symlink_to(elsewhere / "model.safetensors")
    assert "shelf/mine" not in checkpoints.available()


def test_a_shared_app_gives_the_same_message_for_every_name_that_is_not_offered(
    shelf: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    share(monkeypatch)
    monkeypatch.chdir(shelf)
    for name in strange_names(shelf, elsewhere):
        with pytest.raises(CheckpointError) as error:
            checkpoints.folder(name)
        assert str(error.value) == "There is no such model here. Pick one from the list.", name
        assert checkpoints.why_refused(name)


def test_no_name_makes_it_hang_or_fail_on_the_users_own_machine(
    shelf: Path, elsewhere: Path
) -> None:
    opened, said = [], []
    for name in strange_names(shelf, elsewhere):
        try:
            opened.append(checkpoints.folder(name))
        except CheckpointError as error:
            said.append(str(error))
    assert len(opened) > 5
    assert all(Path(folder).is_dir() for folder in opened)
    assert len(said) > 20
    out = [text for text in said if "leads out of the folder of --models" in text]
    assert len(out) == 2  # shelf/linked and shelf/half
    assert all("No model called" in text and len(text) < 1000 for text in said if text not in out)


def test_a_shared_app_accesses_the_disk_the_same_way_whatever_the_name(
    shelf: Path, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    share(monkeypatch)
    asked: list[str] = []
    for ask in ("is_dir", "exists", "stat", "resolve", "expanduser"):
        own = getattr(Path, ask)
        monkeypatch.setattr(
            Path,
            ask,
            lambda path, *a, _own=own, **k: asked.append(str(path)) or _own(path, *a, **k),
        )
    asked_for = {}
    for name in (str(elsewhere), "/no/such/folder", "~root", "shelf/linked", "shelf/nothing"):
        asked.clear()
        assert checkpoints.why_refused(name)
        asked_for[name] = tuple(asked)
    assert len(set(asked_for.values())) == 1


def test_the_page_offers_and_opens_the_offered_checkpoints(
    shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    share(monkeypatch)
    app = opened("shelf/mine")
    assert sorted(picker_models(app)) == sorted(checkpoints.available())
    assert not picker(app)["takesPaths"]
    assert picture(app, "head")[0]["queries"][0][0].startswith("[start] → ")


@pytest.mark.slow(except_one_in=3)
@pytest.mark.parametrize(
    "name", ["~nosuchuser", "~root", "\x00", "a" * 300, "/proc/self", "/no/such/folder", "..", "/"]
)
def test_the_page_has_one_sentence_for_all_others(
    shelf: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    app = opened(name)
    assert name in ("~root", "/proc/self", "..", "/") or "No model called" in unfit(app)
    share(monkeypatch)
    app = opened(name)
    assert "There is no such model here. Pick one from the list." in unfit(app)
    assert picker(app)["value"] == "eng-fra"
    assert picture(app, "head")[1]["weights"].any()


@pytest.mark.parametrize("name", ["shelf/linked", "shelf/half"])
def test_a_link_out_of_the_folder_is_reported_and_the_last_model_stays(
    shelf: Path, name: str
) -> None:
    app = opened("shelf/mine")
    before, weights = picture(app, "head")
    # typed: a name that AppTest's list does not have
    app.session_state["url"].values["checkpoint"] = name
    app.run()
    assert not app.exception
    assert (
        note(app)
        == f"{name} leads out of the folder of --models, or holds a link that does; type the path it leads to"
    )
    after, still = picture(app, "head")
    assert (after["caption"], after["title"]) == (before["caption"], before["title"])
    assert (still["weights"] == weights["weights"]).all()


def test_a_shared_app_does_not_reveal_the_path_of_a_damaged_checkpoint(
    shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shelf / "mine" / "config.json").write_text("{")
    assert note(opened("shelf/mine")).startswith(f"{shelf}/mine/config.json: ")
    share(monkeypatch)
    assert note(opened("shelf/mine")).startswith("shelf/mine/config.json: ")
