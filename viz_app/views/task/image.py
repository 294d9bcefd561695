"""The classes of an image or a sound, and what the token that answers attends to, over it."""

from typing import Any

import numpy as np
import torch

from models.analysis.distributions import check_softmax
from models.trace.outputs import ClassProbabilities
from viz_app.drawing.over_file import over_file
from viz_app.drawing.payload import pack
from viz_app.drawing.provenance import file_name
from viz_app.drawing.scale import AUTO, Scale
from viz_app.drawing.stamp import facts, saving
from viz_app.session.current_run import CurrentRun
from viz_app.views.task import text
from viz_app.views.task.reading import DrawnOutput, TaskChoices, check_row, reading_site

SEVERAL_TOKENS_NOTE = (
    "**The classes are not known to be read from one token alone.** The model makes a logit for each class, and softmax "
    "makes them probabilities. No single attention row belongs to that answer. Shown is that of one {}; click another "
    "in the {}."
)


def file_classes(run: CurrentRun, output: ClassProbabilities, choices: TaskChoices) -> DrawnOutput:
    """Draw the most probable classes, and one head over the file; return their checks."""
    site, head = reading_site(run.trace, output.stream, choices.focus)
    order = torch.argsort(output.probabilities, descending=True, stable=True)
    listed = order[: text.N_NAMED_CLASSES].tolist()
    if len(output.names) <= text.N_NAMED_CLASSES:  # then in the model's own order
        listed = sorted(listed)
    p = output.probabilities[listed]
    header: dict[str, Any] = {
        "title": text.CLASS_TITLE,
        **saving(file_name(run.trace, "classes"), facts(run.trace)),
        "rows": [
            [i, [output.names[i], "", False], "most probable" * (i == int(order[0]))]
            for i in listed
        ],
        "fact": text.class_fact(output),
        "reading": {"title": "", "note": "", "keys": [], "own": -1, "blocked": []},
        "segments": [],
        "blocks": [],
    }
    ranks = 1 + (output.probabilities[None] > p[:, None]).sum(-1)
    none = {"weights": np.zeros(0, np.float32), "allowed": np.zeros(0, np.uint8)}
    pictures = {"pair": pack(header, p=p.numpy(), ranks=ranks.numpy().astype(np.int32), **none)}
    checks = check_softmax(output.logits[None], output.logits[None].float().log_softmax(-1))
    if site is not None:
        over, query = over_file(run.trace, site, head, choices.focus.lock, Scale(AUTO))
        pictures |= over
        checks.append(check_row(site, head, query))
    return pictures, checks
