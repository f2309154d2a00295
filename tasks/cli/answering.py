"""The desk's side of `asking`: a process of `desk up` that has loaded every command, and forks one for each that only
looks.

The fork has the caller's environment, folder and terminal, so it reads the same settings and prints the same text; what
it prints is kept and sent whole. One thread, no connection open: so a fork of it is a process like any other.
"""

from __future__ import annotations

import contextlib
import dis
import errno
import gc
import importlib
import inspect
import json
import os
import selectors
import signal
import socket
import struct
import sys
import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO, cast

import typer

from chordesk.tasks.cli import ask_running_desk
from chordesk.tasks.cli.ask_running_desk import SIZE_BYTES, TAKEN, received
from chordesk.tasks.cli.main import ended
from chordesk.tasks.cli.root import build, command_for
from chordesk.tasks.cli.shell import LeftToCaller, answers_here, is_answered
from chordesk.tasks.services import parent_guard
from chordesk.tasks.worker import sockets

MOST_AT_ONCE = 8
REQUEST_SECONDS = 1.0
LIFE_SECONDS = 15  # of an answer; the caller has stopped waiting for it long before
LOOK_SECONDS = 1.0  # between two looks at the parent, where the kernel does not tell of its end


class Answering:
    """The process that answers, for the time of a block; it ends with this one at the latest."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self.pid = 0

    def __enter__(self) -> Answering:
        self.pid = _started(self._home)
        return self

    def __exit__(self, *_error: object) -> None:
        if not self._ended():
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        for name in (ask_running_desk.COMMANDS, ask_running_desk.SOCKET):
            with contextlib.suppress(OSError):
                (sockets.socket_folder(self._home) / name).unlink()

    def revive(self) -> None:
        if self._ended():
            self.pid = _started(self._home)

    def _ended(self) -> bool:
        return os.waitpid(self.pid, os.WNOHANG)[0] == self.pid


def _started(home: Path) -> int:
    parent = os.getpid()
    if pid := os.fork():
        return pid
    code = 1
    try:
        _apart(parent)
        _serve(home, parent)
        code = 0
    finally:
        os._exit(code)


def _apart(parent: int) -> None:
    """Leave nothing of the parent's here: its lock, its sockets, its terminal, its ways to end."""
    if sys.platform == "linux":
        parent_guard.hold(signal.SIGKILL, parent)
    os.setsid()
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for each in (signal.SIGINT, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))


def _serve(home: Path, parent: int) -> None:
    folder = sockets.socket_folder(home)
    path, listing = folder / ask_running_desk.SOCKET, folder / ask_running_desk.COMMANDS
    for one in (listing, path):
        one.unlink(missing_ok=True)
    names, code = load(), _Code()
    gc.collect()
    gc.freeze()  # else the first collection of each fork copies all that it shares
    with socket.socket(socket.AF_UNIX) as listener, selectors.DefaultSelector() as ready:
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen()
        listener.setblocking(False)
        ready.register(listener, selectors.EVENT_READ)
        listing.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
        children: set[int] = set()
        while os.getppid() == parent and path.exists():
            if ready.select(LOOK_SECONDS):
                with contextlib.suppress(OSError):
                    _accept(listener, code, children)
            _reap(children)


def _accept(listener: socket.socket, code: _Code, children: set[int]) -> None:
    line, _ = listener.accept()
    with line:
        _reap(children)
        if len(children) >= MOST_AT_ONCE:
            return
        server = os.getpid()
        if pid := os.fork():
            children.add(pid)
            return
        try:
            if sys.platform == "linux":
                parent_guard.hold(signal.SIGKILL, server)
            listener.close()
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.alarm(LIFE_SECONDS)
            _answer(line, code)
        finally:
            os._exit(0)


def _reap(children: set[int]) -> None:
    for pid in list(children):
        if os.waitpid(pid, os.WNOHANG)[0]:
            children.remove(pid)


class _Code:
    """The code as it was loaded. Code that changed since would print something else."""

    def __init__(self) -> None:
        self._loaded = dict(self._times())

    @staticmethod
    def _times() -> Iterator[tuple[str, int]]:
        files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
        own = [file for file in files if file is not None and f"{os.sep}chordesk{os.sep}" in file]
        # A folder of packages changes with each that is installed or removed.
        for path in (*own, *(path for path in sys.path if path.endswith("-packages"))):
            with contextlib.suppress(OSError):
                yield path, os.stat(path).st_mtime_ns

    def changed(self) -> bool:
        now = dict(self._times())
        newest = max(now.values()) / 1e9
        return newest > ask_running_desk.BEGAN or any(now.get(path) != at for path, at in self._loaded.items())


