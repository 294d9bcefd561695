"""The shipped checkpoints: their size, their record, and their scores, measured again on held-out cases."""

import shlex
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

import models
from models import cli, masks
from models.checks import check_site
from models.evaluation import score
from models.masks import Mask
from models.scope import shipped_folder
from models.tasks import open_task
from models.tasks.translation import TATOEBA_LICENCE

LIMITS = {   # checkpoint → megabytes it may take
    "dates": 1, "dates-additive": 1, "dates-attn": 1, "dates-bahdanau": 1, "dates-cosine": 1, "dates-dot": 1, "dates-general": 1,
    "dates-multihead": 1, "dates-rnn": 1, "dates-scaled-dot": 1, "dates-self-attn": 1, "dates-stacked": 1,
    "eng-fra": 12, "eng-fra-bahdanau": 12, "eng-fra-rnn": 12,
}
SCORES = {   # checkpoint → least score recorded on held-out cases
    "dates": 99, "dates-bahdanau": 99, "eng-fra": 40, "eng-fra-bahdanau": 40, "eng-fra-rnn": 20,
}
TATOEBA = Path(__file__).parents[2] / "shared" / "data" / "tatoeba-eng-fra.tsv.gz"
MEGABYTE = 2**20


def size(folder: Path) -> int:
    return sum(p.stat().st_size for p in folder.iterdir() if p.is_file())


@pytest.fixture(scope="module", params=LIMITS)
def scope(request):
    return models.load(request.param, device="cpu")


@pytest.fixture(scope="module")
def dates():
    return models.load("dates", device="cpu")


@pytest.fixture(scope="module")
def eng_fra():
    return models.load("eng-fra", device="cpu")


def test_all_are_there():
    assert models.shipped() == list(LIMITS)


@pytest.mark.parametrize(("name", "limit"), LIMITS.items())
def test_sizes(name, limit):
    folder = shipped_folder() / name
    assert size(folder) <= limit * MEGABYTE
    extra = {p.name for p in folder.iterdir()} - {"config.json", "model.safetensors", "tokenizer.json", "training.json"}
    assert extra <= {"snapshots"}   # no training state, nothing half written


def test_dates_has_about_a_dozen_snapshots_of_its_training(dates):
    assert size(shipped_folder() / "dates" / "snapshots") <= 6 * MEGABYTE
    assert 10 <= len(dates.snapshots) <= 14
    assert dates.snapshots[0] == 0
    assert dates.snapshots[-1] == dates.training["step"]
    losses = []
    cases = open_task("dates").held_out(97)
    for step in (0, dates.snapshots[-4], dates.snapshots[-1]):
        snapshot = models.load("dates", device="cpu", snapshot=step)
        assert snapshot.training["step"] == step
        losses.append(score(snapshot.model, snapshot.tokenizer, cases, "exact match"))
    assert losses[0] == 0 < losses[1] < losses[2]


def test_the_record_says_how_the_weights_came_to_be(scope):
    record = scope.training
    assert record["step"] == record["recipe"]["steps"]
    assert record["training_seconds"] > 0
    assert record["data"]
    assert record["scores"]["cases"] >= 1000
    validated = [row["validation loss"] for row in record["curve"] if "validation loss" in row]
    assert len(validated) >= 4
    if scope.name != "dates-stacked":   # shipped to show that a stack without residual connections does not learn
        assert validated[-1] < validated[0]
    assert sum(group["cases"] for group in record["by_length"]) == record["scores"]["cases"]
    wanted = {"dates": "no foreign data", "translation": TATOEBA_LICENCE}[scope.task]
    assert wanted in record["licence"]


def test_the_recorded_command_gives_that_recipe_and_those_sizes(scope):
    options = cli._parser().parse_args(shlex.split(scope.training["command"])[1:])
    plan = cli._plan(options)
    assert asdict(plan.recipe) == scope.training["recipe"]
    sizes = asdict(scope.config)
    assert plan.sizes.items() <= sizes.items()
    assert options.task == scope.task


