"""Retry policy of steps: one table from the kind of a failure to another attempt, or none.

Kinds are those of `agents.codex.event_translation`, the snake_case names of the errors in `models.errors`, and those
that arise here: `deadline`, `interrupted`, `drained`, `crashed`, `no_room`. A kind that is not in the table is not
tried again: it may never pass.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy.exc import DBAPIError

from chordesk.agents.runtime import Opening
from chordesk.models.database.store import is_lost
from chordesk.models.errors import DeskError, kind_of


class How(StrEnum):
    """Ways in which the next attempt opens a kept thread."""

    SAME = "same"  # goes on in it: the failed turn left nothing there, or what it left does no harm
    FORK = "fork"  # forks it after its last completed turn: half a turn is left behind
    FRESH = "fresh"  # starts a new one, with a summary of what the desk knows
    NEVER = "never"  # there is no next attempt


@dataclass(frozen=True, slots=True)
class Retry:
    """A rule for one kind of failure."""

    how: How
    # of the step's own, the failed one included; None when such a failure uses none up, so that only the run's deadline
    # ends it
    attempts: int | None = 3
    # delay, most: seconds; the delay doubles with each attempt
    delay: float = 1.0
    most: float = 60.0
    parks: bool = False  # no turn starts on the model, or on its account, until the provider's reset time


@dataclass(frozen=True, slots=True)
class Wait:
    """Another attempt after so many seconds. counts: whether the failed one is used up."""

    seconds: float
    counts: bool


STEP_ATTEMPTS = 3  # of a step before it fails

# A lost worker uses up no attempt: a machine may be restarted several times in a minute, and the steps that it held are
# none the worse. A step that breaks its workers looks the same each time. From ALONE_AFTER losses on it is worked on by
# a worker that has no other such step, so that it takes none of those down with it. It fails with the LOSSES-th. But
# where workers end for another reason, they do so without it as well: each one that was lost meanwhile and did not hold
# the step allows it one more, up to MOST_LOSSES.
ALONE_AFTER = 6
LOSSES = 10
MOST_LOSSES = 20
LATE = 2  # leases for which a worker that lives on this machine may be late with its renewal

_NEVER = Retry(How.NEVER, attempts=1)

POLICY: Mapping[str, Retry] = {
    # The provider
    "rate_limited": Retry(How.SAME, attempts=None, parks=True),
    "overloaded": Retry(How.SAME, delay=5.0),
    "server_error": Retry(How.SAME, delay=2.0),
    "unreachable": Retry(How.SAME, delay=10.0),  # a local server that is started anew loads its model first
    "stream_cut": Retry(How.FORK),
    "usage_limit": Retry(How.SAME, attempts=None, parks=True),
    "no_credit": _NEVER,
    "limit_wait": _NEVER,  # the limit lasts longer than DESK_LIMIT_WAIT_HOURS
    "unauthorized": _NEVER,
    "bad_request": _NEVER,
    "not_found": _NEVER,
    "policy": _NEVER,
    "unknown": _NEVER,
    # The model
    "context_window": Retry(How.FRESH, delay=0.0),
    "invalid_output": _NEVER,
    # The turn and its process
    "process_died": Retry(How.FORK),
    # Limits of the desk itself: with the same limit the turn would be paid for again, and end in the same way.
    "timeout": _NEVER,
    "no_first_token": _NEVER,
    "silent": _NEVER,
    "length": _NEVER,
    "endless_calls": _NEVER,
    "interrupted": Retry(How.FORK),
    "deadline": Retry(How.FORK),
    "rpc_timeout": Retry(How.SAME),
    "thread_in_use": Retry(How.FORK),
    "rpc_error": _NEVER,
    "codex_error": _NEVER,
    "binary_missing": _NEVER,
    "login_missing": _NEVER,
    "model_missing": _NEVER,
    # A model server that is asked what it can do
    "server_away": Retry(How.SAME, delay=10.0),
    "model_server_error": _NEVER,
    "key_refused": _NEVER,
    "wrong_api": _NEVER,
    # Services
    "redis_down": Retry(How.SAME, attempts=None, delay=2.0),
    "database_down": Retry(How.SAME, attempts=None, delay=2.0),
    "database_unfit": _NEVER,
    "database_new": _NEVER,
    "database_unsound": _NEVER,
    "blobs_down": Retry(How.SAME, delay=2.0),
    "service_error": Retry(How.SAME, delay=2.0),
    # Tools, where a step uses them itself; within a turn their errors are answers to the model
    "market_unavailable": Retry(How.SAME, delay=2.0),
    "market_error": _NEVER,
    "not_configured": _NEVER,
    "order_error": _NEVER,
    "fenced_off": _NEVER,  # a step that meets it is put off instead, in `tasks.workflows.trade`
    # Ourselves
    "no_room": Retry(How.FORK, attempts=None, delay=2.0),
    "drained": Retry(How.FORK, attempts=None, delay=0.0),
    "crashed": Retry(How.SAME),
    "setting_error": _NEVER,
    "usage_error": _NEVER,
    "backup_error": _NEVER,
    "graph_error": _NEVER,
    "graph_raised": _NEVER,
    "graph_endless": _NEVER,
    "graph_state": _NEVER,
    "graph_waits": _NEVER,
    "graph_changed": _NEVER,
    "budget_used": _NEVER,
    "not_waiting": _NEVER,
    "nothing_yet": _NEVER,
    "history_trimmed": _NEVER,
    "wrong_code": _NEVER,
    "too_many_codes": _NEVER,
    "desk_error": _NEVER,
}

_OPENING: Mapping[How, Opening] = {How.FORK: "fork", How.FRESH: "fresh"}
_WAITING = "waiting: "
A_PERSON = "a person's answer"
A_WORKER = "a worker with "  # what a step waits for begins so when the worker that got it lacks something


def retry(kind: str) -> Retry:
    return POLICY.get(kind, _NEVER)


def kind_of_exception(error: BaseException) -> str:
    """Return the kind of an exception that a step's own code raised."""
    if isinstance(error, DeskError):
        return kind_of(error)
    # Loaded here: those that only read the policy have no use for a client of Redis.
    from kombu.exceptions import OperationalError as BrokerError
    from redis.exceptions import RedisError

    if isinstance(error, RedisError | BrokerError):
        return "redis_down"
    return "database_down" if isinstance(error, DBAPIError) and is_lost(error) else "crashed"


