"""All benchmarks that need no browser, as one table. Those of the app need one: repaint, overview, clients."""

from tests.benchmarks import decoding, marian, notebook, recording, recurrent, training, transformers_training
from tests.benchmarks.side_by_side import print_table

if __name__ == "__main__":
    modules = (recording, decoding, marian, training, transformers_training, recurrent, notebook)
    print_table([result for module in modules for result in module.measure()])
