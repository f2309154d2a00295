"""The command `desk` in a process of its own, forked from one that has loaded its modules already.

Most of what a command costs is loading, and the tests run hundreds of them, workers too. What shows how a process of
the desk starts, or what it weighs, is started for real (`desk up`, `desk_command`, `make bench`, `make faults`).
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import io
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NoReturn

from chordesk.tasks.cli import root
from chordesk.tasks.services import parent_guard
from chordesk.tasks.services.parent_guard import PARENT
from chordesk.tasks.services.supervision import guarded
from chordesk.tools.market.clock import exchange_hours
from tests import constants
from tests.ordeal import reads
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[1]
FLUSH_FAILED = 120  # Python's exit code when its output cannot be written at the end
# What workers load when they run, and most commands: half a second of CPU each time.
LATER = ("celery.bin.celery", "celery.apps.worker", "celery.concurrency.thread", "celery.worker.consumer", "talib")
INT_BYTES = 4  # bytes of a length, a process id or an exit code on the line between test and server


class Started:
    """A command that runs on. What of subprocess.Popen the tests have use for."""

    def __init__(self, arguments: Sequence[str], pid: int, line: socket.socket) -> None:
        self.args = ["desk", *arguments]
        self.pid = pid
        self.returncode: int | None = None
        self._line = line

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code. Raises subprocess.TimeoutExpired, after `timeout` seconds."""
        if self.returncode is None:
            ready, _, _ = select.select([self._line], [], [], timeout)
            if not ready:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = _number(self._line)
            self._line.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(arguments: Sequence[str], env: Mapping[str, str], cwd: Path, log: int) -> Started:
    """`desk ARGUMENTS` in a session of its own, writing to this descriptor. It ends with this process at the latest."""
    return _started(arguments, env, cwd, sys.executable, (log, log), alone=True)


def run(
    arguments: Sequence[str],
    env: Mapping[str, str],
    cwd: Path,
    seconds: float = PATIENCE,
    python: str = sys.executable,
    stdout: int | None = None,
) -> subprocess.CompletedProcess[str]:
    """`desk ARGUMENTS` with this environment and no other, and nothing to read. python: the interpreter. stdout: the
    descriptor of its standard output, which is not read then.

    Raises subprocess.TimeoutExpired when it takes longer, and ends it then.
    """
    (out, theirs), (err, other) = os.pipe(), os.pipe()
    command = _started(arguments, env, cwd, python, (theirs if stdout is None else stdout, other), alone=False)
    os.close(theirs)
    os.close(other)
    try:
        output = _read({out: b"", err: b""}, time.monotonic() + seconds)
    except TimeoutError:
        command.kill()
        raise subprocess.TimeoutExpired(command.args, seconds) from None
    return subprocess.CompletedProcess(command.args, command.wait(), output[out].decode(), output[err].decode())


def _started(
    arguments: Sequence[str], env: Mapping[str, str], cwd: Path, python: str, descriptors: Sequence[int], *, alone: bool
) -> Started:
    order = json.dumps({"arguments": list(arguments), "env": dict(env), "cwd": str(cwd), "alone": alone}).encode()
    line = socket.socket(socket.AF_UNIX)
    line.connect(_server(python))
    socket.send_fds(line, [len(order).to_bytes(INT_BYTES, "big")], list(descriptors))
    line.sendall(order)
    return Started(arguments, _number(line), line)


def _read(pipes: dict[int, bytes], until: float) -> dict[int, bytes]:
    """Return the output of each pipe until its end. Raises TimeoutError."""
    with selectors.DefaultSelector() as ready:
        for pipe in pipes:
            ready.register(pipe, selectors.EVENT_READ)
        try:
            while ready.get_map():
                found = ready.select(max(until - time.monotonic(), 0))
                if not found:
                    raise TimeoutError
                for key, _ in found:
                    chunk = os.read(key.fd, 1 << 16)
                    pipes[key.fd] += chunk
                    if not chunk:
                        ready.unregister(key.fd)
        finally:
            for pipe in pipes:
                os.close(pipe)
    return pipes


