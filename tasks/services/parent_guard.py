"""A wrapper for a command that must not outlive its parent: `python -I -S parent_guard.py SIGNAL COMMAND...`.

On Linux the kernel sends SIGNAL to the command when the parent dies; elsewhere this process stays and polls. Standard
library only and no import of ours: it starts before everything else, once per process.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from collections.abc import Sequence

PARENT = "CHORDESK_TETHER"  # pid of the process a child must not outlive
PR_SET_PDEATHSIG = 1
POLL_SECONDS = 0.3
GRACE_SECONDS = 4.0
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main(arguments: Sequence[str]) -> int:
    end = signal.Signals[arguments[0]]
    command = list(arguments[1:])
    parent = int(os.environ.get(PARENT) or os.getppid())
    if sys.platform == "linux":
        hold(end, parent)
        os.environ[PARENT] = str(os.getpid())
        os.execvp(command[0], command)
    return watch(end, parent, command)


def hold(end: signal.Signals, parent: int) -> None:
    """Ask the kernel for the signal. Raises SystemExit if the parent died before that, noticed by its pid."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, int(end), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:
        raise SystemExit(f"parent process {parent} is gone")


def watch(end: signal.Signals, parent: int, command: list[str]) -> int:
    """Start the command, forward signals to it, and end it when the parent is gone. Return its exit code."""
    # One that comes before there is a handler waits: it would end the watcher and leave the command.
    signal.pthread_sigmask(signal.SIG_BLOCK, FORWARDED)
    child = os.fork()
    if child == 0:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
        os.environ[PARENT] = str(os.getpid())
        os.execvp(command[0], command)
    for each in FORWARDED:
        signal.signal(each, lambda number, _frame: os.kill(child, number))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FORWARDED)
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status) % 256
        if os.getppid() != parent:
            stop(child, end)
            return 1
        time.sleep(POLL_SECONDS)


def stop(child: int, end: signal.Signals) -> None:
    os.kill(child, end)
    until = time.monotonic() + GRACE_SECONDS
    while time.monotonic() < until:
        if os.waitpid(child, os.WNOHANG)[0]:
            return
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
