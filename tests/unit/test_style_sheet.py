"""The style sheet selects parts of a page by their keys; those of the pinned run begin with "pin-"."""

import ast
import re
from pathlib import Path

import viz_app

ROOT = Path(viz_app.__file__).parent


def keys() -> tuple[set[str], set[str]]:
    """Return the app's strings in the form of a Streamlit key, and the beginnings of keys that are made with a name."""
    whole, beginnings = set(), set()
    for path in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.JoinedStr) and isinstance(node.values[0], ast.Constant):
                beginnings.add(str(node.values[0].value).replace(" ", "-"))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                whole.add(node.value.replace(" ", "-"))
    return whole, beginnings


def test_every_key_of_the_style_sheet_is_given_by_a_page() -> None:
    whole, beginnings = keys()
    style = (ROOT / "style.css").read_text("utf-8").replace("st-key-pin-", "st-key-")
    parts = set(re.findall(r'class\*="st-key-([\w-]+)"', style))
    exact = set(re.findall(r"\.st-key-([\w-]+)", style))
    assert (len(parts), len(exact)) > (5, 50)
    assert {key for key in parts if not any(key in one for one in whole | beginnings)} == set()
    made = {key for key in exact for one in beginnings if one and key.startswith(one)}
    assert exact - whole - made == set()
