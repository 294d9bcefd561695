"""Every public tensor argument declares its shape (jaxtyping), "..." if any shape will do."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from beartype.roar import BeartypeCallHintParamViolation
from jaxtyping import TypeCheckError

import models
from models.trace.outputs import RegressionValues

MODELS = Path(models.__file__).parent


def public_functions(node: ast.Module | ast.ClassDef) -> Iterator[ast.FunctionDef]:
    for part in node.body:
        if isinstance(part, ast.ClassDef) and not part.name.startswith("_"):
            yield from public_functions(part)
        elif isinstance(part, ast.FunctionDef) and not part.name.startswith("_"):
            yield part


def lacks_shape(annotation: ast.expr) -> bool:
    text = ast.unparse(annotation)
    return "Callable" not in text and bool(re.search(r"\bTensor\b(?!, )", text))


def test_public_tensor_arguments_have_a_shape() -> None:
    lacking, n = [], 0
    for path in MODELS.rglob("*.py"):
        for function in public_functions(ast.parse(path.read_text("utf-8"))):
            arguments = function.args
            for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                if argument.annotation is not None:
                    n += "Tensor" in ast.unparse(argument.annotation)
                    if lacks_shape(argument.annotation):
                        lacking.append(
                            f"{path.name}:{function.lineno} {function.name} {argument.arg}"
                        )
    assert n > 200
    assert not lacking


def test_the_tests_refuse_another_shape_and_another_type() -> None:
    RegressionValues("text", ("a",), torch.zeros(1))
    with pytest.raises(TypeCheckError, match="values"):
        RegressionValues("text", ("a",), torch.zeros(1, 2))
    with pytest.raises((TypeCheckError, BeartypeCallHintParamViolation)):
        RegressionValues(3, ("a",), torch.zeros(1))
