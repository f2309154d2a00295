"""What a check is, and how all of them run at once, each within its time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum

from models.errors import DeskError
from models.settings import Settings
from tasks.bootstrap import Desk


class Status(StrEnum):
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Check:
    """One row of the pre-flight. The remedy is empty when all is well."""

    name: str
    status: Status
    detail: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Patient:
    """What is examined: the settings in force and a desk wired from them.

    embedded: its services run for this only. trouble: why they could not be started.
    """

    settings: Settings
    desk: Desk
    embedded: bool = False
    trouble: DeskError | None = None


@dataclass(frozen=True, slots=True)
class Examination:
    """A check by name, with the seconds it may take."""

    name: str
    function: Callable[[Patient], Check]
    seconds: float


def examine(patient: Patient, examinations: Sequence[Examination]) -> list[Check]:
    """Runs all at once; a check that raises or does not end in time has failed. In the order given."""
    began = time.monotonic()
    running = [(each, _start(patient, each)) for each in examinations]
    return [_outcome(each, future, began) for each, future in running]


def _start(patient: Patient, each: Examination) -> Future[Check]:
    future: Future[Check] = Future()

    def run() -> None:
        try:
            future.set_result(each.function(patient))
        except BaseException as error:
            future.set_exception(error)

    # A daemon thread: one that hangs must not keep the command from ending.
    threading.Thread(target=run, name=f"doctor-{each.name}", daemon=True).start()
    return future


def _outcome(each: Examination, future: Future[Check], began: float) -> Check:
    left = max(began + each.seconds - time.monotonic(), 0.0)
    try:
        return future.result(left)
    except TimeoutError as error:
        if future.done():
            return Check(each.name, Status.FAIL, f"time-out: {error}", "see the log")
        return Check(
            each.name, Status.FAIL, f"no answer within {each.seconds:g} s", "try again; see the logs in the home"
        )
    except DeskError as error:
        return Check(each.name, Status.FAIL, str(error.args[0]), error.remedy)
    except Exception as error:
        return Check(each.name, Status.FAIL, f"{type(error).__name__}: {error}", "this is unexpected; please report it")
