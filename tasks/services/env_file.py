"""A `.env` as text: values of single variables changed in place, every other line and comment kept as it is."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from io import StringIO
from pathlib import Path
from typing import NamedTuple

from dotenv import dotenv_values
from dotenv.parser import parse_stream

from chordesk.models.errors import UsageError
from chordesk.models.files import replacing

NAME = ".env"
_BYTE_ORDER_MARK = "\ufeff"
_PLAIN = re.compile(r"[\w./:@+~-]+", re.ASCII)
# A line with a value, as python-dotenv reads it: what stands before the value, the value, a comment, the line's end.
_LINE = re.compile(
    r"""(\s*(?:export[^\S\r\n]+)?[^=\r\n]+?=(?:[^\S\r\n]+(?=[^\s\#]))?)"""
    r"""(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|[^\r\n]*?)([^\S\r\n]+\#[^\r\n]*)?[^\S\r\n]*(\r\n|\n|\r|\Z)""",
    re.DOTALL | re.VERBOSE,
)


class Change(NamedTuple):
    """A variable that gets another value. None: it is not set."""

    name: str
    before: str | None
    after: str | None


def find(folder: Path) -> Path:
    """Return the file that a desk started in this folder reads: the nearest one upward; else where one would be."""
    return next((each / NAME for each in (folder, *folder.parents) if (each / NAME).is_file()), folder / NAME)


def read(path: Path) -> str:
    """Return the file's text, empty where there is none. Raises UsageError for one that cannot be changed safely."""
    remedy = "name another file by --env, or move this one away"
    try:
        if path.is_symlink():
            raise UsageError(
                f"{path} is a link to {path.resolve()}", remedy=f"name the file itself: --env {path.resolve()}"
            )
        if path.exists() and not path.is_file():
            raise UsageError(f"{path} is not a regular file", remedy=remedy)
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", remedy=remedy) from None
    except UnicodeDecodeError as error:
        reason = f"{path} is no UTF-8 text: byte {error.start} cannot be read"
        raise UsageError(reason, remedy="save it as UTF-8, or name another file by --env") from None
    if "\0" in text:
        raise UsageError(f"{path} is no text: there is a zero byte in it", remedy=remedy)
    return text


def values(text: str) -> dict[str, str | None]:
    """Return the variables as the desk reads them."""
    return dotenv_values(stream=StringIO(text), interpolate=False)


def unread(text: str) -> list[int]:
    """Return the numbers of lines that are no NAME=VALUE, which no desk reads."""
    found = (each for each in parse_stream(StringIO(text)) if each.error)
    return [each.original.line + len(re.match(r"\s*", each.original.string)[0].splitlines()) for each in found]  # type: ignore[index]


def changed(text: str, wanted: Mapping[str, str | None]) -> str:
    """Return the text with these values; None takes a variable out. What has its value already stays as it is.

    Raises UsageError when the text cannot hold them, as after a quote that is not closed.
    """
    before = values(text)
    todo = {name: value for name, value in wanted.items() if (before.get(name) or None) != value}
    mark = _BYTE_ORDER_MARK if text.startswith(_BYTE_ORDER_MARK) else ""
    found = mark + "".join(_lines(text, todo))
    end = "\r\n" if "\r\n" in text else "\n"
    new = "".join(f"{name}={_quoted(value)}{end}" for name, value in todo.items() if value and name not in before)
    found += end if new and found.strip(mark) and not found.endswith(("\n", "\r")) else ""
    found += new
    if not _holds(values(found), {**before, **todo}):
        raise UsageError("the values cannot be written into the .env", remedy="close the quotes of its last lines")
    return found


def _holds(found: Mapping[str, str | None], wanted: Mapping[str, str | None]) -> bool:
    return {name: value for name, value in found.items() if value} == {
        name: value for name, value in wanted.items() if value
    }


def _lines(text: str, todo: Mapping[str, str | None]) -> Iterator[str]:
    """Yield the text's lines. Of a variable that is there twice the last one counts, so that one is changed."""
    bindings = list(parse_stream(StringIO(text)))
    last = {each.key: place for place, each in enumerate(bindings)}
    for place, each in enumerate(bindings):
        whole = each.original.string
        if each.key is None or each.key not in todo:
            yield whole
        elif (value := todo[each.key]) is None:
            yield _space(whole)
        else:
            yield whole if place != last[each.key] else _with_value(each.key, whole, value)


def _with_value(name: str, line: str, value: str) -> str:
    if (parts := _LINE.fullmatch(line)) is None:  # such as NAME without a value
        return f"{_space(line)}{name}={_quoted(value)}\n"
    return f"{parts[1]}{_quoted(value)}{parts[2] or ''}{parts[3]}"


def _space(line: str) -> str:
    """Return the empty lines before a variable, which the parser takes for a part of it."""
    found = re.match(r"(?:[^\S\r\n]*(?:\r\n|\n|\r))*", line)
    return found[0] if found else ""


def _quoted(value: str) -> str:
    if _PLAIN.fullmatch(value):
        return value
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def changes(before: str, after: str) -> list[Change]:
    """Return what differs between two texts, in the order of the variables' names in the second one."""
    old, new = values(before), values(after)
    names = [*new, *(name for name in old if name not in new)]
    return [Change(name, old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)]


def write(path: Path, text: str) -> None:
    """Replace the file at once, with the owner and the rights that it has; a new one is its owner's alone. Raises
    UsageError."""
    try:
        known = path.stat() if path.exists() else None
        with replacing(path) as file:
            if known is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(known.st_mode))
                with suppress(PermissionError):
                    os.fchown(file.fileno(), known.st_uid, known.st_gid)
            file.write(text.encode())
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", remedy="name another file by --env") from None


def write_secret(path: Path, secret: str) -> None:
    """Write a secret into a file that its owner alone may read. Raises UsageError."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(path) as file:  # made with access for its owner alone
            file.write(f"{secret}\n".encode())
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}", remedy="set DESK_HOME to a folder you may write"
        ) from None
