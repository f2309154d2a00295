"""The table from the app-server's errors to failure kinds, for those that no loopback model can cause."""

from __future__ import annotations

from typing import Any

import pytest

from chordesk.agents.codex.turns import counts_of, failure_of_error, failure_of_turn, is_policy, refusal_in
from chordesk.models.answers import Usage
from chordesk.models.errors import CodexError, ProcessDied, RpcError, RpcTimeout


@pytest.mark.parametrize(
    ("info", "message", "kind"),
    [
        ("unauthorized", "no", "unauthorized"),
        ("badRequest", "no", "bad_request"),
        ("sessionBudgetExceeded", "no", "budget_used"),
        ("usageLimitExceeded", "Try again later.", "usage_limit"),
        ("usageLimitExceeded", "Quota exceeded. Check your plan and billing details.", "no_credit"),
        ("flexUnavailable", "no", "overloaded"),
        ("misalignmentPolicyViolation", "no", "policy"),
        ({"httpConnectionFailed": {"httpStatusCode": None}}, "connection refused", "unreachable"),
        ({"httpConnectionFailed": {"httpStatusCode": 502}}, "bad gateway", "server_error"),
        ({"httpConnectionFailed": {"httpStatusCode": 422}}, "unprocessable", "bad_request"),
        ({"responseStreamDisconnected": {"httpStatusCode": None}}, "gone", "stream_cut"),
        ("other", "unexpected status 404 Not Found: no such model", "not_found"),
        ("other", "stream disconnected before completion", "stream_cut"),
        ("neverHeardOf", "what?", "unknown"),
        (None, "what?", "unknown"),
    ],
)
def test_kinds(info: Any, message: str, kind: str) -> None:
    made = failure_of_turn({"codexErrorInfo": info, "message": message})
    assert (made.kind, made.message) == (kind, message)


def test_a_failure_without_a_reason_is_reported() -> None:
    assert failure_of_turn(None).kind == "unknown"
    assert "no reason" in failure_of_turn(None).message
    assert not is_policy(None)
    assert len(failure_of_turn({"message": "x" * 9000}).message) == 500


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        (ProcessDied("gone"), "process_died", True),
        (RpcTimeout("late"), "rpc_timeout", True),
        (RpcError("turn/start", -32600, "thread not found"), "rpc_error", False),
        (CodexError("odd"), "rpc_error", False),
    ],
)
def test_kinds_of_errors(error: CodexError, kind: str, retryable: bool) -> None:
    made = failure_of_error(error)
    assert (made.kind, made.retryable) == (kind, retryable)


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("I\u2019m unable to help with that.", True),
        ("Sorry, no.", True),
        ("I won't recommend trades.", True),
        ('{"verdict":"REJECT","summary":"I cannot confirm it"}', False),
        ("I cannot say more than this: {}", False),
        ("The answer is no", False),
        ("  ", True),
        (None, True),
    ],
)
def test_a_refusal_is_recognised_by_its_text(text: str | None, refused: bool) -> None:
    assert (refusal_in(text) is not None) is refused


def test_usage_takes_finite_non_negative_numbers_only() -> None:
    unknown = Usage.unknown().model_dump()
    odd = {"inputTokens": 5, "cachedInputTokens": -1, "outputTokens": float("nan"), "totalTokens": True}
    assert counts_of(odd) == {**unknown, "input_tokens": 5}
    counts = counts_of({"inputTokens": float("inf"), "totalTokens": 7.0, "outputTokens": "9"})
    assert counts == {**unknown, "total_tokens": 7}
    for nothing in (None, [], "7", {}):
        assert counts_of(nothing) == unknown
