"""The settings of a run that the app trains, within limits that suit any machine."""

import shlex
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

from models.architectures import Config
from models.checkpoint_files import write_bytes
from models.commands.train import planned_config
from models.layers.similarity import SIMILARITIES
from models.opening import load
from models.tasks import GENERATED, TASKS, open_task
from models.tokenizers.base import Tokenizer
from models.training.recipe import Recipe, densely_kept
from models.training.recipes import PLANS, Plan, plan_for
from models.training.task import Task
from models.weights import blank
from viz_app.trainers.own_data import OwnData

INTEGER_LIMITS = {
    "d_model": (4, 256), "n_heads": (1, 16), "n_layers": (1, 4), "n_encoder_layers": (1, 4), "n_decoder_layers": (1, 4),
    "n_self_layers": (0, 4), "d_hidden": (4, 256), "window": (0, 64), "seed": (1, 9999),
}  # fmt: skip
FLOAT_LIMITS = {"learning_rate": (0.01, 10.0)}
SETTING_CHOICES = {
    "norm": ("post", "pre"),
    "positions": ("sinusoidal", "learned", "none"),
    "similarity": tuple(SIMILARITIES),
    "decoder_mask": ("look-ahead", "none"),
}
RECIPE_SETTINGS = ("learning_rate", "seed")
MAX_PARAMETERS = 1_000_000
MAX_OWN_DATA_PARAMETERS = 5_000_000
MAX_SNAPSHOTS = 64
SNAPSHOT_BYTES = 20_000_000  # all snapshots of a run together
MAX_SNAPSHOT_HEADER = 20_000  # bytes, at most, of a snapshot's names and shapes
THREADS = 1  # of a trainer: on a busy machine more of them wait for each other


def offered_tasks() -> dict[str, list[str]]:
    """Return task → models for all plans that need no data file."""
    return {task: list(plans) for task, plans in PLANS.items() if task in GENERATED}


@lru_cache(maxsize=32)
def _task(name: str, data: tuple[tuple[str, Any], ...]) -> Task:
    return open_task(name, **dict(data))


@cache
def _started_tokenizer(model: str) -> Tokenizer:
    """Return the tokenizer of a classifier that starts from the shipped model of this name."""
    return load(model, device="cpu").tokenizer.for_classes()


