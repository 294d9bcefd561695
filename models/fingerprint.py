"""Digests that identify weights by content, independent of file path and time."""

import json
from dataclasses import asdict
from hashlib import sha256

import torch

from models import loading
from models.architectures import Model, name_of
from models.tokenizers.base import Tokenizer


def weights_digest(model: Model) -> str:
    """Return the SHA-256 (hex) of the names, shapes and values of a model's parameters."""
    digest = sha256()
    tensors = model.state_dict()
    for name, tensor in loading.with_progress(loading.HASHED, tensors.items(), len(tensors)):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.detach().to("cpu").contiguous().flatten().view(torch.uint8).numpy())
    return digest.hexdigest()


def fingerprint(model: Model, tokenizer: Tokenizer, weights: str) -> str:
    """Return the SHA-256 (hex) of configuration, tokenizer and weights digest.

    Models with the same fingerprint give the same answers.
    """
    config = json.dumps(
        {"architecture": name_of(model.config), **asdict(model.config)}, sort_keys=True
    )
    return sha256(f"{config}\n{tokenizer.to_json()}\n{weights}".encode()).hexdigest()
