"""Failures of turns, the same for every model runtime: which kinds are worth another attempt, and their messages."""

from __future__ import annotations

import re
from collections.abc import Iterable

from chordesk.models.masking import redacted
from chordesk.models.research import Failure

# Kinds worth another attempt: the same request may well succeed later. A turn that a limit of the desk ended is not
# among them: it would be paid for again, and end in the same way.
RETRYABLE = frozenset(
    {
        "rate_limited", "server_error", "overloaded", "stream_cut", "unreachable", "process_died", "interrupted",
        "rpc_timeout", "thread_in_use",
    }
)  # fmt: skip
MESSAGE_LIMIT = 500
_READ_LIMIT = 4_000  # cut first, a secret might lose the part by which it is known
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


def failure(kind: str, message: str, reset_seconds: float | None = None, secrets: Iterable[str] = ()) -> Failure:
    """Return a failure of a known kind, which decides whether it is retried. secrets: hidden in its message."""
    text = masked_message(message, secrets)
    return Failure(kind=kind, retryable=kind in RETRYABLE, message=text, reset_seconds=reset_seconds)


def masked_message(message: str, secrets: Iterable[str] = ()) -> str:
    """Return an error message as it is kept and shown: providers quote keys, and URLs with their logins."""
    masked: str = redacted(message[:_READ_LIMIT], secrets)
    return masked[:MESSAGE_LIMIT]


def reset_in(text: str) -> float | None:
    """Return the seconds of "try again in 1m 2.5s", or None when the text names none."""
    if (found := _RESET.search(text)) is None:
        return None
    return sum(float(number) * _seconds(unit) for number, unit in _SPAN.findall(found.group(1)))


def _seconds(unit: str) -> float:
    return _UNITS["ms" if unit.lower().startswith(("ms", "milli")) else unit[0].lower()]


def declines(text: str) -> bool:
    """Return whether prose opens as refusals do; text with JSON in it is an answer."""
    return "{" not in text and _DECLINING.match(text) is not None
