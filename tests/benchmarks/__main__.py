"""All benchmarks of one thread, as one table. Run alone: those of the app, which need a browser (repaint, overview, opening,
clients), and hub, for which all cores work."""

from tests.benchmarks import (
    decoding,
    marian,
    notebook,
    recording,
    recurrent,
    training,
    transformers_training,
    two_streams,
)
from tests.benchmarks.side_by_side import print_table

MODULES = (
    recording,
    decoding,
    marian,
    training,
    transformers_training,
    recurrent,
    two_streams,
    notebook,
)

if __name__ == "__main__":
    print_table([result for module in MODULES for result in module.measure()])
