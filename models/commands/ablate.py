"""`attnscope ablate`: the effect of every head on held-out texts, with intervals."""

import argparse
from pathlib import Path

from tqdm import tqdm

from models.analysis.paired import LEVEL
from models.checkpoint import add_to_record
from models.commands.arguments import (
    PAIR_FILES,
    Commands,
    add_device,
    add_record,
    check_record_option,
    positive,
    seed,
)
from models.devices import chosen_device
from models.held_out_texts import held_out
from models.opening import load
from models.runs.sweep import Sweep

ABLATION_BASELINES = ("zero", "uniform")


def add_ablate(commands: Commands) -> None:
    """Add `attnscope ablate`."""
    ablate = commands.add_parser(
        "ablate", help="print what switching each head off does to the loss on held-out texts"
    )
    ablate.add_argument("checkpoint")
    ablate.add_argument(
        "--data",
        type=Path,
        **PAIR_FILES,
        help="the training files, which are split again, or any files of held-out pairs, lines or "
        "tables as for training (default: the texts in the checkpoint's record)",
    )
    ablate.add_argument("--limit", type=positive, default=400, help="maximum number of texts (400)")
    ablate.add_argument(
        "--baseline",
        choices=ABLATION_BASELINES,
        default="zero",
        help="what a head that is off passes on: zero, or uniform weights",
    )
    ablate.add_argument(
        "--orders", type=positive, default=20, help="number of random orders of heads (20)"
    )
    ablate.add_argument(
        "--seed", type=seed, default=0, help="random seed of the orders and intervals (0)"
    )
    ablate.add_argument(
        "--out",
        type=Path,
        help="where losses are saved, so that a stopped run can continue (ablate-NAME.json)",
    )
    add_record(ablate)
    add_device(ablate)
    ablate.set_defaults(run=_ablate)


def _ablate(options: argparse.Namespace) -> int:
    """Run `attnscope ablate`; return the exit status."""
    scope = load(options.checkpoint, device=chosen_device(options.device))
    texts = held_out(scope, options.data, options.limit)
    check_record_option(options, scope)
    path = options.out or Path(f"ablate-{scope.name}.json")
    sweep = Sweep(scope, texts, path, options.baseline, options.orders, options.seed)
    if sweep.losses:
        print(f"continues {path}")
    with tqdm(total=sweep.n_passes, unit="pass", leave=False) as bar:
        sweep.run(lambda done, of: bar.update(done - bar.n))
    _report(sweep)
    if options.record:
        entry = sweep.swept().record() | {"measured_on": scope.weights_digest}
        add_to_record(scope.path, ablation=entry)
    return 0


def _report(sweep: Sweep) -> None:
    swept, n = sweep.swept(), len(sweep.texts)
    results = swept.heads
    marked = sum(one.is_marked for one in results)
    print(
        f"{sweep.scope.name}: each of {len(results)} heads off ({sweep.baseline}), change of the loss in "
        f"{sweep.unit} on {n // 2} texts, 95 % paired-bootstrap interval; * significant on the other "
        f"{n - n // 2} texts, with the same sign, by sign flips after Holm's correction ({marked}; without it "
        f"{LEVEL / 2 * len(results):.1f} would be marked by chance)"  # half of them have the same sign
    )
    if not swept.can_mark:
        print(f"{n} texts are too few for an effect to be significant among {len(results)} heads")
    for one in results:
        name = f"{one.kind} layer {one.layer + 1} head {one.head + 1}"
        effect = one.effect
        mark = "*" if one.is_marked else " "
        print(f"{name:<34} {effect.mean:+.4f} ({effect.low:+.4f} to {effect.high:+.4f}) {mark}")
    print(
        f"heads off in order of importance, the least important first, on {swept.n_curve_texts} texts "
        "(random orders: upper median, range)"
    )
    for kind, curve in swept.curves.items():
        for share, (ordered, low, median, high) in curve.items():
            off, n_heads = swept.n_off(kind, share)
            print(
                f"{kind:<20} {off:>3} of {n_heads:<3} {ordered:+.3f} ({median:+.3f}, {low:+.3f} to {high:+.3f})"
            )
