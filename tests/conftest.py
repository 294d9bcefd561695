"""Every call into `models` is checked against its annotations, shapes and types, while the tests of `unit/` run."""

import os
import shutil
from pathlib import Path

from jaxtyping import config, install_import_hook

install_import_hook("models", "checked.checked")  # has to come before the first import of models

import pytest  # noqa: E402
import torch  # noqa: E402
from checked import unchecked  # noqa: E402
from filelock import FileLock  # noqa: E402
from small import Reversal, random_model, reversal_trainer  # noqa: E402

from models.architectures.transformer import Transformer  # noqa: E402
from models.opening import load as load_scope  # noqa: E402
from models.runs.scope import Scope  # noqa: E402

torch.set_num_threads(1)  # the tensors are tiny: more threads only wait for each other


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two a core: a test in a browser waits for its page half of the time. One where only such are asked for that never wait."""
    busy = all(
        {"unit", "app", "commands", "shipped"} & set(Path(arg.partition("::")[0]).parts)
        for arg in config.args
    )
    return (1 if busy else 2) * (os.cpu_count() or 1)


@pytest.fixture(autouse=True, scope="module")
def _annotations(request: pytest.FixtureRequest) -> None:
    """Annotations are checked where parts are tested; pages, scores and processes run as they do for a user, twice as fast."""
    config.update("jaxtyping_disable", request.path.parent.name != "unit")


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(scope="session")
def tiny() -> Transformer:
    """A random Transformer, for arithmetic only; shared, so nobody may change it."""
    return random_model()


@pytest.fixture(scope="session")
def trained_folder(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The checkpoint folder of a small model trained on the spot to write words backwards; shared, so do not touch."""
    shared = (
        tmp_path_factory.getbasetemp()
        if worker_id == "master"
        else tmp_path_factory.getbasetemp().parent
    )
    folder = shared / "trained" / "reversal"
    with FileLock(shared / "trained.lock"), unchecked():
        if not folder.exists():
            training = shared / "training" / folder.name
            for _ in reversal_trainer(training, steps=199).train():
                pass
            folder.parent.mkdir()
            training.rename(folder)
    return folder


@pytest.fixture
def checkpoint(trained_folder: Path, tmp_path: Path) -> Path:
    """A copy of the trained folder, to be damaged at will."""
    return Path(shutil.copytree(trained_folder, tmp_path / "reversal"))


@pytest.fixture(scope="session")
def scope(trained_folder: Path) -> Scope:
    """The trained model, loaded."""
    return load_scope(trained_folder, device="cpu")


@pytest.fixture(scope="session")
def reversal() -> Reversal:
    return Reversal()