def load() -> list[str]:
    """Load the commands that only look with all that they load when they run; return the words of each."""
    found = list(_looking(typer.main.get_command(build()), ()))
    for _, function in found:
        _load_for(function, set())
    return [" ".join(words) for words, _ in found]


def _looking(command: Any, words: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Callable[..., Any]]]:
    if words and is_answered(command.callback):
        yield words, inspect.unwrap(command.callback)
    for name, below in getattr(command, "commands", {}).items():
        yield from _looking(below, (*words, name))


def _load_for(function: Callable[..., Any], done: set[object]) -> None:
    """Import the modules that a function imports when it is called, and those of our functions that it names."""
    code, names = function.__code__, function.__globals__
    if code in done or not function.__module__.startswith("chordesk."):
        return
    done.add(code)
    for one in _codes(code):
        for step in dis.get_instructions(one):
            if step.opname == "IMPORT_NAME":
                with contextlib.suppress(ImportError):  # an extra that is not installed
                    importlib.import_module(str(step.argval))
            elif step.opname.startswith("LOAD_GLOBAL") and isinstance(
                named := names.get(step.argval), types.FunctionType
            ):
                _load_for(named, done)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from _codes(one)


def _answer(line: socket.socket, code: _Code) -> None:
    """Answer one command line; end without a word where the command has to look itself."""
    line.settimeout(REQUEST_SECONDS)
    if _user(line) != os.getuid():
        return
    request = json.loads(received(line, int.from_bytes(received(line, SIZE_BYTES), "big")))
    # As JSON has it, in which the request came.
    mine = json.loads(json.dumps(ask_running_desk.like(os.environ)))
    if request["process"] != mine or code.changed():
        return
    line.sendall(TAKEN)
    written: list[tuple[int, str]] = []
    _become(request, written)
    if (command := _command(request["arguments"])) is None:
        return
    answers_here()
    try:
        found = ended(lambda: command.main(request["arguments"], "desk", standalone_mode=False))
    except LeftToCaller:
        return
    data = json.dumps({"written": written, "code": found}).encode()
    line.settimeout(REQUEST_SECONDS)
    line.sendall(len(data).to_bytes(SIZE_BYTES, "big") + data)


def _user(line: socket.socket) -> int:
    if sys.platform != "linux":
        return os.getuid()  # the socket and its folder are this user's alone
    _, user, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")))
    return int(user)


class _Kept:
    """A stream of the caller's: it keeps in `written` what it is given."""

    def __init__(self, number: int, encoding: str, errors: str, *, written: list[tuple[int, str]]) -> None:
        self._number, self._written = number, written
        self.encoding, self.errors = encoding, errors

    def write(self, text: str) -> int:
        text.encode(self.encoding, self.errors)  # what it could not take is an error here too
        self._written.append((self._number, text))
        return len(text)

    def flush(self) -> None:
        """Nothing waits: the caller's own stream decides when it is written."""

    def isatty(self) -> bool:
        return os.isatty(self._number)

    def fileno(self) -> int:
        return self._number


def _become(request: Mapping[str, Any], written: list[tuple[int, str]]) -> None:
    """Take over the caller's environment, folder and streams, and what it knows of its terminal."""
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["environ"])
    time.tzset()
    terminals = request["terminals"]

    def size(number: int = 1) -> os.terminal_size:
        if (found := terminals[number][1]) is None:
            raise OSError(errno.ENOTTY, os.strerror(errno.ENOTTY))
        return os.terminal_size(found)

    os.get_terminal_size = size
    os.isatty = lambda number: number < len(terminals) and bool(terminals[number][0])
    out, err = request["encodings"]
    sys.stdout, sys.stderr = (
        cast(TextIO, _Kept(1, *out, written=written)),
        cast(TextIO, _Kept(2, *err, written=written)),
    )
    sys.argv = ["desk", *request["arguments"]]


def _command(arguments: Sequence[str]) -> Any | None:
    """Return the command with what the arguments need, if what they name only looks."""
    whole = named = typer.main.get_command(command_for(arguments))
    for place, word in enumerate(arguments):
        below = getattr(named, "commands", None)
        if below is None:
            break
        if word.startswith("-"):  # options of a group that is a command, too; then it has to be that alone
            if any(other in below for other in arguments[place:]):
                return None
            break
        if word not in below:
            return None
        named = below[word]
    return whole if is_answered(named.callback) else None
