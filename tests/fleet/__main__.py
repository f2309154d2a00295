"""`make fleet`: a fleet on this machine for a quarter of an hour, scaled and broken while it works, with its figures.

    python -m tests.fleet [--quick]

Exit code 1 when a figure misses its bound, when something was lost or done twice, or when something was left behind; 2
when a program is missing; 3 when it did not end in time, and 130 after Ctrl-C. FAULT_LOGS=FOLDER keeps every process's
log.
"""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import sys
import threading
import time
import traceback
from types import FrameType

from chordesk.models.settings.sources import load_settings
from chordesk.tasks.services import signals
from chordesk.tasks.worker import logs
from tests.bench.sheet import Sheet
from tests.fleet.figures import show, show_leftovers
from tests.fleet.machine.leftovers import Leftovers
from tests.fleet.machine.programs import Unavailable, require
from tests.fleet.plan import FULL, QUICK
from tests.fleet.rehearsal import fleet

INTERRUPTED = 130  # exit code after a signal, as shells have it for Ctrl-C
# After the limit: time for everything to be taken down in order.
LAST_SECONDS = 120.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fleet", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter parts and the same faults: some three minutes")
    plan = QUICK if parser.parse_args().quick else FULL
    logs.configure(load_settings({"DESK_LOG_LEVEL": "ERROR"}))
    began = time.monotonic()

    def log(text: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - began), 60)
        print(f"{minutes:3d}:{seconds:02d}  {text}", flush=True)

    sheet, left, limit, code = Sheet(), Leftovers(secrets.token_hex(8)), Limit(plan.limit), 0
    rehearsal = None
    try:
        programs = require()
        with signals.raised(), limit, fleet(plan, programs, left, log) as rehearsal:
            rehearsal.play()
    except Unavailable as error:
        print(f"make fleet needs programs that are {error}", file=sys.stderr)
        return 2
    except signals.StopRequested as request:
        log(f"stopped by {request}")
        code = INTERRUPTED
    except Exception:
        # Whatever the limit interrupted may raise an error of its own.
        if not limit.passed:
            traceback.print_exc()
        log(f"not over after {plan.limit:g} s" if limit.passed else "failed")
        code = 3 if limit.passed else 1
    if rehearsal is not None and code != INTERRUPTED:
        show(sheet, rehearsal)
    show_leftovers(sheet, left)
    sheet.close()
    return code or (1 if sheet.missed else 0)


class Overdue(Exception):
    """The rehearsal took longer than its plan allows."""


class Limit:
    """A time limit on a block, which then raises Overdue. When even the end takes too long, this process ends, and all
    others with it: they are tied to it."""

    def __init__(self, seconds: float) -> None:
        self.passed = False
        self._seconds = seconds
        self._last = threading.Timer(seconds + LAST_SECONDS, os._exit, (3,))
        self._last.daemon = True

    def __enter__(self) -> Limit:
        self._before = signal.signal(signal.SIGALRM, self._overdue)
        signal.setitimer(signal.ITIMER_REAL, self._seconds)
        self._last.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._last.cancel()
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)

    def _overdue(self, _number: int, _frame: FrameType | None) -> None:
        self.passed = True
        raise Overdue


if __name__ == "__main__":
    raise SystemExit(main())
