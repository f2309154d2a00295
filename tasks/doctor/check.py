"""Checks and their runner, each with its own time limit; and the checks of Redis and the database."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field, replace
from enum import StrEnum

from redis.exceptions import RedisError
from sqlmodel import col, select

from chordesk.agents.role_models import longest_turn
from chordesk.models import features
from chordesk.models.database import soundness, store
from chordesk.models.errors import DatabaseUnsound, DeskError, RedisDown, ServiceError
from chordesk.models.notice_channels import NoticeKind
from chordesk.models.settings import Settings
from chordesk.models.shortages import FULL, ROOM_REMEDY
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runtime import Notice
from chordesk.models.urls import masked
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.redis_clients import client, fit, message_key, redis_url, server_name, why_forgetful


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


# What a check's function returns: its entry has the name.
def ok(detail: str) -> Check:
    return Check("", CheckStatus.OK, detail)


def warn(detail: str, remedy: str) -> Check:
    return Check("", CheckStatus.WARN, detail, remedy)


def fail(detail: str, remedy: str) -> Check:
    return Check("", CheckStatus.FAIL, detail, remedy)


@dataclass(frozen=True, slots=True)
class CheckContext:
    """The settings in force, and a desk wired from them."""

    settings: Settings
    desk: Desk
    embedded: bool = False  # its services run for this check only
    trouble: DeskError | None = None  # why they could not be started
    taken: DeskError | None = None  # a port that a start would lack
    began: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))  # when the checks did


@dataclass(frozen=True, slots=True)
class CheckEntry:
    """A check by name, with its time limit in seconds."""

    name: str
    function: Callable[[CheckContext], Check]
    seconds: float
    turn: bool = False  # a model's real turn is part of it, which has the limit of turns beside that
    # it starts an app-server, loads a library, asks a model, or reads all prices: a service makes it when it is asked
    # for, and then keeps it for an hour
    slow: bool = False

    def limit(self, settings: Settings) -> float:
        return self.seconds + (longest_turn(settings) if self.turn else 0.0)


def run_checks(context: CheckContext, checks: Sequence[CheckEntry]) -> list[Check]:
    """Run all at once and return their results in the order given; one that raises or times out has failed."""
    began = time.monotonic()
    running = [(each, _start(context, each)) for each in checks]
    return [replace(_outcome(each.limit(context.settings), future, began), name=each.name) for each, future in running]


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


def _outcome(seconds: float, future: Future[Check], began: float) -> Check:
    try:
        return future.result(max(began + seconds - time.monotonic(), 0.0))
    except TimeoutError as error:
        detail, remedy = f"no answer within {seconds:g} s", "try again; see the logs in the home"
        if future.done():
            detail, remedy = f"time-out: {error}", "see the log"
    except DeskError as error:
        detail, remedy = str(error.args[0]), error.remedy
    except (Exception, SystemExit) as error:
        detail, remedy = f"{type(error).__name__}: {error}", "this is unexpected; please report it"
        if (found := features.blamed(error)) is not None:
            detail, remedy = str(found.args[0]), found.remedy
        if isinstance(error, OSError) and error.errno in FULL:
            detail, remedy = str(error), ROOM_REMEDY
    return fail(detail, remedy)


REDIS_SECONDS = 3.0
FORGED = dt.timedelta(days=1)


def redis_server(context: CheckContext) -> Check:
    """Check that Redis answers, is new enough, never evicts and keeps its data on disk."""
    if context.trouble is not None:
        raise context.trouble
    return look_at_redis(redis_url(context.settings), context.embedded)


def look_at_redis(address: str, embedded: bool = False) -> Check:
    try:
        with closing(client(address, REDIS_SECONDS)) as redis:
            info = fit(redis, address)
    except ServiceError as error:
        return fail(str(error.args[0]), error.remedy)
    except RedisError as error:
        raise RedisDown(f"Redis at {masked(address)} does not answer: {error}") from None
    found = f"{server_name(info)} at {masked(address)}" + (", started for this check" if embedded else "")
    if (why := why_forgetful(info)) is not None:
        return warn(f"{found}; {why[0]}", why[1])
    return ok(found)


def messages(context: CheckContext) -> Check:
    """Check that messages are signed where others may send some, and that none was forged of late."""
    if context.trouble is not None:
        raise context.trouble
    signed = message_key(context.settings) is not None
    if not not_made(context) and store.current(context.settings.database)[0] is not None:
        since = utcnow() - FORGED
        with context.desk.store.read() as session:
            rows = session.exec(
                select(Notice).where(Notice.kind == NoticeKind.FORGED.value, col(Notice.occurred_at) > since)
            ).all()
        if rows:
            count, last = sum(row.facts["count"] for row in rows), max(rows, key=lambda row: row.occurred_at)
            detail = f"{count} messages that the desk did not sign were refused within a day: {last.facts['why']}"
            remedy = "see who else writes to Redis, or which process has another DESK_MESSAGE_KEY, as after a change"
            return warn(f"{detail} ({last.subject})", remedy)
    return ok("signed" if signed else "not signed: Redis is on a socket of this user alone")


_PLAIN_LOGIN = "name a login that owns the desk's schema and nothing else in DESK_DATABASE_URL (docs/operations.md)"


def database(context: CheckContext) -> Check:
    """Check that the database answers and has this version's schema, and that its login is a plain one."""
    url = context.settings.database
    if not_made(context):
        return warn(f"{masked(url)} does not exist yet", "`desk db upgrade` creates it")
    store.require_current(url)
    found = f"{masked(url)} at revision {store.current(url)[0]}"
    if (may := store.may_too_much(url)) is not None:
        return warn(f"{found}; its login {may}, and with it every process of the desk", _PLAIN_LOGIN)
    return ok(found)


def sound(context: CheckContext) -> Check:
    """Check the whole database: pages, indexes and references. One that is sound loses its mark, if it had one."""
    found = soundness.watch(context.settings, whole=True)
    if found.why is not None:
        return fail(f"the database is not sound: {found.why}", DatabaseUnsound.remedy)
    return ok(found.how)


def backups(context: CheckContext) -> Check:
    """Check that the weekly trial restored a backup."""
    from chordesk.tasks.reading import backup_trials

    tried = backup_trials.last(context.settings)
    if tried is None:
        return ok("no backup was tried yet: a desk at work tries one each week")
    if tried.ok is False:
        return fail(str(tried), "make a new backup, and try it: `desk backup PLACE --verify`")
    if tried.ok is None or utcnow() - tried.at > backup_trials.LATE:
        return warn(str(tried), "try one: `desk backup PLACE --verify`")
    return ok(str(tried))


def not_made(context: CheckContext) -> bool:
    """Return True if the home's own database has no table yet, as before the first `desk up`."""
    if context.settings.database_url is not None:
        return False
    return not (context.settings.home / "desk.db").exists() or store.current(context.settings.database)[0] is None
