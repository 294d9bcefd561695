"""All benchmarks of the back end, as one table. Those of the app need a browser: repaint, overview, clients."""

from tests.benchmarks import decoding, marian, recording, recurrent, training, transformers_training
from tests.benchmarks.side_by_side import print_table

if __name__ == "__main__":
    modules = (recording, decoding, marian, training, transformers_training, recurrent)
    print_table([result for module in modules for result in module.measure()])
