"""Shared fixtures; while the tests of `unit/` run, every call into `models` is checked against its annotations and shapes."""

import functools
import gc
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from zlib import crc32

import checked
from jaxtyping import config

checked.install("models")  # has to come before the first import of models

import pytest  # noqa: E402
import torch  # noqa: E402
from filelock import FileLock  # noqa: E402
from small import Reversal, random_model, reversal_trainer  # noqa: E402
from xdist.remote import Producer  # noqa: E402
from xdist.scheduler import LoadFileScheduling  # noqa: E402
from xdist.workermanage import WorkerController  # noqa: E402

from models.architectures.transformer import Transformer  # noqa: E402
from models.opening import load as load_scope  # noqa: E402
from models.runs.scope import Scope  # noqa: E402

PAGE_FOLDERS = ("app", "pages")  # folders of tests of the app without a browser
WAITING = ("browser", "processes", "long")  # folders of tests that wait more than they compute
TOGETHER = (  # they share `hub_scope`
    "hub_table", "hub_layers", "hub_edits", "true_sentences", "order_told", "masks_by_layer",
)  # fmt: skip
APART, PARTS = "architectures", 8  # a file that shares no models, and the number of its parts
if (
    signal.getsignal(signal.SIGINT) is signal.SIG_IGN
):  # as in background jobs of a shell; children would not heed it either
    signal.signal(signal.SIGINT, signal.default_int_handler)
torch.set_num_threads(1)  # the tensors are tiny: more threads only wait for each other
os.environ.setdefault("OMP_NUM_THREADS", "1")  # the same for processes that the tests start
SEEDED = torch if torch.cuda.is_available() else torch.default_generator  # torch's takes 2 ms


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--share", metavar="K/N", help="run only the K-th of N shares of every file's tests"
    )
    parser.addoption(
        "--slow",
        action="store_true",
        help="run the tests that are marked slow and left out otherwise, instead of the others",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests that are slow, or with --slow the quick ones, and those of other shares.

    Folders that run only when named are run as a whole. Which share a test is in depends on its name alone.
    """
    quick = {Path(folder).name for folder in config.getini("testpaths")}
    first: set[str] = set()  # the functions that have had a case
    chosen = [
        item
        for item in items
        if item.path.relative_to(config.rootpath / "tests").parts[0] not in quick
        or _is_slow(item, first) == config.option.slow
    ]
    if share := config.option.share:
        k, n = map(int, share.split("/"))
        chosen = [item for item in chosen if crc32(item.nodeid.encode()) % n + 1 == k]
    ids = {item.nodeid for item in chosen}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in ids])
    items[:] = chosen


def _is_slow(item: pytest.Item, first: set[str]) -> bool:
    """Return whether a test is marked slow; of the cases of a function the first and one in `except_one_in` are quick."""
    if (mark := item.get_closest_marker("slow")) is None:
        return False
    if (n := mark.kwargs.get("except_one_in")) is None:
        return True
    function, _, case = item.nodeid.partition("[")
    is_first = function not in first
    first.add(function)
    return not is_first and crc32(case.encode()) % n > 0


def pytest_collection_finish() -> None:
    """Collect garbage rarely, and only among objects that the tests create: a pass over all imported modules takes a second."""
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return three workers for two cores, since a browser test waits for its page half of the time; one per core if none waits."""
    parts = [set(Path(arg.partition("::")[0]).parts) for arg in config.args]
    busy = all({"unit", "app", "commands", "hub", "shipped"} & each for each in parts)
    cores = os.cpu_count() or 1
    return cores if busy else cores + (cores + 1) // 2


class HalfToWaiting(LoadFileScheduling):
    """Hand out files so that every second worker begins with those that wait for browsers and processes, and the others with those
    that keep a core busy: both kinds run at any time, and only half of the workers start a browser and a server."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        name = Path(file).stem.removeprefix("test_")
        if name == APART:
            return f"{file} part {crc32(nodeid.encode()) % PARTS}"
        return "tests/hub/of shared models" if name in TOGETHER else file

    def _assign_work_unit(self, node: WorkerController) -> None:
        waits = int(node.gateway.id.removeprefix("gw")) % 2 == 0
        fitting = (file for file in self.workqueue if (Path(file).parts[1] in WAITING) == waits)
        if file := next(fitting, None):
            self.workqueue.move_to_end(file, last=False)
        super()._assign_work_unit(node)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    return HalfToWaiting(config, log) if config.option.dist == "loadfile" else None


@pytest.fixture(autouse=True, scope="module")
def _annotations(request: pytest.FixtureRequest) -> None:
    """Check annotations where parts are tested; pages, scores and processes run as they do for a user, twice as fast."""
    config.update("jaxtyping_disable", request.path.parent.name not in ("unit", "hub"))
    checked.forget()


@pytest.fixture(scope="session")
def _installed_components() -> Iterator[None]:
    """Find out once which installed packages bring components, not at the first run of every AppTest."""
    from streamlit.components.v2 import manifest_scanner

    scan = functools.cache(manifest_scanner.scan_component_manifests)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifest_scanner, "scan_component_manifests", scan)
        yield


@pytest.fixture(autouse=True)
def _patient(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a page that AppTest runs once wait for its model; app/test_opening.py tests what it shows meanwhile."""
    if request.path.parent.name in PAGE_FOLDERS:
        request.getfixturevalue("_installed_components")
        monkeypatch.setattr("viz_app.session.opening.BAR_DELAY", 600)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    SEEDED.manual_seed(0)


@pytest.fixture
def own_trainers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give a test trainers of its own, in a folder of its own and at the priority of the other tests."""
    from viz_app.session import run_owners
    from viz_app.trainers import folders, process

    monkeypatch.setenv(folders.RUNS_VARIABLE, str(tmp_path / "runs"))
    monkeypatch.setattr(process, "NICENESS", 0)
    pool = run_owners.pool  # a test may put another in its place
    pool.cache_clear()
    yield
    pool.cache_clear()


@pytest.fixture(scope="session")
def tiny() -> Transformer:
    """A random Transformer, for arithmetic only; shared, so no test may change it."""
    return random_model()


@pytest.fixture(scope="session")
def trained_folder(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The checkpoint folder of a small model trained on the spot to write words backwards; shared, so no test may change it."""
    shared = (
        tmp_path_factory.getbasetemp()
        if worker_id == "master"
        else tmp_path_factory.getbasetemp().parent
    )
    folder = shared / "trained" / "reversal"
    with FileLock(shared / "trained.lock"), checked.unchecked():
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
def hub_scope(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Scope]:
    """A function that returns a model of hub_models.py by its name, saved and opened on first use; shared, so no test may change it."""
    from hub_models import BY_NAME  # imports transformers

    root = tmp_path_factory.mktemp("hub")

    @functools.cache
    def opened(name: str) -> Scope:
        BY_NAME[name].save(root / name)
        return load_scope(root / name, device="cpu")

    return opened


@pytest.fixture(scope="session")
def reversal() -> Reversal:
    return Reversal()
