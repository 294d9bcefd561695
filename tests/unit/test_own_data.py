"""A user's data on the page Train: what is accepted, the sentences about it, and the run it gives."""

import os
import random
import shlex
import time
from contextlib import suppress
from dataclasses import asdict

import pytest
import torch
from starlette.applications import Starlette
from starlette.testclient import TestClient

from models import cli
from models.commands.train_flags import plan_of
from models.opening import load
from models.training.recipes import SMALL_FILE, for_small_file, plan_for
from viz_app.controls.train.text import TRAIN_HELP
from viz_app.session import live, own_data_route, run_owners, uploads
from viz_app.session.live import LiveSession
from viz_app.trainers import folders, own_data
from viz_app.trainers.own_data import DATA_KINDS, MAX_OWN_DATA_BYTES, OwnData, keep_own_data
from viz_app.trainers.pool import Pool
from viz_app.trainers.run import DONE, FAILED, STOPPED
from viz_app.trainers.settings import RunSettings

pytestmark = pytest.mark.usefixtures("own_trainers")

WORDS = "the a dog cat man woman sees hits likes big small red house tree runs and then".split()


def sentences(n: int, seed: int = 1) -> list[str]:
    rng = random.Random(seed)
    return [f"{' '.join(rng.choices(WORDS, k=6))} {i}" for i in range(n)]


FILES = {
    "own pairs": "\n".join(f"{one}\t{one[::-1]}" for one in sentences(401)),
    "own text": "\n\n".join(" ".join(sentences(5, seed)) for seed in range(331)),
    "own labels": "\n".join(f"{one}\t{'odd' if i % 2 else 'even'}" for i, one in enumerate(sentences(211))),
}  # fmt: skip


def keep(kind: str) -> OwnData:
    return keep_own_data(FILES[kind].encode(), kind, "mine.txt")


def settings(data: OwnData, model: str = "") -> RunSettings:
    model = model or next(iter(data.of.tasks))
    return RunSettings(data.of.tasks[model], model, own=data)


def test_the_content_of_a_file_is_counted():
    pairs, text, labels = map(keep, DATA_KINDS)
    assert pairs.in_words == f"401 sentence pairs, {len(FILES['own pairs']):,} characters"
    assert text.in_words == f"331 documents, {len(FILES['own text']):,} characters"
    assert labels.in_words == f"211 labelled texts, {len(FILES['own labels']):,} characters"
    assert (labels.classes, labels.n_texts) == (("even", "odd"), 1)
    assert text.documents == "paragraphs"
    lines = keep_own_data("\n".join(sentences(400)).encode(), "own text", "x")
    assert (lines.documents, lines.n) == ("lines", 400)
    # pairs that repeat others up to punctuation are in the file, too, though some are in no set
    repeated = "\n".join(f"{one} !\t{one[::-1]}" for one in sentences(101))
    both = keep_own_data(f"{FILES['own pairs']}\n{repeated}".encode(), "own pairs", "x")
    assert both.n == 502
    whole = keep_own_data(" ".join(sentences(400)).encode(), "own text", "x")
    assert whole.documents == "whole"
    assert whole.in_words == f"{whole.n_characters:,} characters"


@pytest.mark.parametrize(("end", "blank"), [("\r\n", ""), ("\r", ""), ("\n", " \t")])
def test_neither_the_ends_of_lines_nor_spaces_between_them_change_the_paragraphs(end, blank):
    paragraphs = ["\n".join(sentences(2, seed)) for seed in range(307)]
    usual = keep_own_data("\n\n".join(paragraphs).encode(), "own text", "x")
    other = f"\n{blank}\n".join(paragraphs).replace("\n", end)
    kept = keep_own_data(other.encode(), "own text", "x")
    assert (kept.documents, kept.n) == (usual.documents, usual.n) == ("paragraphs", 307)
    assert kept.n_characters == usual.n_characters + 306 * len(blank)


