"""The recipes of docs/contributing.md, applied as they are printed to a copy of the repository: what each one names
passes, and `desk` has what was added."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.patience import PATIENCE
from tests.stack import REPOSITORY

RECIPES = {"A tool": 2, "A role": 3, "A workflow": 3, "A market": 2}  # with the files that each one touches, less tests
_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)
_PATH = re.compile(r"`([\w/]+\.(?:py|md))`")
_COMMAND = re.compile(r"\.venv/bin/python ([^`\n]+)")
ASKED = {
    "A tool": "from chordesk.agents.roles import ROLES; print([tool.name for tool in ROLES['risk'].tools])",
    "A role": "from chordesk.agents.roles import default_roles; print(default_roles())",
    "A workflow": "from chordesk.tasks.engine.kinds import run_kinds; print(run_kinds())",
    "A market": "from chordesk.models.settings import Settings; print(Settings(market='echo').market)",
}
ADDED = {"A tool": "range_get", "A role": "liquidity", "A workflow": "checkup", "A market": "echo"}


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # With the compiled files, for which times and sizes still hold; one that is being written has a longer name.
    left_out = shutil.ignore_patterns(".*", "*.sqlite", "*.pyc.*")
    folder = tmp_path_factory.mktemp("recipes") / "desk"
    return shutil.copytree(REPOSITORY, folder, symlinks=True, ignore=left_out)


def applied(copy: Path, text: str) -> set[str]:
    """Apply a recipe's blocks, and return the files that it touched."""
    touched = set()
    for block in _BLOCK.finditer(text):
        kind, body = block[2], textwrap.dedent(block[3]) if block[1] else block[3]
        if kind == "diff":
            for change in re.split(r"^--- ", body, flags=re.MULTILINE)[1:]:
                path, _, lines = change.partition("\n")
                _replace(copy / path, lines)
                touched.add(path)
            continue
        before = text[: block.start()].rstrip().rsplit("\n\n", 1)[-1]
        if not (named := _PATH.findall(before)) or not before.endswith((":", ".")):
            continue
        path = copy / named[-1]
        ending = "at the end of" in before
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{path.read_text()}\n\n{body}" if ending else body, encoding="utf-8")
        touched.add(named[-1])
    return touched


def _replace(path: Path, lines: str) -> None:
    old = [line[1:] for line in lines.splitlines() if line[:1] in (" ", "-")]
    new = [line[1:] for line in lines.splitlines() if line[:1] in (" ", "+")]
    whole = path.read_text(encoding="utf-8")
    assert whole.count("\n".join(old)) == 1, f"{path} has no such line: {old}"
    path.write_text(whole.replace("\n".join(old), "\n".join(new)), encoding="utf-8")


def run(copy: Path, *command: str, seconds: float = PATIENCE) -> str:
    done = subprocess.run(command, cwd=copy, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.long
@pytest.mark.timeout(1500)
def test_the_recipes_work_as_they_are_printed(copy: Path) -> None:
    """One after the other on one copy; then the checks that they name, the tests of all in one run."""
    sections = re.split(r"^## ", (copy / "docs" / "contributing.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    tests, others = dict[str, None](), dict[str, None]()
    for recipe, files in RECIPES.items():
        (text,) = [section for section in sections if section.startswith(f"{recipe}\n")]
        touched = applied(copy, text)
        assert len([path for path in touched if not path.startswith("tests/")]) == files, recipe
        commands = _COMMAND.findall(text.replace("\\\n", " "))
        assert any("pytest" in command for command in commands), recipe
        for command in commands:
            if "pytest" in command:
                tests |= dict.fromkeys(word for word in command.split() if word.startswith("tests/"))
            else:
                others[command] = None
    there = run(copy, sys.executable, "-c", "\n".join(ASKED[recipe] for recipe in RECIPES)).splitlines()
    assert all(ADDED[recipe] in line for recipe, line in zip(RECIPES, there, strict=True))
    for command in others:
        run(copy, sys.executable, *command.split())
    assert "Ask the risk role" in run(copy, sys.executable, "-m", "chordesk.tasks.cli.main", "checkup", "--help")
    run(copy, str(Path(sys.executable).parent / "lint-imports"))
    fast = ("-m", "pytest", "-q", "-n", "0", "--fast", "-p", "no:cacheprovider")
    run(copy, sys.executable, *fast, *tests, seconds=4 * PATIENCE)
