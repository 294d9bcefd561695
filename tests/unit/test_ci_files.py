"""CI workflows, hooks and images run what .ci/run runs, on the Pythons that the package names; and links in pages lead somewhere."""

import re
import subprocess
from pathlib import Path

import pytest
import yaml
from toml_files import tomllib

import models

ROOT = Path(models.__file__).parents[1]
GITHUB = ROOT / ".github"
GATE = (ROOT / ".ci" / "run").read_text("utf-8")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT = PYPROJECT["project"]
TOOLS = ("ruff format --check", "ruff check", "pyright")
WORKFLOW = yaml.safe_load((GITHUB / "workflows" / "ci.yml").read_text("utf-8"))


def commands(job: str) -> str:
    return "\n".join(step.get("run", "") for step in WORKFLOW["jobs"][job]["steps"])


def test_every_system_and_python_is_tried() -> None:
    matrix = WORKFLOW["jobs"]["test"]["strategy"]["matrix"]
    assert [name.split("-")[0] for name in matrix["os"]] == ["ubuntu", "macos", "windows"]
    named = [name.rpartition(":: ")[2] for name in PROJECT["classifiers"]]
    assert set(matrix["python"]) <= set(named)
    assert f">={matrix['python'][0]}" == PROJECT["requires-python"]


@pytest.mark.parametrize("tool", TOOLS)
def test_the_same_tools_run_in_the_gate_the_workflow_and_the_hooks(tool: str) -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))
    entries = [hook["entry"] for repo in hooks["repos"] for hook in repo["hooks"]]
    assert len(entries) == len(TOOLS)
    assert tool in GATE.replace('/bin/ruff"', "/ruff").replace('"$environment/', "")
    assert tool in commands("lint")
    assert any(tool in entry for entry in entries)


def test_the_folders_that_the_workflow_tests_are_there() -> None:
    tested = re.findall(r"tests/\w+", commands("test") + commands("browser"))
    assert len(tested) == 7
    assert all((ROOT / folder).is_dir() for folder in tested)


def test_the_gate_runs_slow_tests_of_every_folder_that_the_readme_tests() -> None:
    folders = PYPROJECT["tool"]["pytest"]["ini_options"]["testpaths"]
    slow = re.search('^slow="--slow (.*)"$', GATE, re.MULTILINE)[1].split()
    assert set(folders) < set(slow)
    assert "--slow" in commands("browser")


def test_the_constraints_hold_every_dependency_within_its_range() -> None:
    from packaging.requirements import Requirement

    lines = (GITHUB / "constraints.txt").read_text("utf-8").splitlines()
    fixed = dict(line.lower().split("==") for line in lines if not line.startswith("#"))
    extras = PROJECT["optional-dependencies"]
    named = [*PROJECT["dependencies"], *extras["hub"], *extras["site"]]
    for requirement in map(Requirement, named):
        assert fixed[requirement.name.lower()] in requirement.specifier, requirement


def test_the_image_asks_for_the_torch_of_the_readme() -> None:
    dockerfile = (GITHUB / "docker" / "Dockerfile").read_text("utf-8")
    (version,) = set(re.findall(r"torch==[\d.]+", (ROOT / "README.md").read_text("utf-8")))
    assert version in dockerfile
    assert set(re.findall(r"torch==[\d.]+", commands("lint") + commands("test"))) == {version}


def test_the_image_runs_as_an_unprivileged_user_and_writes_nothing() -> None:
    lines = (GITHUB / "docker" / "Dockerfile").read_text("utf-8").splitlines()
    last = max(i for i, line in enumerate(lines) if line.startswith("FROM"))
    users = [line.split()[1] for line in lines[last:] if line.startswith("USER")]
    assert users == ["10001"]
    service = yaml.safe_load((GITHUB / "docker" / "compose.yml").read_text("utf-8"))["services"]
    assert service["attnscope"]["read_only"] is True
    assert "ports" not in service["attnscope"]  # only the proxy is reached from outside


def pages() -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.splitlines()
    return [ROOT / name for name in listed] or [ROOT / "README.md", *GITHUB.glob("*.md")]


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    prose = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in headings}


def test_every_link_of_every_page_leads_to_a_file_and_a_heading() -> None:
    followed = 0
    for page in pages():
        prose = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text("utf-8"), flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)\s]+)\)", prose):
            if re.match(r"\w+:", link):
                continue
            name, _, anchor = link.partition("#")
            target = (page.parent / name).resolve() if name else page
            assert target.exists(), f"{page}: {link}"
            assert not anchor or anchor in anchors(target), f"{page}: {link}"
            followed += 1
    assert followed > 15
