"""CHANGELOG.md: a section a release, the newest of them the package's version."""

from __future__ import annotations

import datetime as dt
import re
import tomllib

from packaging.version import Version

from tests.stack import REPOSITORY

_RELEASE = re.compile(r"(\d+\.\d+\.\d+), (\d{4}-\d\d-\d\d), schema (\d{4})")


def releases() -> list[tuple[Version, dt.date, str]]:
    """The releases of the changelog, the newest first."""
    text = (REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8")
    first, *rest = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert first == "Unreleased"
    found = [_RELEASE.fullmatch(title) for title in rest]
    assert all(found), rest
    return [(Version(each[1]), dt.date.fromisoformat(each[2]), each[3]) for each in found if each]


def test_the_newest_release_is_the_packages_version() -> None:
    with (REPOSITORY / "pyproject.toml").open("rb") as file:
        assert releases()[0][0] == Version(tomllib.load(file)["project"]["version"])
