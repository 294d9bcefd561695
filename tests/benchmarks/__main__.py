"""All benchmarks of the back end, as one table. Those of the app need a browser: repaint, overview, clients."""

from tests.benchmarks import decoding, marian, recording, recurrent, training
from tests.benchmarks.side_by_side import print_table

if __name__ == "__main__":
    print_table([result for module in (recording, decoding, marian, training, recurrent) for result in module.measure()])
