"""All benchmarks that run on one thread, in one table; with --short each takes seconds, those of the app included.

    python -m tests.benchmarks [--short]

To be run alone: those of the app, most of which need a browser (repaint, overview, opening, clients, long_texts), hub and heads, which
use all cores, gpu, which does nothing without a GPU, and own_data, which needs a file of sentence pairs. The short forms show that
each benchmark still runs: the exit status is 1 if one raises an error, and no figure is judged.
"""

import argparse
import sys
import time
import traceback
from types import ModuleType

from tests.benchmarks import (
    clients,
    decoding,
    gpu,
    heads,
    hub,
    long_texts,
    marian,
    notebook,
    opening,
    overview,
    own_data,
    recording,
    recurrent,
    repaint,
    training,
    transformers_training,
    two_streams,
    watching,
)
from tests.benchmarks.side_by_side import Result, print_table

MODULES = (
    recording,
    decoding,
    marian,
    training,
    transformers_training,
    recurrent,
    two_streams,
    notebook,
    watching,
)
ALONE = (heads, hub, gpu, own_data, clients, long_texts, overview, opening, repaint)


def _attempt(module: ModuleType, results: list[Result]) -> bool:
    """Run a benchmark in its short form and report the outcome; return False if it raised an error."""
    start, name = time.perf_counter(), module.__name__.rpartition(".")[2]
    try:
        results += module.measure(short=True)
    except Exception:
        traceback.print_exc()
        print(f"{name}: failed", file=sys.stderr)
        return False
    print(f"{name}: runs ({time.perf_counter() - start:.1f} s)", flush=True)
    return True


def main() -> int:
    """Measure, print the table and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="run every benchmark in seconds")
    results: list[Result] = []
    if not parser.parse_args().short:
        print_table([result for module in MODULES for result in module.measure()])
        return 0
    succeeded = [_attempt(module, results) for module in (*MODULES, *ALONE)]
    print_table(results)
    return 0 if all(succeeded) else 1


if __name__ == "__main__":
    sys.exit(main())
