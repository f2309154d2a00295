"""One client number, several processes: they take turns, and a killed one holds up nobody."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from chordesk.models.errors import DeskError
from chordesk.testing.broker import Line, ticket_at
from tests.patience import PATIENCE
from tests.stack import REPOSITORY


def until(done: Callable[[], bool]) -> None:
    last = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < last
        time.sleep(0.02)


@contextmanager
def listening(far: Any) -> Iterator[int]:
    """A process that has the connection and a stream, as the trade worker; yields its id."""
    home = far.home()
    program = [sys.executable, "-m", "tests.tools.ibkr.listener", str(far.tws.port), str(home)]
    with subprocess.Popen(program, cwd=REPOSITORY) as child:
        try:
            until(lambda: far.tws.connected() == {1})
            yield child.pid
        finally:
            child.kill()


def test_a_process_that_waits_gets_the_connection_and_gives_it_back(far: Any) -> None:
    with listening(far):
        line = Line(far, far.connect())
        ticket = ticket_at(far, "limit")
        line.send(ticket)
        assert far.tws.connected() == {1}
        line.broker.close()  # type: ignore[attr-defined]
        until(lambda: far.tws.connected() == {1})
        other = Line(far, far.connect())
        assert other.cancel(ticket).status == "cancelled"  # type: ignore[union-attr]


def test_a_process_that_hangs_is_named_and_one_that_is_killed_is_not_waited_for(far: Any) -> None:
    with listening(far) as child:
        os.kill(child, signal.SIGSTOP)
        far.patience(0.3)
        with pytest.raises(DeskError, match="another process of this desk keeps the connection"):
            far.connect().state()
        os.kill(child, signal.SIGKILL)
        far.patience(PATIENCE)
        far.all_gone()
        assert far.connect().state().positions == []