def _number(line: socket.socket) -> int:
    data = b""
    while len(data) < INT_BYTES and (more := line.recv(INT_BYTES - len(data))):
        data += more
    assert len(data) == INT_BYTES, "the server of commands is gone"
    return int.from_bytes(data, "big", signed=True)


@functools.cache
def _server(python: str) -> str:
    """The address of this process's server, which ends with it."""
    folder = tempfile.TemporaryDirectory(prefix="desk-zygote-")
    address = str(Path(folder.name) / "s")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    command = guarded("KILL", [python, "-m", "tests.zygote", str(listener.fileno())])
    env = {**os.environ, PARENT: str(os.getpid()), "PYTHONPATH": str(ROOT)}
    # It would end with the thread that starts it, and this one may not live long.
    starter = ThreadPoolExecutor(1, "zygote")
    process = starter.submit(
        subprocess.Popen, command, cwd=ROOT, env=env, pass_fds=[listener.fileno()], stdin=subprocess.DEVNULL
    ).result()
    listener.close()

    def end() -> None:
        process.terminate()
        process.wait()
        starter.shutdown()
        folder.cleanup()

    atexit.register(end)
    return address


def serve(listener: socket.socket) -> None:
    """Forks a process for each order. Comes back in the forked one alone, as the command."""
    command = importlib.import_module("chordesk.tasks.cli.main")
    root.build()  # loads every command
    for later in LATER:
        importlib.import_module(later)
    exchange_hours()
    gc.freeze()  # else each child's first look for garbage copies all that it shares with the others
    server = os.getpid()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no process waits for those that wait
    while True:
        line, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            break
        line.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    parent_guard.hold(signal.SIGKILL, server)
    size, descriptors, _, _ = socket.recv_fds(line, INT_BYTES, 2)
    order = b""
    while len(order) < int.from_bytes(size, "big"):
        order += line.recv(1 << 16)
    reporter, pid = os.getpid(), os.fork()
    if pid:
        _report(line, pid, descriptors)
    line.close()
    _become(json.loads(order), descriptors, reporter)
    sys.modules["__main__"] = command  # after which the usage is named
    try:
        command.main()
    except SystemExit as ended:
        if isinstance(ended.code, int):
            _exit(ended.code)
        raise
    _exit(0)


def _exit(code: int) -> NoReturn:
    """End as Python does, but for taking down every module, which costs as much as a small command itself."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        for stream in (sys.stdout, sys.stderr):
            if not stream.closed:
                stream.flush()
    except OSError:
        code = FLUSH_FAILED
    os._exit(code)


def _report(line: socket.socket, pid: int, descriptors: Sequence[int]) -> None:
    """Send the test the process id of its command and its exit code."""
    for descriptor in descriptors:
        os.close(descriptor)
    with contextlib.suppress(OSError):
        line.sendall(pid.to_bytes(INT_BYTES, "big"))
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        line.sendall(code.to_bytes(INT_BYTES, "big", signed=True))
    os._exit(0)


def _become(order: dict[str, object], descriptors: Sequence[int], reporter: int) -> None:
    parent_guard.hold(signal.SIGKILL, reporter)
    arguments, env = order["arguments"], order["env"]
    assert isinstance(arguments, list)
    assert isinstance(env, dict)
    for descriptor, number in zip(descriptors, (1, 2), strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(io.FileIO(1, "w", closefd=False)), line_buffering=bool(order["alone"])
    )
    sys.stderr = io.TextIOWrapper(io.BufferedWriter(io.FileIO(2, "w", closefd=False)), line_buffering=True)
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr  # type: ignore[misc]
    os.environ.clear()
    os.environ.update(env)
    if order["alone"]:
        os.setsid()
        os.environ[PARENT] = str(os.getpid())
    time.tzset()
    os.chdir(str(order["cwd"]))
    constants.apply(os.environ)
    reads.apply(os.environ)
    sys.argv = [str(ROOT / "chordesk" / "tasks" / "cli" / "main.py"), *arguments]


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