def next_attempt(kind: str, tried: int, left: int) -> Wait | None:
    """Return when to try again after a failure of this kind, or None. tried: attempts used up, this one included; left:
    how many more the step has."""
    rule = retry(kind)
    if rule.how is How.NEVER:
        return None
    if rule.attempts is None:
        return Wait(jittered(rule.delay), counts=False)
    if left < 1 or tried >= rule.attempts:
        return None
    return Wait(jittered(min(rule.most, rule.delay * 2 ** (tried - 1))), counts=True)


def jittered(seconds: float) -> float:
    return seconds * random.uniform(0.75, 1.25)


def opening(error: str | None) -> Opening:
    return _OPENING.get(retry(kind_in(error)).how, "same")


def reason(kind: str, message: str) -> str:
    return f"{kind}: {message}"


def kind_in(error: str | None) -> str:
    kind, _, rest = (error or "").partition(": ")
    return kind if rest and kind in POLICY else ""


def waiting(error: str | None, why: str) -> str:
    """Keeps the end of the attempt before in front, by which the next one opens its thread. why: a noun."""
    before = (error or "").partition(_WAITING)[0].removesuffix("; ")
    return f"{before}; {_WAITING}{why}" if before else f"{_WAITING}{why}"


A_LIMIT = ("the plan's limit of ", "the rate limit of ", "a first turn on ")  # what a step waits for begins so


def waits_for_limit(error: str | None) -> bool:
    """Return whether an attempt that ended with this reason met its provider's limit, or found it known."""
    before, _, why = (error or "").partition(_WAITING)
    return why.startswith(A_LIMIT) or (not why and retry(kind_in(before)).parks)


def waits_for(error: str | None) -> str | None:
    """Return what a step waits for that was given back with this reason; None when it is just tried again."""
    before, waits, why = (error or "").partition(_WAITING)
    if waits:
        return why
    return f"the provider's limit ({before})" if retry(kind_in(error)).parks else None
