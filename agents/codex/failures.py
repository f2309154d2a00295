"""Mapping of the app-server's errors to the desk's failure kinds.

Errors of the binary (measured, 0.163): 401, 403 and 404 come as `httpConnectionFailed` with the status, 429 as
`responseTooManyFailedAttempts`, 500 as `internalServerError`, 503 as `serverOverloaded`; a 400 and a cut stream
are both `other` and differ only in the message.

A provider's `Retry-After` is honoured by the app-server itself, once, and not reported: after the first 429 it
announces a retry, waits for that time, and fails the turn at the second. So the length of its wait is the provider's
own figure. A limit inside a stream has the figure in its message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from chordesk.agents.failures import declines, failure, masked_message, reset_in
from chordesk.agents.gateway.problems import failure_in
from chordesk.models.errors import DeskError, ProcessDied, RpcTimeout, ThreadInUse, kind_of
from chordesk.models.research import Failure

# The provider's own safety systems stopped the turn: a refusal, not a fault.
POLICY = frozenset({"cyberPolicy", "misalignmentPolicyViolation"})

_BY_CODE = {
    "contextWindowExceeded": "context_window",
    "sessionBudgetExceeded": "usage_limit",
    "usageLimitExceeded": "usage_limit",
    "rateLimitExceeded": "rate_limited",
    "flexUnavailable": "overloaded",
    "serverOverloaded": "overloaded",
    "internalServerError": "server_error",
    "unauthorized": "unauthorized",
    "badRequest": "bad_request",
    **dict.fromkeys(POLICY, "policy"),
}
_BY_STATUS = {
    400: "bad_request", 401: "unauthorized", 403: "unauthorized", 404: "not_found", 429: "rate_limited",
    503: "overloaded",
}  # fmt: skip
_STREAM = "stream disconnected"
_STATUS_IN_TEXT = re.compile(r"unexpected status (\d{3})")
_LIMIT_IN_STREAM = "rate limit exceeded"
NO_ANSWER = "the model ended its turn without an answer (the app-server does not pass on the text of a refusal)"


def failure_of_turn(error: Mapping[str, Any] | None) -> Failure:
    """Return the failure of a failed turn. error: the protocol's TurnError, or None."""
    if not error:
        return failure("unknown", "the turn failed and the app-server gave no reason")
    message = str(error.get("message") or "no message")
    if (told := failure_in(message)) is not None:
        return told
    kind = _kind(error.get("codexErrorInfo"), message)
    return failure(kind, message, reset_in(message) if kind == "rate_limited" else None)


def is_limit(error: Mapping[str, Any] | None) -> bool:
    """Return whether an error that the app-server retries by itself is the provider's rate limit."""
    if not error:
        return False
    details = str(error.get("additionalDetails") or "")
    info = error.get("codexErrorInfo")
    return details.startswith(_LIMIT_IN_STREAM) or _kind(info, details) == "rate_limited"


def failure_of_error(error: DeskError) -> Failure:
    """Return the failure of an exception of the client."""
    if isinstance(error, ProcessDied | RpcTimeout | ThreadInUse):
        return failure(kind_of(error), str(error))
    return Failure(kind="rpc_error", retryable=error.retryable, message=masked_message(str(error)))


def is_policy(error: Mapping[str, Any] | None) -> bool:
    """Return whether the provider's safety systems stopped the turn."""
    info = (error or {}).get("codexErrorInfo")
    return isinstance(info, str) and info in POLICY


def refusal_in(text: str | None) -> str | None:
    """Return the refusal in a completed turn's text, or None when it is an answer.

    A `refusal` content part is dropped by the app-server: such a turn completes with no message at all, and so
    does one whose message is empty. Prose that opens as refusals do, with no JSON in it, is taken as one.
    """
    if text is None or not text.strip():
        return NO_ANSWER
    return text if declines(text) else None


def _kind(info: Any, message: str) -> str:
    if isinstance(info, str) and info in _BY_CODE:
        return _BY_CODE[info]
    if (status := _status(info, message)) is not None:
        return _BY_STATUS.get(status, "server_error" if status >= 500 else "bad_request")
    if message.startswith(_STREAM):
        return "stream_cut"
    if isinstance(info, Mapping):
        return "stream_cut" if "responseStreamDisconnected" in info else "unreachable"
    return "bad_request" if info == "other" else "unknown"


def _status(info: Any, message: str) -> int | None:
    if isinstance(info, Mapping):
        for detail in info.values():
            status = detail.get("httpStatusCode") if isinstance(detail, Mapping) else None
            if isinstance(status, int):
                return status
    found = _STATUS_IN_TEXT.search(message)
    return int(found.group(1)) if found else None
