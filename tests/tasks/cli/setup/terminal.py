"""A command at a terminal of its own, with somebody who types."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.patience import PATIENCE
from tests.tasks.cli.running import environment

# Its terminal is the one that Ctrl-C and hidden questions reach.
_START = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execv(sys.executable, [sys.executable, '-P', '-m', 'chordesk.tasks.cli.main', *sys.argv[1:]])"
)
_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """`desk ARGUMENTS` in the home, until the block ends. shown: all that it has printed, without colours."""

    def __init__(self, home: Path, *arguments: str, **environ: str) -> None:
        self._own, theirs = pty.openpty()
        command = [sys.executable, "-P", "-c", _START, *arguments]
        env = {**environment(home, **environ), "TERM": "xterm", "COLUMNS": "200"}
        self._process = subprocess.Popen(
            command, env=env, cwd=home, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        )
        os.close(theirs)
        self.shown = ""
        self._seen = 0

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
        os.close(self._own)

    def waits_for(self, words: str) -> None:
        """Read until these words come, after those that were waited for before."""
        until = time.monotonic() + PATIENCE
        while words not in self.shown[self._seen :]:
            assert time.monotonic() < until, self.shown
            assert self._read(), f"ended without {words!r}:\n{self.shown}"
        self._seen = self.shown.index(words, self._seen) + len(words)

    def types(self, question: str, line: str) -> None:
        """Answer a question with a line."""
        self.waits_for(question)
        os.write(self._own, f"{line}\n".encode())

    def interrupts(self) -> None:
        """Press Ctrl-C."""
        os.write(self._own, b"\x03")

    def ends(self) -> int:
        """Read to the end, and return the exit code."""
        while self._read():
            pass
        return self._process.wait(PATIENCE)

    def _read(self) -> bool:
        if not select.select([self._own], [], [], PATIENCE)[0]:
            return False
        try:
            part = os.read(self._own, 65_536)
        except OSError:  # as Linux says that nobody has the other end open any more
            return False
        self.shown += _CODES.sub("", part.decode(errors="replace").replace("\r\n", "\n"))
        return bool(part)
