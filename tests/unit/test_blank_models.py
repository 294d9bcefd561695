"""Models without values: the same parameters as real ones, and quick to build."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import models
from models.architectures import build
from models.checkpoint import read_config
from models.opening import shipped_folder
from models.weights import blank

ALL_BLANK = """
import sys
from pathlib import Path
from models.checkpoint import read_config
from models.weights import blank
for config in map(read_config, Path(sys.argv[1]).iterdir()):
    assert all(parameter.is_meta for parameter in blank(config).parameters())
print("torch._dynamo" in sys.modules)
"""


@pytest.mark.parametrize("name", models.shipped())
def test_it_has_the_parameters_and_buffers_of_the_real_one(name: str) -> None:
    config = read_config(shipped_folder() / name)
    real, without = build(config), blank(config)
    for kind in ("named_parameters", "named_buffers"):
        shapes = [
            {key: (tensor.shape, tensor.dtype) for key, tensor in getattr(model, kind)()}
            for model in (real, without)
        ]
        assert shapes[0] == shapes[1]
    assert torch.get_default_device().type == "cpu"


@pytest.mark.slow
def test_torchs_compiler_is_not_imported_for_it() -> None:
    """Importing it would delay a visitor's first picture, and every command, by a second."""
    command = [sys.executable, "-c", ALL_BLANK, str(shipped_folder())]
    root = Path(models.__file__).parents[1]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    assert ran.stdout.strip() == "False"