@dataclass(frozen=True)
class RunSettings:
    """A task, a model, and the settings that differ from their plan, sorted by name.

    Raises:
        ValueError: The app does not offer this task with this model.
    """

    task: str
    model: str
    changed: tuple[tuple[str, Any], ...] = ()
    own: OwnData | None = None  # for a task that needs data

    def __post_init__(self) -> None:
        if self.own:
            is_offered = self.own.of.tasks.get(self.model) == self.task
        else:
            is_offered = self.model in offered_tasks().get(self.task, ())
        if not is_offered:
            raise ValueError(f"there is no recipe for the model {self.model} on {self.task}")

    @cached_property
    def unchanged(self) -> Plan:
        """The plan as shipped."""
        return self.own.plan(self.model) if self.own else plan_for(self.task, self.model)

    @property
    def metric(self) -> str:
        """The held-out measure of the task."""
        return TASKS[self.task].metric if self.own else self.opened.metric

    @property
    def names(self) -> list[str]:
        """The settings that this model has."""
        sizes = [
            name
            for name in (*INTEGER_LIMITS, *SETTING_CHOICES)
            if name in self.unchanged.size_names
        ]
        if self.own and self.own.of.starts:  # the sizes are those of the shipped model
            sizes = ["seed"]
        return list(dict.fromkeys([*sizes, *RECIPE_SETTINGS]))

    def usual(self, name: str) -> Any:
        """Return the plan's value of a setting."""
        if name in RECIPE_SETTINGS:
            return getattr(self.unchanged.recipe, name)
        if name in self.unchanged.sizes:
            return self.unchanged.sizes[name]
        return getattr(self.unchanged.config(self._vocab_size), name)

    @property
    def _vocab_size(self) -> int:
        """The size of the vocabulary; for own data, the largest that may be learned from them."""
        if self.own and self.own.of.starts:
            return _started_tokenizer(self.model).vocab_size
        if self.own:
            return self.unchanged.data["vocab_size"]
        return self.opened.tokenizer.vocab_size

    def value(self, name: str) -> Any:
        """Return the value of a setting."""
        return dict(self.changed).get(name, self.usual(name))

    def having(self, **values: Any) -> "RunSettings":
        """Return a copy with these values; None restores the plan's value."""
        settings = dict(self.changed) | values
        changes = {
            name: value
            for name, value in settings.items()
            if name in self.names and value not in (None, self.usual(name))
        }
        return replace(self, changed=tuple(sorted(changes.items())))

    @property
    def opened(self) -> Task:
        """The task, opened."""
        return _task(self.task, tuple(self.unchanged.data.items()))

    @property
    def plan(self) -> Plan:
        """The plan with the changes, without its snapshots."""
        sizes = {name: value for name, value in self.changed if name not in RECIPE_SETTINGS}
        recipe = {name: value for name, value in self.changed if name in RECIPE_SETTINGS}
        plan = self.unchanged
        return replace(plan, sizes=plan.sizes | sizes, recipe=replace(plan.recipe, **recipe))

    @cached_property
    def config(self) -> Config:
        """The configuration of the model.

        Raises:
            ValueError: A size does not fit another.
        """
        if self.own:
            return self.plan.config(self._vocab_size, **self.own.sizes(self.plan) | self.plan.sizes)
        return planned_config(self.plan, self.opened)

    @cached_property
    def n_parameters(self) -> int:
        """The number of parameters, counted without building the model.

        Raises:
            ValueError: A size does not fit another.
        """
        return sum(parameter.numel() for parameter in blank(self.config).parameters())

    @property
    def recipe(self) -> Recipe:
        """The recipe, with as many snapshots as there is room for."""
        fitting = SNAPSHOT_BYTES // (2 * self.n_parameters + MAX_SNAPSHOT_HEADER)
        return densely_kept(self.plan.recipe, min(MAX_SNAPSHOTS, fitting))

    def problems(self) -> dict[str, str]:
        """Return error messages by the setting that can fix them; empty if there are none."""
        for name, value in self.changed:
            if message := _out_of_bounds(name, value):
                return {name: message}
        try:
            n = self.n_parameters
        except ValueError as error:
            return {self._named_in(str(error)): str(error)}
        if n > (allowed := MAX_OWN_DATA_PARAMETERS if self.own else MAX_PARAMETERS):
            largest = "d_model" if "d_model" in self.names else self.names[0]
            most = f"at most {allowed:,} are trained here"
            return {largest: f"{largest} and the layers give {n:,} parameters; {most}"}
        return {}

    def _named_in(self, message: str) -> str:
        """Return the setting that a message names first."""
        places = {name: message.find(name) for name in self.names if name in message}
        return min(places, key=places.__getitem__, default=self.names[0])

    def arguments(self, folder: Path) -> list[str]:
        """Return the arguments of `attnscope` that train this run in a folder."""
        recipe = self.recipe
        flags: dict[str, Any] = (self._own_flags(folder) if self.own else dict(self.changed)) | {
            "threads": THREADS, "device": "cpu", "out": folder,
            "n_snapshots": recipe.n_snapshots, "snapshot_ratio": recipe.snapshot_ratio,
        }  # fmt: skip
        words = [f"--{name.replace('_', '-')}={value}" for name, value in flags.items()]
        return ["train", self.task, f"--model={self.model}", "--snapshots", *words]

    def _own_flags(self, folder: Path) -> dict[str, Any]:
        """Return the flags in which the plan for own data differs from the command line's."""
        assert self.own is not None
        usual, plan = self.own.shipped_plan(self.model), self.plan
        parts = [(usual.sizes, plan.sizes), (usual.data, plan.data), (asdict(usual.recipe), asdict(plan.recipe))]  # fmt: skip
        flags = {
            name: value
            for before, now in parts
            for name, value in now.items()
            if before.get(name) != value
        }
        start = {"from": self.model} if self.own.of.starts else {}
        return flags | start | {"data": folder / self.own.of.file}

    def prepare(self, folder: Path) -> None:
        """Copy the run's data into its folder, so that the command line can continue the run.

        Raises:
            OSError: The data are gone, or the folder cannot be written.
        """
        if self.own and not (file := folder / self.own.of.file).exists():
            write_bytes(file, self.own.path.read_bytes())

    def resumed(self, folder: Path) -> str:
        """Return the command that continues the run."""
        return shlex.join(["attnscope", *self.arguments(folder), "--resume"])

    def differences(self, other: "RunSettings") -> list[tuple[str, Any, Any]]:
        """Return (setting, value here, value there) where two runs differ."""
        data = _names_of_data(self.own, other.own)
        triples = [
            ("task", self.task, other.task),
            ("model", self.model, other.model),
            ("data", *data),
        ]
        shared = [name for name in self.names if name in other.names]
        triples += [(name, self.value(name), other.value(name)) for name in shared]
        if self.task == other.task and not (self.own or other.own):
            ours, theirs = self.unchanged.data, other.unchanged.data
            # the form follows from the model
            named = [name for name in ours if name in theirs and name != "form"]
            triples += [(name, ours[name], theirs[name]) for name in named]
        return [(name, ours, theirs) for name, ours, theirs in triples if ours != theirs]


def _names_of_data(ours: OwnData | None, theirs: OwnData | None) -> tuple[str, str]:
    """Return two names that tell the data of two runs apart; equal names for equal content."""
    if not (ours and theirs):
        return ours.name if ours else "none", theirs.name if theirs else "none"
    if ours.sha256 == theirs.sha256:
        return ours.name, ours.name
    if ours.name != theirs.name:
        return ours.name, theirs.name
    sizes = ours.in_words, theirs.in_words
    return sizes if sizes[0] != sizes[1] else (ours.name, "other content of the same size")


def _out_of_bounds(name: str, value: Any) -> str:
    """Return what is wrong with a value by itself."""
    if name in SETTING_CHOICES:
        is_valid = value in SETTING_CHOICES[name]
        return (
            ""
            if is_valid
            else f"{name} must be one of {', '.join(SETTING_CHOICES[name])}, not {value!r:.40}"
        )
    low, high = (INTEGER_LIMITS | FLOAT_LIMITS)[name]
    kinds = (int,) if name in INTEGER_LIMITS else (int, float)
    if type(value) not in kinds or not low <= value <= high:
        return f"{name} must be a number from {low} to {high}, not {value!r:.40}"
    return ""
