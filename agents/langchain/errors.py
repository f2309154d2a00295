"""Errors of the chat model, by what a caller can do about them."""

from __future__ import annotations

from collections.abc import Mapping

from chordesk.models.errors import CodexError, DeskError, LoginMissing, kind_of
from chordesk.models.research import Failure


class ChatError(CodexError):
    """A call of the chat model that gave no answer. kind: short name of the failure, as the desk's tables have it."""

    kind = "chat"

    def __init__(self, message: str, *, kind: str | None = None, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        if kind is not None:
            self.kind = kind


class ConversationError(ChatError):
    """Messages that no call can be made of: nothing was sent."""

    kind = "conversation"


class ToolSchemaError(ChatError):
    """A tool or an answer schema that cannot be sent: nothing was sent."""

    kind = "schema"


class AnswerSchemaError(ChatError):
    """An answer that does not fit its schema, also after one repair."""

    kind = "invalid_output"


class RefusalError(ChatError):
    """The model declined. Its text, where there is one, is the message."""

    kind = "refused"


class LoginError(ChatError):
    kind = "unauthorized"
    remedy = "run `codex login --device-auth` on this host"


class ModelUnavailable(ChatError):
    kind = "not_found"
    remedy = "choose a model that the account has"


class RateLimited(ChatError):
    """The provider limits its rate. reset_seconds: when to try again; None when it does not say."""

    kind = "rate_limited"
    retryable = True

    def __init__(self, message: str, reset_seconds: float | None = None, *, kind: str | None = None) -> None:
        super().__init__(message, kind=kind)
        self.reset_seconds = reset_seconds


class TimedOut(ChatError):
    kind = "timeout"
    retryable = True


class CallInterrupted(ChatError):
    """The call was ended from outside."""

    kind = "interrupted"


class Unavailable(ChatError):
    """The provider or the app-server failed; the same call may succeed later."""

    kind = "unavailable"
    retryable = True


_CLASSES: Mapping[str, type[ChatError]] = {
    "unauthorized": LoginError,
    "login_missing": LoginError,
    "not_found": ModelUnavailable,
    "timeout": TimedOut,
    "no_first_token": TimedOut,
    "silent": TimedOut,
    "interrupted": CallInterrupted,
    "policy": RefusalError,
}


def error_of(failure: Failure) -> ChatError:
    """Return the error of a turn's failure."""
    if failure.kind in ("rate_limited", "usage_limit"):
        return RateLimited(failure.message, failure.reset_seconds, kind=failure.kind)
    found = _CLASSES.get(failure.kind) or (Unavailable if failure.retryable else ChatError)
    return found(failure.message, kind=failure.kind)


def error_from(error: DeskError) -> ChatError:
    """Return the chat model's error of one of the runtime, with its remedy."""
    if isinstance(error, ChatError):
        return error
    kind = kind_of(error)
    found = LoginError if isinstance(error, LoginMissing) else Unavailable if error.retryable else ChatError
    return found(str(error.args[0]), kind=kind, remedy=error.remedy)
