"""The process in which a Hugging Face folder is tried out (see `models.hub.trial.client`).

The configuration is built without weights and run once; the tokenizer is read and tried on
odd texts. Any harm is done to this process, not to the one that started it.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import resource
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from torch import nn

from models.errors import CheckpointError
from models.hub import files, load
from models.hub.images.model import ImageModel
from models.hub.images.processor import ImageProcessor
from models.hub.images.text_image import TEXT_TOWER, TextImageModel
from models.hub.sizes import hub_sizes
from models.hub.sounds.model import SpeechToText
from models.hub.sounds.open_reader import spelling
from models.hub.sounds.processor import SoundProcessor
from models.hub.sounds.reader import CTCModel, SoundReader
from models.hub.trial import tokenizer as tokenizer_trial
from models.priority import lower_priority
from models.sounds import decoded_sound, example_sound

MEMORY = 2**32  # bytes that a trial may take, at most half of the free memory
# s of processor time for each part of a trial
BUILDING_SECONDS, READING_SECONDS, ANSWERING_SECONDS = (
    30,
    90,
    15,
)  # reading: a quarter of a million tokens, converted from SentencePiece
IDLE = 600.0  # s without a trial after which the process ends
SPARE = 2**20  # numbers that a model may have besides those in its weights, such as a pooler's

ReportTrial = Callable[[dict[str, Any]], None]
_Begin = Callable[[str, int], None]  # a part of a trial, and its seconds


def serve_trials(descriptor: int) -> None:
    """Fork for each trial that is asked for on this socket, until its other end closes."""
    control = socket.socket(fileno=descriptor)
    control.settimeout(IDLE)
    for module in ("modeling_layers", "masking_utils", "generation.utils", "models.auto"):
        importlib.import_module(f"{load.transformers_library().__name__}.{module}")
    torch.set_num_threads(1)
    lower_priority(5)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with suppress(OSError):
        while True:
            request, descriptors, *_ = socket.recv_fds(control, 1, 2)
            if not request:
                break
            if os.fork() == 0:
                control.close()
                _run(*descriptors)
            for each in descriptors:
                os.close(each)
    os.killpg(0, signal.SIGKILL)  # with all trials still running


def _run(descriptor: int, lifeline: int) -> None:
    """Try out one folder in this process, report on the socket, and end."""
    channel = socket.socket(fileno=descriptor)
    try:
        _limit(lifeline)
        request = json.loads(channel.makefile("rb").readline())

        def report(message: dict[str, Any]) -> None:
            channel.sendall(json.dumps(message).encode() + b"\n")

        try:
            size = try_folder(Path(request["folder"]), request["dtype"], report)
            report({"bytes": size})
        except CheckpointError as error:
            report({"error": str(error)})
        except BaseException as error:  # a panic of the library is not an Exception
            report({"raised": str(error).strip() or type(error).__name__})
    finally:
        os._exit(0)


def _limit(lifeline: int) -> None:
    """Limit this process: it dies with `lifeline` and has bounded memory and no core file."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGIO, signal.SIG_DFL)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)
    allowed = min(MEMORY, files.free_memory(torch.device("cpu")) // 2)
    limit = _data_bytes() + allowed
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _data_bytes() -> int:
    """Return the inherited memory that counts under RLIMIT_DATA; 0 if the system does not say."""
    with suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text("ascii").splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmData")).split()[1])
    return 0


def try_folder(folder: Path, dtype: str, report: ReportTrial) -> int:
    """Return the bytes of the folder's model. Raises any error of the libraries."""

    def begin(stage: str, seconds: int) -> None:
        report({"stage": stage})
        signal.setitimer(signal.ITIMER_PROF, seconds)  # its signal ends the process

    begin("config.json", BUILDING_SECONDS)
    plan = load.opening_plan(folder)
    module = _blank(plan, getattr(torch, dtype) if dtype else None)
    _check_size(module, files.stored_numbers(folder))
    size = sum(t.numel() * t.element_size() for t in (*module.parameters(), *module.buffers()))
    _run_blank(module, **_blank_file(folder, plan, begin), **_blank_text(plan))
    if issubclass(plan.model_class, CTCModel):
        begin("tokenizer", READING_SECONDS)
        spelling(folder, plan.config, load.transformers_library())
    if issubclass(plan.model_class, ImageModel | SoundReader):
        return size
    begin("tokenizer", READING_SECONDS)
    library = load.library_tokenizer(folder)
    has_towers = issubclass(plan.model_class, TextImageModel)
    try:
        reader = getattr(module, TEXT_TOWER, module) if has_towers else module
        sizes = hub_sizes(plan.name, reader, plan.config, library, False)
    except (AttributeError, NotImplementedError, TypeError):
        return size  # without attention between tokens: it is refused when it is opened, with the reason
    tokenizer = load.tokenizer_of(library, plan.config, module, sizes)
    begin("tokenizer", ANSWERING_SECONDS)
    tokenizer_trial.try_tokenizer(tokenizer, library)
    return size


def _blank_file(folder: Path, plan: load.OpeningPlan, begin: _Begin) -> dict[str, torch.Tensor]:
    """Return an image or a sound as the input of a model that reads one."""
    if issubclass(plan.model_class, TextImageModel | ImageModel):
        begin(files.PREPROCESSOR, ANSWERING_SECONDS)
        shape = ImageProcessor(folder, load.transformers_library()).shape
        begin("config.json", BUILDING_SECONDS)
        return {"pixel_values": torch.zeros(1, *shape, device="meta")}
    if issubclass(plan.model_class, SpeechToText | SoundReader):
        begin(files.PREPROCESSOR, ANSWERING_SECONDS)
        processor = SoundProcessor(folder, load.transformers_library())
        features = processor.features(decoded_sound(example_sound()))
        begin("config.json", BUILDING_SECONDS)
        return {processor.reads: features[None].to("meta")}
    return {}


def _blank_text(plan: load.OpeningPlan) -> dict[str, Any]:
    """Return a text as the input of a model that reads one."""
    if issubclass(plan.model_class, ImageModel | SoundReader):
        return {}
    ids = torch.zeros(1, 3, dtype=torch.long, device="meta")
    if issubclass(plan.model_class, TextImageModel):
        return {"input_ids": ids}
    if issubclass(plan.model_class, SpeechToText):
        return {"decoder_input_ids": ids, "use_cache": False}
    target = {"decoder_input_ids": ids} if plan.config.is_encoder_decoder else {}
    return {"input_ids": ids, "use_cache": False, **target}


def _blank(plan: load.OpeningPlan, dtype: torch.dtype | None) -> nn.Module:
    """Return the model without its numbers, which takes no memory."""
    how = {} if dtype is None else {"dtype": dtype}
    with torch.device("meta"):
        return plan.auto.from_config(
            plan.config, attn_implementation="eager", trust_remote_code=False, **how
        )


def _check_size(module: nn.Module, stored: int) -> None:
    """Raise CheckpointError for a model far larger than its weights.

    A matrix that is used in two places may be stored once.
    """
    n_parameters = sum(p.numel() for p in module.parameters())
    if n_parameters > 2 * stored + SPARE:
        raise CheckpointError(
            f"config.json describes a model of {n_parameters:,} numbers, but its weights hold {stored:,}"
        )


@torch.no_grad()
def _run_blank(module: Any, **inputs: Any) -> None:
    """Run once without numbers, to bound the time: any number of layers can share weights."""
    with suppress(Exception):  # a run that depends on numbers
        module(**inputs)
