"""Secrets in files: `NAME_FILE` is the path of a file with the value of NAME, as containers mount them.

It stands for every setting that is a secret, and for the keys that are read from the environment alone. The live switch
is neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from chordesk.models.errors import SettingError

SUFFIX = "_FILE"
_MOST_BYTES = 64 * 1024


def secret(environ: Mapping[str, str], name: str) -> str | None:
    """Return the value of a variable, or of the file that NAME_FILE names; None where neither is set. Raises
    SettingError."""
    value, path = environ.get(name), environ.get(name + SUFFIX)
    if value and path:
        raise both_given(name)
    return read_secret(name + SUFFIX, path) if path else value or None


def both_given(name: str) -> SettingError:
    """Return the error for a secret that has both a value and a file in one source."""
    return SettingError(f"{name} and {name}{SUFFIX} are both set", remedy="set one of them")


def read_secret(variable: str, path: str) -> str:
    """Return the one line of a secret's file, without spaces around it. Raises SettingError that names file and
    remedy, and nothing of the content."""
    try:
        with Path(path).expanduser().open("rb") as file:
            text = file.read(_MOST_BYTES + 1).decode("utf-8").strip()
    except OSError as error:
        raise _unusable(variable, path, f"cannot be read: {error.strerror}", "let this process read it") from None
    except UnicodeDecodeError:
        raise _unusable(variable, path, "is not text", "write the secret into it, as one line") from None
    if not text:
        raise _unusable(variable, path, "is empty", "write the secret into it, as one line") from None
    if len(text.splitlines()) > 1 or len(text) > _MOST_BYTES:
        raise _unusable(variable, path, "has more than one line", "leave only the secret in it, as one line")
    return text


def both_forms(names: Iterable[str]) -> tuple[str, ...]:
    """Return the variables that give these secrets: each name, and that of its file."""
    return tuple(each for name in names for each in (name, name + SUFFIX))


def from_files(environ: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return the values of those secrets that a file has. Raises SettingError."""
    given = {name: secret(environ, name) for name in names if environ.get(name + SUFFIX)}
    return {name: value for name, value in given.items() if value}


def _unusable(variable: str, path: str, why: str, remedy: str) -> SettingError:
    return SettingError(f"{variable}={path}: the file {why}", remedy=f"{remedy}; or unset {variable}")
