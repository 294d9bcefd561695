"""What the page Train says."""

import re

from models.commands.train_flags import OVERWRITE, RESUME
from models.printable import printable
from models.tasks.generated import GeneratedTask
from models.training.task import Task
from viz_app import words
from viz_app.drawing.learning_chart import jump_of
from viz_app.drawing.loss_curve import loss_text
from viz_app.trainers import run as states
from viz_app.trainers.run import TrainingRun
from viz_app.trainers.watched import WatchedRun

TRAIN_QUESTION = "Train: when will the diagonal appear?"
TRAIN_ANSWER = (
    "Train a small model, and see its attention form on an example that it never trains on."
)
TRAIN_HELP = (
    "A run is `attnscope train` in a process of its own. The same settings and seed give the same weights, bit for bit. "
    "It may be paused, stepped or stopped, here or on the command line.\n\n"
    "**The example** is the first case held out for validation that fits into the model, with its correct answer. "
    "During training, the current weights draw the picture. "
    "Once the run rests, the slider goes back over the steps whose weights were kept.\n\n"
    "**The chart** has the training loss of each batch, and the held-out loss and score at each validation. "
    "The recipes here average the weights over the last fifth of the steps. From there on, both are measured on the average. "
    "The weights kept at the last step are the average, too. "
    "A run with patience, such as one on your own pairs, keeps the weights with the smallest held-out loss. "
    "Any other run keeps those of its last step. "
    "The vertical line is the step of the picture.\n\n"
    "On **repeat**, each kept step except step 0 has an induction score (Olsson et al. 2022). When a letter repeats, an induction head "
    "attends to the letter that followed it before. The score is the best head's weight there, at the distance where it is smallest. "
    "A band marks its jump, the shortest stretch with half of its rise. Is there one with a single layer? "
    "Set **Layers** to 1 and compare.\n\n"
    "**Start** begins a new run with the settings above. The run before stays beside it: change one thing, and compare. "
    "An empty box is the recipe's own value."
)
OFF = "This app was started without trainers. `attnscope --share --trainers 1` allows one run at a time."
NO_TRAINERS = "This app was started without trainers."
NO_DATA = "Add your data first: the recipe depends on its size."
NOTHING_TRAINED = "Nothing is trained yet. Press **Start**."
NO_ATTENTION_TO_WATCH = "This model has no attention: one vector carries the whole source."
TOO_LARGE = "This attention is too large to draw during training."
MAX_MESSAGE_SHOWN = 300  # characters of a message
STARTING_TEXT = "The trainer is starting …"
ONLY_IN_TERMINAL = (
    "This run was started on the command line: only its own terminal can pause or stop it."
)
STATE_NAMES = {
    states.STARTING: STARTING_TEXT,
    states.RUNNING: "Training",
    states.PAUSING: "Pausing after this step",
    states.PAUSED: "Paused",
    states.TRAINED: "Trained; scoring on the test cases",
    states.STOPPED: "Stopped; Resume continues from the last saved step",
    states.DONE: "Done",
}


def task_in_words(task: Task) -> str:
    """Return what the task asks, and the example that a run on it draws, with its answer."""
    purpose = task.purpose[0].upper() + task.purpose[1:]
    (case,) = task.held_out(1, validation=True)
    is_answered = case.fields == [case.source] == [*case.references]
    answer = "" if is_answered else f" → “{case.references[0]}”"
    note = task.answer_note if isinstance(task, GeneratedTask) else ""
    return f"{purpose}: “{case.source}”{answer}{f' ({note})' if note else ''}"


def status(run: TrainingRun, place: int) -> str:
    """Return where a run is, in one line."""
    if run.state == states.WAITING:
        runs = "run" if place == 1 else "runs"
        return f"Waiting: {place} {runs} before yours." if place else "Your run starts in a moment."
    if run.state == states.FAILED:
        return f"The run failed: {run.message}."
    if run.state == states.STARTING:
        return STARTING_TEXT
    return f"{STATE_NAMES[run.state]} · step {run.step:,} of {run.steps:,}{last_scores(run)}"


def storage_note(run: TrainingRun) -> str:
    """Return where a run on own data is kept, and how to continue it on the command line."""
    assert run.folder is not None
    where = f"Kept in {run.folder} (without --runs DIR, until the app ends)"
    return printable(f"{where}. On the command line: {run.settings.resumed(run.folder)}")


def watched_status(run: WatchedRun) -> str:
    """Return where a run on the command line is, in one line that begins with its folder."""
    name = printable(run.folder.name)
    if run.problem:
        return f"{name} cannot be read: {printable(run.problem)[:MAX_MESSAGE_SHOWN]}"
    return f"{name}: {_watched_state(run)}"


def _watched_state(run: WatchedRun) -> str:
    if run.state == states.WAITING:
        return "no run yet; start one with `attnscope train`."
    if run.state == states.STARTING:
        return "the trainer is starting …"
    progress = f"step {run.step:,} of {run.steps:,}{last_scores(run)}"
    if run.state == states.STOPPED:
        return f"not training: its process ended before the last step · {progress}. {_resumed(run)}"
    if run.state == states.DONE:
        return f"{'done' if run.is_scored else 'trained, but never scored'} · {progress}"
    words = "training" if run.state == states.RUNNING else "trained; scoring"
    return f"{words} · {progress}. {ONLY_IN_TERMINAL}"


def _resumed(run: WatchedRun) -> str:
    """Return how to continue a run on the command line, or to begin it again."""
    flag, how = (RESUME, "Continue it") if run.can_be_resumed else (OVERWRITE, "Begin it again")
    # records of earlier versions may have one of these flags
    begun = re.sub(rf" (?:{OVERWRITE}|{RESUME})(?= |$)", "", run.command)
    command = printable(f"{begun} {flag}")
    is_short = run.command and len(command) <= MAX_MESSAGE_SHOWN
    return f"{how} with: {command if is_short else f'attnscope train … {flag}'}"


def _at_step(row: dict[str, float]) -> str:
    return f" at step {row['step']:,}"


def last_scores(run: TrainingRun | WatchedRun) -> str:
    """Return the last loss and the last held-out score of a run.

    The loss is reported now and then, so it may be that of a step before the run's.
    """
    points, metric = run.points(), run.metric
    parts = [
        f" · loss {loss_text(row['loss'], 3)}{'' if row['step'] == run.step else _at_step(row)}"
        for row in points[-1:]
        if "loss" in row
    ]
    scored = [row for row in points if metric in row]
    parts += [
        f" · held-out {metric} {words.format_score(metric, row[metric])}{_at_step(row)}"
        for row in scored[-1:]
    ]
    if jump := jump_of(points):
        parts.append(
            f" · induction score up by {jump.rise:.2f} between steps {jump.before:,} and {jump.after:,}"
        )
    return "".join(parts)
