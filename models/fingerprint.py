"""What tells one set of weights from every other: their content, not the place or the time of their files."""

import json
from dataclasses import asdict
from hashlib import sha256

import torch

from models import loading
from models.architectures import Model, name_of
from models.tokenizers.base import Tokenizer


def weights_digest(model: Model) -> str:
    """SHA-256 (hex) of the names, shapes and values of a model's parameters."""
    found = sha256()
    tensors = model.state_dict()
    for name, tensor in loading.with_progress(loading.HASHED, tensors.items(), len(tensors)):
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        found.update(tensor.detach().to("cpu").contiguous().flatten().view(torch.uint8).numpy())
    return found.hexdigest()


def fingerprint(model: Model, tokenizer: Tokenizer, weights: str) -> str:
    """SHA-256 (hex) of configuration, tokenizer and the digest of the weights. Models of one fingerprint answer alike."""
    config = json.dumps(
        {"architecture": name_of(model.config), **asdict(model.config)}, sort_keys=True
    )
    return sha256(f"{config}\n{tokenizer.to_json()}\n{weights}".encode()).hexdigest()
