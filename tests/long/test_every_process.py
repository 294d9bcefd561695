"""Data and vocabularies are the same in every process, whatever the order of Python's sets there."""

import hashlib
import subprocess
import sys

import pytest

from models.tasks import date_formats as dates
from models.tokenizers.base import Tokenizer

CODE = """
import hashlib
from models.tasks import date_formats as dates
from models.tokenizers.base import Tokenizer

print([dates.training_examples(3, 5, 50), dates.held_out_examples(3, 50)])
texts = [chr(0x4E00 + i) * 3 + ' the cat sat' for i in range(300)]      # equally frequent, they compete for the last places
print(hashlib.sha256(Tokenizer.bpe(texts, 400).to_json().encode()).hexdigest())
"""


@pytest.mark.parametrize("hash_seed", ["1", "2"])
def test_the_same_examples_and_the_same_vocabulary(hash_seed):
    environment = {
        "PYTHONHASHSEED": hash_seed,
        "PYTHONPATH": ":".join(sys.path),
        "PYTHONIOENCODING": "utf-8",
    }
    run = subprocess.run(
        [sys.executable, "-c", CODE],
        env=environment,
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    examples, vocabulary = run.stdout.splitlines()
    assert examples == str([dates.training_examples(3, 5, 50), dates.held_out_examples(3, 50)])
    texts = [chr(0x4E00 + i) * 3 + " the cat sat" for i in range(300)]
    assert vocabulary == hashlib.sha256(Tokenizer.bpe(texts, 400).to_json().encode()).hexdigest()
