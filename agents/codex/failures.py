"""From the app-server's error words to the desk's failure kinds.

What the binary says (measured, 0.163): 401, 403 and 404 come as `httpConnectionFailed` with the status, 429 as
`responseTooManyFailedAttempts`, 500 as `internalServerError`, 503 as `serverOverloaded`; a 400 and a cut stream
are both `other` and differ only in the message.

A provider's `Retry-After` is honoured by the app-server itself, once, and told to nobody: after the first 429 it says
that it will try again, waits as long as it was asked to, and fails the turn at the second. So how long it waited is the
provider's own figure. A limit inside a stream has the figure in its message.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from models.errors import DeskError, ProcessDied, RpcTimeout, ThreadInUse
from models.masking import without_secrets
from models.research import Failure

# Kinds worth another attempt: the same request may well succeed later.
RETRYABLE = frozenset(
    {
        "rate_limited", "server_error", "overloaded", "stream_cut", "unreachable", "process_died", "timeout",
        "no_progress", "interrupted", "rpc_timeout", "thread_in_use",
    }
)  # fmt: skip

# The provider's own safety systems said no: a refusal, not a fault.
POLICY = frozenset({"cyberPolicy", "misalignmentPolicyViolation"})

_BY_WORD = {
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
_BY_STATUS = {400: "bad_request", 401: "unauthorized", 403: "unauthorized", 404: "not_found", 429: "rate_limited"}
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
NO_ANSWER = "the model ended its turn without an answer (the app-server does not pass on a refusal's words)"


def failure(kind: str, message: str, reset_seconds: float | None = None) -> Failure:
    """A failure of a known kind; whether it is retried follows from the kind."""
    return Failure(kind=kind, retryable=kind in RETRYABLE, message=worded(message), reset_seconds=reset_seconds)


def worded(message: str) -> str:
    """An error's words as they are kept and shown: providers quote keys, and URLs with their logins."""
    return without_secrets(message[:_READ_LIMIT])[:MESSAGE_LIMIT]


def failure_of_turn(error: Mapping[str, Any] | None) -> Failure:
    """The failure a failed turn's error means. error: the protocol's TurnError, or None."""
    if not error:
        return failure("unknown", "the turn failed and the app-server gave no reason")
    message = str(error.get("message") or "no message")
    kind = _kind(error.get("codexErrorInfo"), message)
    return failure(kind, message, reset_in(message) if kind == "rate_limited" else None)


def is_limit(error: Mapping[str, Any] | None) -> bool:
    """Whether an error the app-server tries again by itself is the provider's limit on its rate."""
    if not error:
        return False
    details = str(error.get("additionalDetails") or "")
    info = error.get("codexErrorInfo")
    return details.startswith(_LIMIT_IN_STREAM) or _kind(info, details) == "rate_limited"


def reset_in(text: str) -> float | None:
    """The seconds of "try again in 1m 2.5s", or None when the text names none."""
    found = _RESET.search(text)
    if found is None:
        return None
    return sum(float(number) * _seconds(unit) for number, unit in _SPAN.findall(found.group(1)))


def _seconds(unit: str) -> float:
    return _UNITS["ms" if unit.lower().startswith(("ms", "milli")) else unit[0].lower()]


def failure_of_error(error: DeskError) -> Failure:
    """The failure an exception of the client means."""
    if isinstance(error, ProcessDied):
        return failure("process_died", str(error))
    if isinstance(error, RpcTimeout):
        return failure("rpc_timeout", str(error))
    if isinstance(error, ThreadInUse):
        return failure("thread_in_use", str(error))
    return Failure(kind="rpc_error", retryable=error.retryable, message=worded(str(error)))


def is_policy(error: Mapping[str, Any] | None) -> bool:
    """Whether the provider's safety systems stopped the turn."""
    info = (error or {}).get("codexErrorInfo")
    return isinstance(info, str) and info in POLICY


def refusal_in(text: str | None) -> str | None:
    """The refusal a completed turn's text stands for, or None when it is an answer.

    A `refusal` content part is dropped by the app-server: such a turn completes with no message at all, and so
    does one whose message is empty. Prose that opens as refusals do, with no JSON in it, is taken as one.
    """
    if text is None or not text.strip():
        return NO_ANSWER
    if "{" not in text and _DECLINING.match(text):
        return text
    return None


def _kind(info: Any, message: str) -> str:
    if isinstance(info, str) and info in _BY_WORD:
        return _BY_WORD[info]
    status = _status(info, message)
    if status is not None:
        if status in _BY_STATUS:
            return _BY_STATUS[status]
        if status == 503:
            return "overloaded"
        return "server_error" if status >= 500 else "bad_request"
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