def test_only_own_pairs_keep_their_best_weights_as_the_page_says():
    for kind, data in DATA_KINDS.items():
        patience = {
            plan_for(task, model, 401).recipe.patience for model, task in data.tasks.items()
        }
        keeps_best = f"with patience, such as one on your {kind}, keeps" in TRAIN_HELP
        assert keeps_best == (0 not in patience)


@pytest.mark.parametrize("kind", DATA_KINDS)
def test_the_command_line_reads_the_plan_that_the_page_states(kind, tmp_path):
    data = keep(kind)
    for model in data.of.tasks:
        chosen = settings(data, model).having(seed=7)
        assert chosen.problems() == {}
        options = cli._parser().parse_args(chosen.arguments(tmp_path))
        start = load(options.start, device="cpu") if options.start else None
        read = plan_of(options, data.n, start)
        assert {name: read.sizes[name] for name in chosen.plan.sizes} == chosen.plan.sizes
        recipes = asdict(read.recipe), asdict(chosen.recipe)
        assert recipes[0] == recipes[1]
        data_settings = {k: v for k, v in read.data.items() if k != "tokenizer"}
        assert data_settings == chosen.plan.data
        assert options.data == [tmp_path / data.of.file]


def test_runs_differ_by_the_content_of_their_files_not_by_their_names():
    pairs = FILES["own pairs"]
    same, renamed, edited, longer = (
        settings(keep_own_data(content.encode(), "own pairs", name))
        for content, name in (
            (pairs, "mine.txt"), (pairs, "a copy.txt"), (pairs.replace("dog", "god"), "mine.txt"),
            (pairs.replace("dog", "doggy"), "mine.txt"),
        )
    )  # fmt: skip
    mine = settings(keep("own pairs"))
    assert mine.differences(same) == mine.differences(renamed) == []
    assert mine.differences(edited) == [("data", "mine.txt", "other content of the same size")]
    assert mine.differences(longer) == [("data", mine.own.in_words, longer.own.in_words)]
    assert edited.differences(renamed) == [("data", "mine.txt", "a copy.txt")]
    assert ("data", "none", "mine.txt") in RunSettings("copy", "transformer").differences(mine)


def test_the_size_of_the_file_chooses_the_recipe():
    plan = plan_for("language", "gpt")
    small = for_small_file(plan, SMALL_FILE - 1)
    assert for_small_file(plan, SMALL_FILE) == plan
    assert (small.sizes["d_model"], small.sizes["n_layers"], small.recipe.steps) == (64, 2, 1500)
    large = keep_own_data("\n\n".join(" ".join(sentences(5, seed)) for seed in range(2500)).encode(), "own text", "x")  # fmt: skip
    assert large.n_characters > SMALL_FILE
    assert settings(large).recipe.steps == plan.recipe.steps
    assert settings(keep("own text")).recipe.steps == 1500


BAD = {
    "one column": ("own pairs", b"a\tb\n\nonly\nc\td", "line 3: expected source, tab, target; got 'only'"),
    "no target": ("own pairs", b"a\tb\nc\t ", "line 2: expected source"),
    "no label": ("own labels", b"a\tb\nc d\t", "line 2: "),
    "a comma": ("own labels", b"a\tb\nc\td,e", "line 2: a label must not contain a comma"),
    "not UTF-8": ("own pairs", b"a\tb\nc\t\xff\xfe\n", "line 2: not UTF-8 text"),
    "UTF-16": ("own text", "Once upon".encode("utf-16"), "line 1: not UTF-8 text"),
    "too few": ("own pairs", b"a\tb\nc\td", "2 pairs, too few"),
    "one class": ("own labels", b"a\tx\nb\tx", "at least two classes are needed"),
    "a short text": ("own text", b"Once upon a time.", "17 characters, too few"),
    "no paragraph": ("own text", b"Once upon a time. " * 9 + b"\n\na\n\nb\n\nc", "is in the validation split"),
    "many lines": ("own pairs", b"a\tb\n" * 200_001, "200,001 lines; at most 200,000"),
    "no spaces, line ends of old": ("own text", b"a b\r" * 2 + b"x" * 2001, "line 3: more than"),
    "not UTF-8, line ends of old": ("own pairs", b"a\tb\r\nc\td\re\t\xff", "line 3: not UTF-8"),
    "no spaces": ("own text", b"a b\n" + b"x" * 2001, "line 2: more than 2,000 characters"),
    "nothing": ("own pairs", b"", "holds no sentence pairs"),
    "blank": ("own text", b"\n \n\t\n", "holds no text"),
}  # fmt: skip


