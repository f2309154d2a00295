"""Extras of the package: what one lacks here, checked before anything of it is loaded."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, requires, version

from packaging.requirements import Requirement

from chordesk.models.errors import UsageError


def require_extra(extra: str, what: str) -> None:
    """Raise UsageError if a package of an extra is missing or has another version than the desk needs. what: of the
    desk that needs it, for the message."""
    try:
        wanted = [Requirement(text) for text in requires("chordesk") or ()]
    except PackageNotFoundError:  # the desk runs from a folder: nothing says what it needs
        return
    for one in wanted:
        if one.marker is None or not one.marker.evaluate({"extra": extra}) or one.marker.evaluate({"extra": ""}):
            continue
        try:
            found = version(one.name)
        except PackageNotFoundError:
            raise UsageError(
                f"{what} needs the package {one.name}, which is not installed",
                remedy=f"pip install 'chordesk[{extra}]'",
            ) from None
        if not one.specifier.contains(found, prereleases=True):
            raise UsageError(
                f"{what} needs {one.name} {one.specifier}, and {found} is installed",
                remedy=f"pip install 'chordesk[{extra}]', in an environment of its own if other packages need {found}",
            )
