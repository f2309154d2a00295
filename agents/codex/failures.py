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

from models.errors import DeskError, ProcessDied, RpcTimeout, ThreadInUse, kind_of
from models.masking import without_secrets
from models.research import Failure

# Kinds worth another attempt: the same request may well succeed later.
RETRYABLE = frozenset(
    {
        "rate_limited", "server_error", "overloaded", "stream_cut", "unreachable", "process_died", "timeout",
        "no_progress", "interrupted", "rpc_timeout", "thread_in_use",
    }
)  # fmt: skip

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
MESSAGE_LIMIT = 500
_READ_LIMIT = 4_000  # cut first, a secret might lose the part by which it is known
_LIMIT_IN_STREAM = "rate limit exceeded"
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SPAN = re.compile(r"(\d+(?:\.\d+)?) ?(ms|milliseconds?|s|seconds?|m|minutes?|h|hours?)(?![a-z])", re.IGNORECASE)
_RESET = re.compile(rf"try again in ((?:{_SPAN.pattern}[ ,]*(?:and )?)+)", re.IGNORECASE)

# The usual openings of a refusal in prose, for models that decline in plain text where JSON was asked.
_APOSTROPHE = "['\u2019]"
_DECLINING = re.compile(
    rf"\W*(sorry\b|i{_APOSTROPHE}?m (sorry|unable|not able)|i am (sorry|unable|not able)"
    rf"|i (can{_APOSTROPHE}t|cannot|can not|won{_APOSTROPHE}t|will not|must decline))",
    re.IGNORECASE,
)
NO_ANSWER = "the model ended its turn without an answer (the app-server does not pass on the text of a refusal)"


def failure(kind: str, message: str, reset_seconds: float | None = None) -> Failure:
    """Return a failure of a known kind, which decides whether it is retried."""
    return Failure(kind=kind, retryable=kind in RETRYABLE, message=masked_message(message), reset_seconds=reset_seconds)


def masked_message(message: str) -> str:
    """Return an error message as it is kept and shown: providers quote keys, and URLs with their logins."""
    return without_secrets(message[:_READ_LIMIT])[:MESSAGE_LIMIT]


def failure_of_turn(error: Mapping[str, Any] | None) -> Failure:
    """Return the failure of a failed turn. error: the protocol's TurnError, or None."""
    if not error:
        return failure("unknown", "the turn failed and the app-server gave no reason")
    message = str(error.get("message") or "no message")
    kind = _kind(error.get("codexErrorInfo"), message)
    return failure(kind, message, reset_in(message) if kind == "rate_limited" else None)


def is_limit(error: Mapping[str, Any] | None) -> bool:
    """Return whether an error that the app-server retries by itself is the provider's rate limit."""
    if not error:
        return False
    details = str(error.get("additionalDetails") or "")
    info = error.get("codexErrorInfo")
    return details.startswith(_LIMIT_IN_STREAM) or _kind(info, details) == "rate_limited"


def reset_in(text: str) -> float | None:
    """Return the seconds of "try again in 1m 2.5s", or None when the text names none."""
    if (found := _RESET.search(text)) is None:
        return None
    return sum(float(number) * _seconds(unit) for number, unit in _SPAN.findall(found.group(1)))


def _seconds(unit: str) -> float:
    return _UNITS["ms" if unit.lower().startswith(("ms", "milli")) else unit[0].lower()]


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
    if "{" not in text and _DECLINING.match(text):
        return text
    return None


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
