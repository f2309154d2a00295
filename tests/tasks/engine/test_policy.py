"""The table of failures: complete, in agreement with the errors that it names, and the rules that follow from it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis.exceptions
from kombu.exceptions import OperationalError as BrokerError
from sqlalchemy.exc import IntegrityError, OperationalError

from chordesk.agents.codex import turns
from chordesk.agents.providers.liveness import RETRYABLE
from chordesk.models.errors import (
    ContextWindow,
    DeskError,
    LeaseLost,
    MarketUnavailable,
    NotConfigured,
    Postponed,
    RedisDown,
    kind_of,
)
from chordesk.tasks.engine.policy import (
    POLICY,
    How,
    kind_of_exception,
    next_attempt,
    opening,
    reason,
    waiting,
)

# Neither ends an attempt as a failure: the work is another's, or was not begun.
# A context that cannot hold a role is one that a run is refused for; a turn that meets it passes in a fresh thread.
NOT_FAILURES = {LeaseLost, Postponed, ContextWindow}


def errors(of: type[DeskError] = DeskError) -> Iterator[type[DeskError]]:
    for found in of.__subclasses__():
        if found.__module__ == "chordesk.models.errors":
            yield found
            yield from errors(found)


def test_every_error_has_a_rule_that_agrees_with_it() -> None:
    for error in errors():
        if error in NOT_FAILURES:
            continue
        kind = kind_of(error.__new__(error))
        assert kind in POLICY, f"{error.__name__} has no rule"
        assert (POLICY[kind].how is not How.NEVER) == error.retryable, kind


def test_every_error_of_the_app_server_has_a_rule_that_agrees_with_it() -> None:
    text = Path(turns.__file__).read_text()
    named = {*turns._BY_CODE.values(), *turns._BY_STATUS.values(), *RETRYABLE}
    named |= set(re.findall(r'(?:failure\(|else |return )"([a-z_]+)"', text))
    for kind in named:
        assert kind in POLICY, kind
        # A full context may pass in a fresh thread only, which the turn that met it has to say.
        assert (POLICY[kind].how is not How.NEVER) == (kind in RETRYABLE or kind == "context_window"), kind


def test_attempts_are_those_of_the_step_and_of_the_kind() -> None:
    for kind in ("no_credit", "unauthorized", "bad_request", "invalid_output", "never_heard_of"):
        assert next_attempt(kind, tried=1, left=9) is None, kind
    first, second = next_attempt("server_error", 1, 2), next_attempt("server_error", 2, 1)
    assert first is not None
    assert second is not None
    assert first.counts
    assert 1.5 <= first.seconds <= 2.5
    assert 3.0 <= second.seconds <= 5.0
    assert next_attempt("server_error", 3, 0) is None
    assert next_attempt("server_error", 3, 5) is None, "the kind's own limit"


def test_a_failure_that_is_not_the_steps_fault_uses_up_nothing() -> None:
    for kind in ("rate_limited", "usage_limit", "redis_down", "database_down", "drained"):
        wait = next_attempt(kind, tried=99, left=0)
        assert wait is not None
        assert not wait.counts
    assert [kind for kind, rule in POLICY.items() if rule.parks] == ["rate_limited", "usage_limit"]


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (RedisDown("gone"), "redis_down"),
        (redis.exceptions.ConnectionError("gone"), "redis_down"),
        (BrokerError("gone"), "redis_down"),
        (OperationalError("select 1", {}, Exception("locked")), "database_down"),
        (IntegrityError("insert", {}, Exception("UNIQUE")), "crashed"),
        (MarketUnavailable("busy"), "market_unavailable"),
        (NotConfigured("no key"), "not_configured"),
        (ZeroDivisionError(), "crashed"),
    ],
)
def test_kinds_of_exceptions(error: Exception, kind: str) -> None:
    assert kind_of_exception(error) == kind
    assert kind in POLICY


@pytest.mark.parametrize(
    ("error", "how"),
    [
        (None, "same"),
        (reason("stream_cut", "stream disconnected: early"), "fork"),
        (reason("context_window", "too long"), "fresh"),
        (reason("server_error", "500"), "same"),
        ("its worker was lost", "same"),
        ("stream_cut", "same"),
    ],
)
def test_the_reason_on_the_step_decides_how_its_next_attempt_opens_its_thread(error: str | None, how: str) -> None:
    assert opening(error) == how
    waited = waiting(waiting(error, "gpt-5.5 is parked for 9 s more"), "no place")
    assert opening(waited) == how, "a step that waited in between still knows"
    assert waited.endswith("waiting: no place")
    assert waited.count("waiting") == 1
