"""Damage small trained checkpoints in some thousand ways and count the outcomes of opening and running them.

    python -m tests.robustness.checkpoints [--cases 4000] [--seed 1] [--show]

Every damaged checkpoint must be refused with a CheckpointError, or give the same answers as before. One without checksums in its
training.json makes no claim about its files, so a valid file in place of another may go unnoticed there.
"""

import argparse
import json
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import torch

import models
from models.architectures.attention_only import AttentionOnlyConfig
from models.architectures.seq2seq import Seq2SeqConfig
from models.checkpoint import CheckpointError, add_to_record
from models.checkpoint_files import snapshot_path
from models.tokenizers.base import Tokenizer
from tests.robustness.damage import draw
from tests.small import Reversal, reversal_trainer
from viz_app import words
from viz_app.drawing import loss_curve
from viz_app.views.from_rnn import charts as from_rnn_charts
from viz_app.views.from_rnn import learners as from_rnn_learners

REFUSED, SAME, DIFFERENT = "CheckpointError", "answers as before", "answers differently"
WRONG, FAILS = "another exception when opened", "fails at the first run"
SECONDS = 10  # seconds that one damaged checkpoint may take


def small_checkpoints(folder: Path) -> list[Path]:
    """Train one checkpoint of each architecture and of both kinds of vocabulary for some steps, with snapshots and scores."""
    by_letter, by_piece = Reversal(), Reversal()
    by_piece.tokenizer = Tokenizer.bpe(by_piece.words() * 2, 40)
    configs = {
        "transformer": (by_letter, None),
        "bahdanau": (
            by_piece,
            Seq2SeqConfig(by_piece.tokenizer.vocab_size, 11, 7, 5, n_ctx=17, dropout=0.0),
        ),
        "attention": (
            by_letter,
            AttentionOnlyConfig(by_letter.tokenizer.vocab_size, 15, 3, 1, n_ctx=17),
        ),
    }
    for name, (task, config) in configs.items():
        trainer = reversal_trainer(
            folder / name, task, config, steps=40, validate_every=20, snapshots=True
        )
        for _ in trainer.train():
            pass
        for step in (1, 2, 3, 5, 10):  # three of the snapshots are enough
            snapshot_path(folder / name, step).unlink()
        (folder / name / "state.pt").unlink()
        add_to_record(
            folder / name,
            scores={"held-out exact match": 12.5, "cases": 8},
            by_length=[{"least": 1, "most": 2, "cases": 8, "score": 12.5}],
        )
    return [folder / name for name in configs]


def answers(scope: models.Scope, texts: Sequence[str]) -> dict[str, Any]:
    """Return a model's results for these texts: tokens, logits and words."""
    found: dict[str, Any] = {}
    for text in texts:
        try:
            trace = scope.run(text)
        except models.InputError as error:
            found[text] = str(error)
            continue
        if not trace.next_token.logits.isfinite().all():
            raise FloatingPointError("the logits are not finite")
        found[text] = (trace.streams, trace.output, trace.next_token.logits.tolist())
    return found


def all_answers(folder: Path, scope: models.Scope) -> dict[str, Any]:
    """Return the results of a checkpoint now and at every snapshot; the app's drawings from its record are made, too."""
    record = scope.training
    (
        words.training_summary(record),
        from_rnn_learners.learner_table([from_rnn_learners._learner(scope, "one")]),
    )
    loss_curve.loss_curve(record.get("curve", []), 7, "#000", "#000")
    if record.get("by_length"):
        from_rnn_charts.length_chart({scope.name: record["by_length"]}, "title")
    answers(scope, scope.examples[:1])  # it must run; the record decides which text it is
    found = answers(scope, ["bac", "de e"])
    found["beam"] = scope.write("bac", "beam").text if scope.n_ctx > 4 else ""
    return found | {
        step: answers(models.load(folder, device="cpu", snapshot=step), ["cab"])
        for step in scope.snapshots
    }


def outcome(folder: Path, before: dict[str, Any]) -> tuple[str, str]:
    """Return the outcome for a damaged checkpoint, and the error if there was one."""
    try:
        with _at_most(SECONDS):
            scope = models.load(folder, device="cpu")
    except CheckpointError as error:
        return REFUSED, str(error)
    except BaseException as error:
        return WRONG, _said(error)
    try:
        with _at_most(3 * SECONDS):
            after = all_answers(folder, scope)
    except CheckpointError as error:
        return REFUSED, str(error)
    except BaseException as error:
        return FAILS, _said(error)
    kept = {
        name: before.get(name) for name in after
    }  # a missing snapshot is not offered, which is harmless
    return (SAME, "") if repr(after) == repr(kept) else (DIFFERENT, "")


def count(
    sound: Sequence[Path], seed: int, cases: int, *, checksums: bool, show: bool = False
) -> Counter:
    """Damage copies of these checkpoints `cases` times and count each outcome."""
    rng, counts = Random(seed), Counter()
    with tempfile.TemporaryDirectory() as temporary:
        made = [
            Path(shutil.copytree(folder, Path(temporary) / "sound" / folder.name))
            for folder in sound
        ]
        for folder in made:
            if not checksums:
                record = json.loads((folder / "training.json").read_text())
                record.pop("checksums", None)
                (folder / "training.json").write_text(json.dumps(record))
        before = {folder: all_answers(folder, models.load(folder, device="cpu")) for folder in made}
        for _ in range(cases):
            folder = rng.choice(made)
            damaged = Path(shutil.copytree(folder, Path(temporary) / folder.name))
            what = draw(rng)(damaged, rng)
            became, error = outcome(damaged, before[folder])
            counts[became] += 1
            if show and became != REFUSED:
                print(f"{became}: {folder.name}/{what} {error}", flush=True)
            shutil.rmtree(damaged)
    return counts


@contextmanager
def _at_most(seconds: int) -> Iterator[None]:
    def stop(number: int, frame: object) -> None:
        raise TimeoutError(f"more than {seconds} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _said(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt | SystemExit):
        raise error
    return f"{type(error).__name__}: {str(error)[:100]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--cases",
        type=int,
        default=4000,
        help="damaged checkpoints, half of them without checksums",
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--show", action="store_true", help="name every damage that was not refused"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as temporary:
        sound = small_checkpoints(Path(temporary))
        for checksums in (True, False):
            counts = count(
                sound, options.seed, options.cases // 2, checksums=checksums, show=options.show
            )
            print(
                f"{'with' if checksums else 'without'} checksums: {counts.total()} damaged checkpoints"
            )
            for name in (REFUSED, SAME, DIFFERENT, WRONG, FAILS):
                print(f"  {name:32} {counts[name]:5}")


if __name__ == "__main__":
    main()
