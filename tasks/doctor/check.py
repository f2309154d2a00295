"""Checks, and their runner: all run at once, each with its own time limit."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import StrEnum

from chordesk.agents.role_models import longest_turn
from chordesk.models.errors import DeskError
from chordesk.models.settings import Settings
from chordesk.tasks.bootstrap import Desk


class CheckStatus(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One row of the result. The remedy is empty when all is well."""

    name: str
    status: CheckStatus
    detail: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class CheckContext:
    """The settings in force, and a desk wired from them.

    embedded: its services run for this check only. trouble: why they could not be started. began: when the checks did.
    """

    settings: Settings
    desk: Desk
    embedded: bool = False
    trouble: DeskError | None = None
    began: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))


@dataclass(frozen=True, slots=True)
class CheckEntry:
    """A check by name, with its time limit in seconds. turn: a model's real turn is part of it, which has the limit of
    turns beside that."""

    name: str
    function: Callable[[CheckContext], Check]
    seconds: float
    turn: bool = False

    def limit(self, settings: Settings) -> float:
        return self.seconds + (longest_turn(settings) if self.turn else 0.0)


def run_checks(context: CheckContext, checks: Sequence[CheckEntry]) -> list[Check]:
    """Run all at once and return their results in the order given; one that raises or times out has failed."""
    began = time.monotonic()
    running = [(each, _start(context, each)) for each in checks]
    return [_outcome(each.name, each.limit(context.settings), future, began) for each, future in running]


def _start(context: CheckContext, each: CheckEntry) -> Future[Check]:
    future: Future[Check] = Future()

    def run() -> None:
        try:
            future.set_result(each.function(context))
        except BaseException as error:
            future.set_exception(error)

    # A daemon thread: one that hangs must not keep the command from ending.
    threading.Thread(target=run, name=f"doctor-{each.name}", daemon=True).start()
    return future


def _outcome(name: str, seconds: float, future: Future[Check], began: float) -> Check:
    try:
        return future.result(max(began + seconds - time.monotonic(), 0.0))
    except TimeoutError as error:
        detail, remedy = f"no answer within {seconds:g} s", "try again; see the logs in the home"
        if future.done():
            detail, remedy = f"time-out: {error}", "see the log"
    except DeskError as error:
        detail, remedy = str(error.args[0]), error.remedy
    except Exception as error:
        detail, remedy = f"{type(error).__name__}: {error}", "this is unexpected; please report it"
    return Check(name, CheckStatus.FAIL, detail, remedy)