@pytest.mark.parametrize("how", BAD)
def test_a_bad_file_is_refused_with_its_line_and_nothing_of_it_is_left(how):
    kind, content, message = BAD[how]
    with pytest.raises(ValueError, match=".") as refused:
        keep_own_data(content, kind, "mine.tsv")
    assert message in str(refused.value)
    assert str(folders.root()) not in str(refused.value)
    assert (
        not list((folders.root() / own_data.OWN_DATA_FOLDER).glob("*"))
        if folders.root().exists()
        else True
    )


ATTACKS = {
    "binary": os.urandom(MAX_OWN_DATA_BYTES),
    "one line": b"a" * MAX_OWN_DATA_BYTES,
    "long words": b"".join(b"%d" % i * 200 + b" " for i in range(10**5, 101_000)),
    "one line of words": b"word " * (MAX_OWN_DATA_BYTES // 5),
    "lines": b"\n" * MAX_OWN_DATA_BYTES,
    "tabs": b"\t" * MAX_OWN_DATA_BYTES,
    "zeros": b"\0" * MAX_OWN_DATA_BYTES,
    "carriage returns": b"a\tb\r" * (MAX_OWN_DATA_BYTES // 4),
    "labels": b"".join(b"t%d\tl%d\n" % (i, i) for i in range(50_000)),
}


# each takes seconds of work for its own kind; the other kinds refuse it at its first line
SLOW = {"long words": "own text", "labels": "own labels"}


@pytest.mark.slow(except_one_in=5)
@pytest.mark.parametrize(
    ("kind", "how"),
    [(kind, how) for kind in DATA_KINDS for how in ATTACKS if SLOW.get(how, kind) == kind],
)
def test_megabytes_of_nonsense_end_in_a_message_or_a_bounded_run(how, kind):
    begun = time.process_time()
    data = None
    with suppress(ValueError):
        data = keep_own_data(ATTACKS[how], kind, "x")
    if data is not None:
        assert len(data.classes) <= own_data.MAX_LABELS
        assert settings(data).problems() == {}
    assert time.process_time() - begun < 60


def test_more_bytes_another_kind_and_a_long_name_are_bounded(monkeypatch):
    with pytest.raises(ValueError, match="more than 5,000,000 bytes"):
        keep_own_data(b"a" * (MAX_OWN_DATA_BYTES + 1), "own text", "x")
    with pytest.raises(ValueError, match="the kind must be one of"):
        keep_own_data(b"a", "../../etc/passwd", "x")
    named = keep_own_data(
        FILES["own pairs"].encode(), "own pairs", "<img src=x>\n../../" + "é" * 500
    )
    assert len(named.name) <= own_data.MAX_DATA_NAME
    assert named.name.isprintable()
    assert named.path.parent == folders.root() / own_data.OWN_DATA_FOLDER
    monkeypatch.setattr(own_data, "MAX_OWN_DATA_FILES", 3)
    for _ in range(5):
        last = keep("own pairs")
    assert len(list(last.path.parent.iterdir())) == 3
    assert last.path.exists()


# the route


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> LiveSession:
    one = LiveSession()
    monkeypatch.setitem(live._sessions, one.token, one)
    monkeypatch.setattr(run_owners, "pool", lambda: Pool(1, lambda owner: True))
    return one


def post(session: LiveSession, content: bytes, kind: str = "own pairs", token: str = ""):
    client = TestClient(Starlette(routes=own_data_route.own_data_routes()))
    headers = {"Authorization": f"Bearer {token or session.token}"}
    path = own_data_route.own_data_path(kind)
    return client.post(f"{path}?name=%3Cb%3Emine", content=content, headers=headers)


def test_a_file_that_is_sent_is_the_session_s(session):
    answer = post(session, FILES["own pairs"].encode())
    assert (answer.status_code, answer.json()) == (200, {"kept": keep("own pairs").in_words})
    assert session.own_data.name == "<b>mine"
    assert session.own_data.path.read_text() == FILES["own pairs"]
    bad = post(session, b"a\tb\nc")
    assert (bad.status_code, bad.json()["error"][:7]) == (422, "line 2:")
    assert session.own_data.n == 401, "what was accepted before stays"


def test_the_route_refuses_strangers_and_apps_without_trainers(session, monkeypatch):
    content = FILES["own pairs"].encode()
    assert post(session, content, token="0.AAAAAAAAAAAAAAAAAAAAAA").status_code == 404
    monkeypatch.setattr(run_owners, "pool", lambda: Pool(0, lambda owner: True))
    assert post(session, content).status_code == 404
    assert session.own_data is None


def test_too_much_is_not_read_to_its_end(session):
    parts = []

    def endless():
        for _ in range(200):
            parts.append(1)
            yield b"a" * 100_000

    answer = post(session, endless())  # type: ignore[arg-type]
    assert answer.status_code == 422
    assert "larger than 5 MB" in answer.json()["error"]
    assert session.own_data is None


def test_one_file_of_a_session_at_a_time(session, monkeypatch):
    monkeypatch.setitem(uploads._sending, session.token, 1)
    assert post(session, b"a\tb").status_code == 429


# the run

SHORT = ["--steps=12", "--warmup=5", "--validate-every=6", "--save-every=4", "--score-cases=3", "--d-model=16", "--vocab-size=90"]  # fmt: skip


def shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = RunSettings.arguments
    monkeypatch.setattr(RunSettings, "arguments", lambda self, to: [*arguments(self, to), *SHORT])


def until(run, *states: str) -> None:
    deadline = time.monotonic() + 180
    while run.state not in states:
        assert time.monotonic() < deadline, run
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["own pairs", "own text"])
def test_the_command_line_resumes_a_run_of_the_page(kind, tmp_path, monkeypatch):
    shortened(monkeypatch)
    chosen = settings(keep(kind))
    run = Pool(1, lambda owner: True).begin(chosen, "a")
    run.one_step()
    until(run, "paused")
    run.stop()
    until(run, STOPPED)
    assert (run.folder / chosen.own.of.file).read_text() == FILES[kind]
    assert cli.main(shlex.split(chosen.resumed(run.folder))[1:]) == 0
    alone = tmp_path / "alone"
    alone.mkdir()
    chosen.prepare(alone)
    assert cli.main(chosen.arguments(alone)) == 0
    ours, theirs = (load(folder, device="cpu") for folder in (run.folder, alone))
    assert ours.training["step"] == theirs.training["step"] == 12
    states = [scope.model.state_dict() for scope in (ours, theirs)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[1])
    assert run.metric in ours.training["curve"][-1], "a held-out score at each validation"


@pytest.mark.slow
def test_labelled_texts_start_from_the_shipped_model(monkeypatch):
    arguments = RunSettings.arguments
    monkeypatch.setattr(
        RunSettings, "arguments", lambda self, to: [*arguments(self, to), "--steps=3"]
    )
    chosen = settings(keep("own labels"))
    assert chosen.names == ["seed", "learning_rate"]
    run = Pool(1, lambda owner: True).begin(chosen, "a")
    until(run, DONE, FAILED)
    assert run.state == DONE, run.message
    scope = load(run.folder, device="cpu")
    assert scope.training["start"]["name"] == "gpt"
    assert scope.config.classes == "even,odd"
    assert chosen.n_parameters == sum(p.numel() for p in scope.model.parameters())


def test_missing_data_are_named(monkeypatch):
    chosen = settings(keep("own pairs"))
    chosen.own.path.unlink()
    run = Pool(1, lambda owner: True).begin(chosen, "a")
    until(run, FAILED)
    assert run.message == "No such file or directory"
