"""Failures of a model's server, as the gateway finds them, and their way through the app-server.

The app-server rewords most errors of a provider, tries many of them again by itself, and tells none of the numbers of
an overflow. One code of a failed answer it passes on word for word and only once: so the failure travels as the
message of such an answer, and is read out of the turn's error again.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
import orjson

from chordesk.agents.failures import failure, reset_in
from chordesk.models.masking import redacted
from chordesk.models.research import Failure
from chordesk.models.urls import masked

CODE = "invalid_prompt"  # measured, 0.163: neither retried nor reworded
_MARK = '{"chordesk_failure":'
SHOWN_CHARS = 300
SHOWN_MODELS = 20

_BY_STATUS = {
    400: "bad_request", 401: "unauthorized", 402: "usage_limit", 403: "unauthorized", 404: "not_found",
    405: "not_found", 413: "context_window", 429: "rate_limited", 503: "overloaded", 529: "overloaded",
}  # fmt: skip
_OVERFLOW = re.compile(
    r"context[ _-]?(length|size|window|overflow)(?!_id)|maximum context|prompt is too long|too many tokens|n_ctx",
    re.IGNORECASE,
)
_OF_CONTEXT = re.compile(r"context[ _-]?(?:length|size|window)?\D{0,40}?(\d[\d,]{0,14})(?![\d,]*\d)", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.,])\d[\d,]{0,14}(?![\w.,]*\d)")
_NO_MODEL = re.compile(
    r"model.{0,200}(not found|does not exist|not exist|not loaded|try pulling|no such|unknown)", re.I
)
_LARGER = (
    "serve it with a larger context (llama-server -c, OLLAMA_CONTEXT_LENGTH, vLLM --max-model-len), or choose a model "
    "with one"
)
CHAT_BASE = "set DESK_PROVIDER_URL to the base URL of chat completions, such as http://127.0.0.1:11434/v1"


class Problem(Exception):
    """A call that has failed. kind: of the failure."""

    def __init__(self, kind: str, message: str, reset_seconds: float | None = None) -> None:
        super().__init__(message)
        self.kind, self.message, self.reset_seconds = kind, message, reset_seconds

    def told(self, key: str | None = None) -> str:
        """Return the failure as the message of a failed answer. key: the provider's, which it may have quoted."""
        return orjson.dumps({"chordesk_failure": [self.kind, self.shown(key), self.reset_seconds]}).decode()

    def shown(self, key: str | None) -> str:
        """Return the message without secrets."""
        text: str = redacted(self.message, [key] if key else ())
        return text


def failure_in(message: str) -> Failure | None:
    """Return the failure that the gateway told the app-server, None for any other message of a failed turn."""
    if not message.startswith(_MARK):
        return None
    try:
        kind, text, reset = orjson.loads(message)["chordesk_failure"]
    except (orjson.JSONDecodeError, ValueError):
        return None  # cut off on its way
    return failure(kind, text, reset)


def overflow(server: str, model: str, prompt: str, context: str) -> Problem:
    """Return the failure of a prompt that does not fit. prompt, context: tokens, as they are known."""
    text = f"a prompt of {prompt} tokens does not fit the context of {model} on {server}, {context} tokens"
    return Problem("context_window", f"{text}; {_LARGER}")


def away(server: str, error: Exception) -> Problem:
    """Return the failure of a connection that could not be made."""
    if isinstance(error, aiohttp.ClientSSLError):
        why = getattr(error, "certificate_error", None) or error.os_error
        text = f"the certificate of {server} is not trusted: {why}"
        return Problem("bad_request", f"{text}; set DESK_CODEX_CA_FILE to a PEM of the roots that it needs")
    text = f"no model server answers at {server}: {reason(error)}; start it, or set DESK_PROVIDER_URL to one that runs"
    return Problem("unreachable", text)


def reason(error: Exception) -> str:
    """Return why a connection failed, in the system's words where it has some."""
    number = getattr(error, "errno", None)
    return os.strerror(number) if isinstance(number, int) and number > 0 else str(error) or type(error).__name__


def wrong_api(url: str, kind: str, body: str) -> Problem:
    """Return the failure of an answer that is none of a model. kind: its content type."""
    text = f"{url} answered {kind or 'without a content type'}, which is no answer of a model ({shown(body)!r})"
    return Problem("bad_request", f"{text}; set DESK_PROVIDER_URL to the base URL of an API, which mostly ends in /v1")


def redirected(server: str, location: str) -> Problem:
    """Return the failure of an answer that sends the desk elsewhere."""
    text = f"{server} redirects to {masked(location) or 'nowhere'}, and the desk follows no redirect"
    return Problem("bad_request", f"{text}; set DESK_PROVIDER_URL to the server's own base URL, which may be there")