@pytest.mark.parametrize("name", SCORES)
def test_the_score_is_what_the_record_says(name):
    """The first 300 held-out cases again; BLEU of some of the cases varies by some points from that of all."""
    scope = models.load(name, device="cpu")
    if scope.task == "translation" and not TATOEBA.exists():
        pytest.skip(f"the sentence pairs are not here: {TATOEBA}")
    given = {"path": TATOEBA, "tokenizer": scope.tokenizer} if scope.task == "translation" else {}
    task = open_task(scope.task, given.pop("path", None), **given)
    assert task.data() == scope.training["data"]
    recorded = scope.training["scores"][f"held-out {task.metric}"]
    assert recorded >= SCORES[name]
    again = score(scope.model, scope.tokenizer, task.held_out(300), task.metric)
    assert again == pytest.approx(recorded, abs=4)


def test_the_fixed_vector_loses_more_of_a_long_sentence_than_the_alignment():
    """Bahdanau et al. 2015, figure 2, from the recorded scores by source length."""
    def kept(name: str) -> float:
        groups = models.load(name, device="cpu").training["by_length"]
        return groups[-1]["score"] / max(group["score"] for group in groups)

    assert kept("eng-fra-rnn") < 0.4 < 0.6 < kept("eng-fra-bahdanau")


def test_the_three_translators_read_the_same_tokens_of_the_same_data():
    scopes = [models.load(name, device="cpu") for name in LIMITS if name.startswith("eng-fra")]
    assert len({scope.tokenizer.to_json() for scope in scopes}) == 1
    assert len({str(scope.training["data"]) for scope in scopes}) == 1


def test_eng_fra_writes_french(eng_fra, capsys):
    assert "livre" in eng_fra.write("She is reading a book.").text
    assert cli.main(["decode", "eng-fra", "She is reading a book.", "--device", "cpu"]) == 0
    assert "livre" in capsys.readouterr().out
    assert "livre" in eng_fra.write("She is reading a book.", "beam").text


def test_the_issues_notebook_snippet():
    scope = models.load("eng-fra")
    trace = scope.run("We like him.", "Nous l'aimons bien.")
    site = trace.attention["decoder.layers.0.cross_attn"]
    torch.testing.assert_close(site.weights(head=2).sum(-1), torch.ones(len(site.query_tokens)))
    assert site.weights(head=2).shape == (len(site.query_tokens), len(site.key_tokens))
    assert trace.output


def test_cross_attention_aligns(eng_fra):
    """To say "livre" the decoder looks at "book", some head of some layer more than at anything else."""
    trace = eng_fra.run("She is reading a book.")
    at = trace.predicted.index("▁livre")
    best = [
        site.key_tokens[int(weights[at].argmax())]
        for site in trace.attention.values()
        if site.kind == "cross"
        for weights in site.weights()
    ]
    assert "▁book" in best


@pytest.mark.parametrize("text", ["March 5, 1998", "mar. 5 mars 98", "👍 <script> 你好"])
def test_every_site_passes_its_checks(scope, text):
    trace = scope.run(text)
    for site in trace.attention.values():
        assert all(check.passed for check in check_site(site)), site.name


def test_a_model_needs_its_positions_and_its_source(dates):
    """Shuffled or foreign sources change the answer: the model reads, it does not recite."""
    texts = {dates.write(text).text for text in ("5 March 1998", "5 May 1998", "8 March 1999")}
    assert texts == {"1998-03-05", "1998-05-05", "1999-03-08"}
    ids = torch.tensor([dates.encode_source("5 March 1998").ids])
    blind = Mask([masks.padding(torch.zeros_like(ids), 0)])
    with torch.no_grad():
        target = torch.tensor([dates.encode_target("1998-03-0").ids])
        every = dates.model.masks(ids, target)
        memory = dates.model.encode(ids, every)
        seeing = dates.model.decode(target, memory, every)
        unseeing = dates.model.decode(target, memory, {**every, "cross": blind})
    assert dates.tokenizer.token(int(seeing[0, -1].argmax())) == "5"
    assert (seeing - unseeing).abs().max() > 1
