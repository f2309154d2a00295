"""Extras of the package: what one lacks here, checked before anything of it is loaded."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, requires, version
from typing import TYPE_CHECKING, NamedTuple

from chordesk.models.errors import NotConfigured, UsageError

if TYPE_CHECKING:
    from packaging.requirements import Requirement


class Lack(NamedTuple):
    """What is missing of an extra, after "needs", and how to install it."""

    reason: str
    remedy: str


@cache  # read anew a hundred of them are milliseconds of each turn
def _requirement(text: str) -> Requirement:
    from packaging.requirements import Requirement  # what loads this module seldom asks

    return Requirement(text)


def lack_of(extra: str) -> Lack | None:
    try:
        wanted = [_requirement(text) for text in requires("chordesk") or () if extra in text]
    except PackageNotFoundError:  # the desk runs from a folder: nothing says what it needs
        return None
    install = f"pip install 'chordesk[{extra}]'"
    for one in wanted:
        if one.marker is None or not one.marker.evaluate({"extra": extra}) or one.marker.evaluate({"extra": ""}):
            continue
        try:
            found = version(one.name)
        except PackageNotFoundError:
            return Lack(f"the package {one.name}, which is not installed", install)
        if not one.specifier.contains(found, prereleases=True):
            elsewhere = f"{install}, in an environment of its own if other packages need {found}"
            return Lack(f"{one.name} {one.specifier}, and {found} is installed", elsewhere)
    return None


def require_extra(extra: str, what: str) -> None:
    """Raise UsageError for an extra that lacks something. what: of the desk that needs it, for the message."""
    if (lack := lack_of(extra)) is not None:
        raise UsageError(f"{what} needs {lack.reason}", remedy=lack.remedy)


def require_source(extra: str) -> None:
    if (lack := lack_of(extra)) is not None:
        raise NotConfigured(f"not available: it needs {lack.reason}; {lack.remedy}")
