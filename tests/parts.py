"""What a test takes from a feature whose folder it is not in.

A feature can be left out of the tree, so no module outside its folders imports it: neither could the test be collected
then nor would the types be checked. A test of the core that looks at a feature beside it asks here, where it uses it.
"""

from __future__ import annotations

import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from chordesk.models.features import OWN

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
CONTRACTS = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
EVERY = frozenset(
    one["name"].rpartition(": ")[2] for one in CONTRACTS if one["name"].startswith("Core knows no feature")
)
HERE = frozenset(place.split(".")[2] for place in OWN)


def needs(*names: str) -> pytest.MarkDecorator:
    """The mark of a test, or of a row of its table, that is skipped where the tree lacks one of these features."""
    absent = [name for name in names if name not in HERE]
    return pytest.mark.skipif(bool(absent), reason=f"{', '.join(absent)}: not in this tree")


def has_command(line: str) -> bool:
    """Whether this tree has the command, and the options, of a line of `desk`. A whole tree has all: a line that is
    wrong there fails in its test."""
    if EVERY <= HERE:
        return True
    from chordesk.tasks.cli.root import build

    found: Any = get_command(build())
    for word in line.split():
        if hasattr(found, "commands"):
            if word not in found.commands:
                return False
            found = found.commands[word]
        elif word.startswith("--") and not any(word.partition("=")[0] in one.opts for one in found.params):
            return False
    return True


def of_feature(name: str) -> Any:
    """What a feature's module has, by "module:name", or the module. The test that asks is skipped where the tree has no
    such feature; a program that is no test ends with that line."""
    module, _, member = name.partition(":")
    feature = module.split(".")[2]
    if feature not in HERE:
        pytest.skip(f"the feature {feature} is not in this tree", allow_module_level=True)
    loaded = import_module(module)
    return getattr(loaded, member) if member else loaded
