"""Have the running desk answer a command that only looks: its process has loaded what the command would load first.

Standard library only. Whatever does not fit, or does not answer in time, is left to the command itself.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import chordesk
from chordesk.tasks.worker.sockets import socket_folder

# Beside the desk's other sockets: the one that answers, and the words of each command that it answers, a line each.
SOCKET, COMMANDS = "commands.sock", "commands.txt"
BEGAN = time.time()  # of this process: no module of the desk was loaded long before this one
TAKEN = b"\x01"
SIZE_BYTES = 8
TAKEN_SECONDS = 0.5  # until the desk has taken the command line, which a frozen one does not
ANSWER_SECONDS = 3.0  # from then on; the command itself would take longer for the same
INTERRUPTED = 130
_HELP = frozenset({"-h", "--help"})
_POINTERS = ("DESK_CONFIG", "AUTONOMOUS_CONFIG_JSON")
_HOME_LINE = re.compile(r"^\s*(?:export\s+)?DESK_HOME\s*=\s*(.*?)\s*$", re.MULTILINE)
_NAMES_A_HOME = re.compile("home", re.IGNORECASE)
# Read while modules load, so that they must be the same for both.
_READ_WHILE_LOADING = frozenset({"DESK_FEATURES_OFF", "TYPER_USE_RICH"})


class Answer(NamedTuple):
    """What a command wrote, in its order, each part with the number of its stream; and its exit code."""

    written: Sequence[tuple[int, str]]
    code: int


def answer(arguments: Sequence[str]) -> int | None:
    """Print the desk's answer and return its exit code; None, with nothing printed, where the command has to look
    itself."""
    try:
        found = _asked(arguments)
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    if found is None:
        return None
    streams = {1: sys.stdout, 2: sys.stderr}
    for number, text in found.written:
        streams[number].write(text)
    return found.code


def _asked(arguments: Sequence[str]) -> Answer | None:
    home = probable_home(os.environ, Path.cwd())
    if home is None or not arguments or _HELP.intersection(arguments):
        return None
    folder = socket_folder(home)
    if not _listed((folder / COMMANDS).read_text(encoding="utf-8"), arguments):
        return None
    if (folder / SOCKET).lstat().st_uid != os.getuid():
        return None
    request = {
        "arguments": list(arguments),
        "process": like(os.environ),
        "environ": dict(os.environ),
        "cwd": os.getcwd(),
        "encodings": [(each.encoding, each.errors) for each in (sys.stdout, sys.stderr)],
        # Not the streams: a desk that is frozen would hold a pipe open, and its reader would wait for the end.
        "terminals": [_terminal(number) for number in range(3)],
    }
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(TAKEN_SECONDS)
        line.connect(str(folder / SOCKET))
        data = json.dumps(request).encode()
        line.sendall(len(data).to_bytes(SIZE_BYTES, "big") + data)
        if received(line, 1) != TAKEN:
            return None
        line.settimeout(ANSWER_SECONDS)
        table = json.loads(received(line, int.from_bytes(received(line, SIZE_BYTES), "big")))
    return Answer([(int(number), str(text)) for number, text in table["written"]], int(table["code"]))


def _terminal(number: int) -> tuple[bool, tuple[int, int] | None]:
    """Whether a descriptor is a terminal, and its columns and lines."""
    try:
        columns, lines = os.get_terminal_size(number)
    except OSError:
        return os.isatty(number), None
    return os.isatty(number), (columns, lines)


def received(line: socket.socket, size: int) -> bytes:
    """Raises OSError when the other side ends before."""
    parts, left = [], size
    while left:
        if not (part := line.recv(min(left, 1 << 16))):
            raise ConnectionError("the other side ended in the middle")
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _listed(commands: str, arguments: Sequence[str]) -> bool:
    names = [words.split() for words in commands.splitlines() if words]
    return any(list(arguments[: len(words)]) == words for words in names)


def like(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return what two processes must have in common to print the same: code, interpreter, user and namespaces."""
    return {
        "code": os.path.realpath(chordesk.__file__),
        "python": [sys.version, sys.prefix, sys.flags.optimize, sys.flags.utf8_mode, sys.path[1:]],
        "user": [os.getuid(), os.getgid()],
        "spaces": [_space(name) for name in ("mnt", "net", "pid", "uts")],
        "loading": sorted(
            f"{name}={value}"
            for name, value in environ.items()
            if name in _READ_WHILE_LOADING or (name.startswith("PYTHON") and name != "PYTHONPATH")
        ),
    }


def _space(name: str) -> str:
    try:
        return os.readlink(f"/proc/self/ns/{name}")
    except OSError:  # not Linux, which has none
        return ""


def probable_home(environ: Mapping[str, str], cwd: Path) -> Path | None:
    """Return the home whose desk to ask: probably that of the settings, which are read where the answer is made. None
    where only loading them can tell."""
    if given := environ.get("DESK_HOME"):
        return Path(os.path.expanduser(given)).absolute()
    folders = (cwd, *cwd.parents)
    if (text := _nearest(folders, ".env")) is not None:
        if found := _HOME_LINE.findall(text):
            return Path(os.path.expanduser(found[-1].strip("\"'"))).absolute()
        if any(name in text for name in _POINTERS):
            return None
    if any(environ.get(name) for name in _POINTERS):
        return None
    from platformdirs import user_data_path

    home = user_data_path("chordesk")
    toml = _nearest((*folders, home), "desk.toml")
    return None if toml is not None and _NAMES_A_HOME.search(toml) else home


def _nearest(folders: Sequence[Path], name: str) -> str | None:
    for folder in folders:
        try:
            return (folder / name).read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
    return None