class Server:
    """What is said of one model on one server in its failures. name: the server's URL without a login. models: those
    that the server has. context: tokens. prompt: tokens of the request, estimated."""

    def __init__(
        self, name: str, model: str, models: Iterable[str] = (), context: int | None = None, prompt: int = 0
    ) -> None:
        self.name, self.model, self.models = name, model, tuple(models)
        self.context, self.prompt = context, prompt

    def of_status(self, status: int, headers: Mapping[str, str], body: bytes) -> Problem:
        """Return the failure of an answer with an error's status."""
        text = body.decode(errors="replace")
        error = error_in(body)
        if error is None and _is_page(headers.get("content-type", ""), text):
            if status < 500:
                return wrong_api(f"{self.name} ({status})", headers.get("content-type", ""), text)
            error = {"message": "a page for browsers, as of a proxy whose server is away"}
        problem = self.of_error(error or {"message": text}, status)
        if problem.kind == "rate_limited" and problem.reset_seconds is None:
            problem.reset_seconds = _seconds(headers.get("retry-after"))
        return problem

    def of_error(self, error: Mapping[str, Any], status: int | None = None) -> Problem:
        """Return the failure of an error that the server told, with its status or within a stream."""
        said = str(error.get("message") or orjson.dumps(error, default=str).decode())
        names = f"{error.get('type')} {error.get('code')}"
        if status in (None, 400, 413, 422, 500) and (_OVERFLOW.search(names) or _OVERFLOW.search(said)):
            return self._overflow(error, said)
        code = status if status is not None else _count(error.get("code"))
        if code in (400, 404, 422, None) and _NO_MODEL.search(said):
            return self.no_model(said)
        kind = _BY_STATUS.get(code or 500, "bad_request" if code is not None and code < 500 else "server_error")
        if kind == "not_found":
            return Problem(kind, f"{self.name} has no such address ({code}: {shown(said)}); {CHAT_BASE}")
        reset = reset_in(said) if kind == "rate_limited" else None
        told = f"{code}: " if code is not None else ""
        return Problem(kind, f"{self.model} on {self.name}: {told}{shown(said)}{_REMEDY.get(kind, '')}", reset)

    def no_model(self, said: str) -> Problem:
        """Return the failure of a model that the server has not."""
        listed = ", ".join(self.models[:SHOWN_MODELS])
        more = f" and {len(self.models) - SHOWN_MODELS} more" if len(self.models) > SHOWN_MODELS else ""
        has = f"it has {listed}{more}" if self.models else "what it has is not known"
        text = f"{self.name} has no model {self.model} ({shown(said)}); {has}"
        return Problem(
            "not_found", f"{text}: set DESK_MODEL to one of those, or get this one (ollama pull, for instance)"
        )

    def of_endpoint(self, status: int, body: bytes) -> Problem:
        """Return the failure of an endpoint without the model, or without a Responses API."""
        error = error_in(body) or {}
        said = str(error.get("message") or "")
        if "model" in said.lower() or error.get("code") == "model_not_found":
            return Problem(
                "not_found", f"{self.name} has no model {self.model} ({shown(said)}); set DESK_MODEL to another"
            )
        text = f"{self.name} has no Responses API at /responses ({status} {shown(said)})".replace(" )", ")")
        return Problem("not_found", f"{text}; for a server of chat completions set DESK_PROVIDER=local")

    def other_model(self, now: str) -> Problem:
        """Return the failure of an answer that another model gave."""
        text = f"{now} answers on {self.name} in place of {self.model}: the server was started anew with another model"
        return Problem("not_found", f"{text}; start it with {self.model}, or set DESK_MODEL={now}")

    def cut(self, tokens: int, why: str = "") -> Problem:
        """Return the failure of a stream that ended before its answer did."""
        text = f"{self.name} broke off the answer of {self.model} after {tokens:,} tokens"
        return Problem("stream_cut", f"{text}{f' ({shown(why)})' if why else ''}; look at the server's own log")

    def _overflow(self, error: Mapping[str, Any], said: str) -> Problem:
        prompt, context = _count(error.get("n_prompt_tokens")), _count(error.get("n_ctx"))
        numbers = [found for text in _NUMBER.findall(said) if (found := int(text.replace(",", ""))) >= 16]
        if context is None:
            context = self.context if self.context in numbers else _context_in(said, numbers) or self.context
        if prompt is None:
            larger = [number for number in numbers if context is None or number > context]
            prompt = max(larger, default=None)
        told = f"{prompt:,}" if prompt is not None else f"about {self.prompt:,}"
        return overflow(self.name, self.model, told, f"{context:,}" if context is not None else "an unknown number of")


def _context_in(said: str, numbers: list[int]) -> int | None:
    """Return the size of the context that a server's words name: the number beside that word, unless a smaller one
    shows that it is the prompt's."""
    near = _OF_CONTEXT.search(said)
    named = int(near[1].replace(",", "")) if near is not None else None
    smaller = [number for number in numbers if named is not None and number < named]
    return min(numbers) if smaller and named == max(numbers) else named


_REMEDY = {
    "unauthorized": "; check DESK_PROVIDER_KEY",
    "overloaded": "; it may still load its model",
}


def error_in(body: bytes) -> Mapping[str, Any] | None:
    """Return the error that a JSON body tells, wherever servers put it; None in any other body."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    error = found.get("error") or found.get("detail") or found.get("message") if isinstance(found, Mapping) else None
    if isinstance(error, Mapping):
        return error
    return {"message": error if isinstance(error, str) else orjson.dumps(error).decode()} if error else None


def shown(text: str) -> str:
    """Return a server's own words as they are quoted, in one line."""
    return " ".join(text[: 4 * SHOWN_CHARS].split())[:SHOWN_CHARS]


def _is_page(content_type: str, text: str) -> bool:
    return "html" in content_type or text.lstrip()[:1] == "<"


def _count(value: Any) -> int | None:
    return value if type(value) is int and value > 0 else None


def _seconds(value: str | None) -> float | None:
    """Return the time of a Retry-After header: seconds, or a date."""
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None
