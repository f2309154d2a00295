"""Mapping of the library's errors to the desk's failure kinds.

Its classes are not enough (measured, 1.105): a refused or dropped connection, half a JSON and a missing key of OpenAI's
are all `InternalServerError`, a 403 of OpenAI's is a bare `APIError`, and 529 is either. So the causes are looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from chordesk.agents.failures import failure, reset_in
from chordesk.models.research import Failure

# Another model may well serve a call that failed so. A refused key is not among them: it would never be noticed.
ELSEWHERE = frozenset(
    {
        "rate_limited", "usage_limit", "overloaded", "server_error", "unreachable", "stream_cut", "no_first_token",
        "silent", "not_found", "context_window",
    }
)  # fmt: skip
POLICY = "policy"  # the provider's safety system stopped the call: a refusal, not a fault

_CONTEXT = re.compile(
    r"(?i)context_length_exceeded|maximum context length|prompt is too long|context window|input is too long"
    r"|exceed_context_size|available context size|exceeds the context length"
)
_FILTER = re.compile(r"(?i)content_policy_violation|content_filter|responsibleaipolicy|content management policy")
_QUOTA = re.compile(r"(?i)insufficient_quota|exceeded your current quota|credit balance is too low")
_OVERLOADED = re.compile(r"(?i)overloaded_error|\boverloaded\b")
_RATE = re.compile(r"(?i)rate_limit")
_SERVER = re.compile(r"(?i)server_error|internal error|api_error")
_NO_TOOLS = re.compile(
    r"(?i)does not support (?:tools|function calling)|tools? (?:use|calling|calls) (?:is|are) not supported"
)
_BY_SCHEMA = "give this role local:MODEL and set DESK_LOCAL_URL: there tools are put to such a model by a schema"
_REFUSED = frozenset(
    {"ConnectError", "ConnectTimeout", "ConnectionRefusedError", "ClientConnectorError", "gaierror", "PoolTimeout"}
)
_CUT = frozenset(
    {
        "ReadError", "WriteError", "RemoteProtocolError", "ClientPayloadError", "ServerDisconnectedError",
        "ConnectionResetError", "BrokenPipeError", "JSONDecodeError", "CloseError", "ClientOSError",
    }
)  # fmt: skip
_BY_STATUS = {
    400: "bad_request", 401: "unauthorized", 403: "unauthorized", 404: "not_found", 408: "server_error",
    413: "context_window", 422: "bad_request", 429: "rate_limited", 503: "overloaded", 529: "overloaded",
}  # fmt: skip
_FRAME = re.compile(r"\s*Traceback \(most recent call last\).*", re.DOTALL)


class ModelError(Exception):
    """A model call that failed, with the failure that a turn ends with."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def failure_of_call(error: BaseException, missing_keys: Sequence[str] = (), secrets: Iterable[str] = ()) -> Failure:
    """Return the failure of a model call. missing_keys: variables of its provider that are not set; secrets: hidden in
    the message."""
    chain = list(_chain(error))
    text = _FRAME.sub("", str(error)).strip() or type(error).__name__
    kind = _kind(error, chain, list(missing_keys))
    if kind == "unauthorized" and missing_keys:
        text = no_key(missing_keys)
    if kind == "bad_request" and _NO_TOOLS.search(text):
        text = f"{text}; {_BY_SCHEMA}"
    return failure(kind, text, _reset(error, text) if kind == "rate_limited" else None, secrets)


def no_key(variables: Iterable[str]) -> str:
    return f"no key for this model's provider: set {' or '.join(variables)} in the environment of the workers"


def _kind(error: BaseException, chain: list[BaseException], missing_keys: list[str]) -> str:
    names = {cls.__name__ for one in chain for cls in type(one).__mro__}
    text = " ".join(f"{one} {getattr(one, 'code', '')} {getattr(one, 'body', '')}" for one in chain)
    status = next((code for code in map(_status, chain) if code is not None), None)
    if "ContextWindowExceededError" in names or (status in (None, 400, 413) and _CONTEXT.search(text)):
        return "context_window"
    if "ContentPolicyViolationError" in names or (status == 400 and _FILTER.search(text)):
        return POLICY
    if status == 429 or "RateLimitError" in names:
        return "usage_limit" if _QUOTA.search(text) else "rate_limited"
    if status is not None:
        if status >= 500 and _OVERLOADED.search(text):
            return "overloaded"
        return _BY_STATUS.get(status, "server_error" if status >= 500 else "bad_request")
    if names & _REFUSED:
        return "unreachable"
    if names & _CUT:
        return "stream_cut"
    if names & {"Timeout", "TimeoutError", "TimeoutException"}:
        return "no_first_token"
    if (kind := _told_in_the_stream(names, text)) is not None:
        return kind
    if "AuthenticationError" in names or missing_keys:
        return "unauthorized"
    if "BadRequestError" in names:
        return "bad_request"
    # The body was no answer at all: the library stumbles over what is not there.
    return "stream_cut" if names & {"KeyError", "IndexError", "TypeError", "APIError"} else "unknown"


def _told_in_the_stream(names: set[str], text: str) -> str | None:
    """Return the kind of an error that came as an event of a stream, where no status says it."""
    if not names & {"APIError", "InternalServerError"}:
        return None
    kinds = {"overloaded": _OVERLOADED, "rate_limited": _RATE, "server_error": _SERVER}
    return next((kind for kind, pattern in kinds.items() if pattern.search(text)), None)


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__ or found.__context__


def _status(error: BaseException) -> int | None:
    """Return the status of a provider's answer; the library gives an error a status also where there was no answer."""
    response: Any = getattr(error, "response", None)
    answered = type(error).__name__.endswith("HTTPStatusError") or type(error).__module__.startswith("openai")
    status = getattr(response, "status_code", None)
    return status if answered and isinstance(status, int) else None


def _reset(error: BaseException, text: str) -> float | None:
    for one in _chain(error):
        for headers in (getattr(one, "litellm_response_headers", None), _headers_of(one)):
            value = headers.get("retry-after") if headers is not None else None
            if value is not None:
                try:
                    return max(0.0, float(value))
                except ValueError:
                    continue
    return reset_in(text)


def _headers_of(error: BaseException) -> Any:
    return getattr(getattr(error, "response", None), "headers", None)
