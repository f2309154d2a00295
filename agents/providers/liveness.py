"""Life signs of one turn: what its provider sends, how long it is silent, the limit that ends it, and failures."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from chordesk.models.answers import Failure
from chordesk.models.text import redacted

# Kinds worth another attempt: the same request may well succeed later. A turn that a limit of the desk ended is not
# among them: it would be paid for again, and end in the same way.
RETRYABLE = frozenset(
    {
        "rate_limited", "usage_limit", "server_error", "overloaded", "stream_cut", "unreachable", "process_died",
        "interrupted", "rpc_timeout", "thread_in_use",
    }
)  # fmt: skip
MESSAGE_LIMIT = 500
_READ_LIMIT = 4_000  # cut first, a secret might lose the part by which it is known

# The usual openings of a refusal in prose, for models that decline in plain text where JSON was asked.
_APOSTROPHE = "['\u2019]"
_DECLINING = re.compile(
    rf"\W*(sorry\b|i{_APOSTROPHE}?m (sorry|unable|not able)|i am (sorry|unable|not able)"
    rf"|i (can{_APOSTROPHE}t|cannot|can not|won{_APOSTROPHE}t|will not|must decline))",
    re.IGNORECASE,
)


def failure(kind: str, message: str, reset_seconds: float | None = None, secrets: Iterable[str] = ()) -> Failure:
    text = masked_message(message, secrets)
    return Failure(kind=kind, retryable=kind in RETRYABLE, message=text, reset_seconds=reset_seconds)


def interrupted() -> Failure:
    return failure("interrupted", "the turn was interrupted by the desk")


def with_spent(why: Failure | None, tokens: int | None) -> Failure | None:
    """Return a failure by a limit of the desk with the tokens that its turn had spent, any other one as it is."""
    if why is None or why.kind not in LIMITS or not tokens:
        return why
    return why.model_copy(update={"message": f"{why.message}; {tokens:,} tokens were spent"})


def masked_message(message: str, secrets: Iterable[str] = ()) -> str:
    """Return an error message as it is kept and shown: providers quote keys, and URLs with their logins."""
    masked: str = redacted(message[:_READ_LIMIT], secrets)
    return masked[:MESSAGE_LIMIT]


def declines(text: str) -> bool:
    """Return whether prose opens as refusals do; text with JSON in it is an answer."""
    return "{" not in text and _DECLINING.match(text) is not None


# waiting: for the first token of a model call. reasoning, writing: tokens come. tools: the desk answers a tool call.
Phase = Literal["waiting", "reasoning", "writing", "tools"]
LIMITS = frozenset({"timeout", "no_first_token", "silent", "length"})  # kinds of failures by a limit of the desk
REASONING = 8  # times the tokens of an answer that a model may reason before it
QUICK_SECONDS = 3.0  # a phase that is over sooner is not reported
REPORT_SECONDS = 60.0
CHARS_PER_TOKEN = 4  # of text that comes in pieces of unknown size, and only there
MOST_NOTES = 12  # of a turn, on how its answers were read
SHORT_CHARS = 16  # most servers send each token by itself, and few tokens are longer


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """Limits of one turn. Times are seconds."""

    turn_seconds: float = 1200.0
    # from a model call to the first token of its answer; anything the provider sends meanwhile begins it anew
    first_token_seconds: float = 300.0
    silence_seconds: float = 120.0  # without anything from the provider once a token has come
    output_tokens: int = 8000  # of one model call, beyond what it reasons


class Liveness:
    """Life signs of one turn; for one event loop.

    phase: what the turn does now, since `since` (time.monotonic). reasoned, written: tokens of the current model call,
    estimated from its pieces where the provider counts none. calls: model calls so far. counts: how many of them told
    their tokens, where a gateway sees it. way: how the answer's schema and the tools were put to the server, of those
    that a gateway translates for. cut: the answer was cut off at its length. tools_first: an answer is of use only
    after a call of a tool. bounded: the answer's schema with all that a server may enforce. context: tokens of the last
    request's prompt, where a gateway counts several requests as one call. unanswered: calls (name, arguments) that a
    gateway passed on to nobody. read: what was done to read its answers. on_item: gets each whole item of an answer
    that a gateway sees.
    """

    def __init__(self, limits: TurnLimits) -> None:
        self.limits = limits
        self.phase: Phase = "waiting"
        self.calls = self.counts = 0
        self.reasoned = 0.0
        self.written = 0.0
        self.way: str | None = None
        self.cut = self.tools_first = False
        self.bounded: Mapping[str, Any] | None = None
        self.context: int | None = None
        self.unanswered: list[tuple[str, str]] = []
        self.read: dict[str, None] = {}
        self.on_item: Callable[[Mapping[str, Any]], None] | None = None
        self.since = self.touched = time.monotonic()

    def requested(self) -> None:
        """A model call went to the provider."""
        self.calls += 1
        self.waits()

    def waits(self) -> None:
        """A model call is due: the turn waits for its first token."""
        self.reasoned = self.written = 0.0
        self._enter("waiting")

    def reads(self, notes: Iterable[str]) -> None:
        """Keep what was done to read an answer, the first few notes of a turn."""
        for note in notes:
            if len(self.read) < MOST_NOTES:
                self.read.setdefault(note)

    @property
    def record(self) -> str | None:
        """Return the turn's way, with what was done to read its answers."""
        return "; ".join(filter(None, (self.way, *self.read))) or None

    def ends_item(self, item: Mapping[str, Any]) -> None:
        if self.on_item is not None:
            self.on_item(item)

    def heard(self) -> None:
        """The provider sent something that is not a token of an answer, such as a heartbeat."""
        self.touched = time.monotonic()

    def reasons(self, text: str = "") -> None:
        """A piece of the model's reasoning came; empty where the provider hides its text."""
        self.reasoned += _tokens(text) if text else 0.0
        self._enter("reasoning")

    def writes(self, text: str = "") -> None:
        """A piece of the answer, or of a tool call's arguments, came."""
        self.written += _tokens(text)
        self._enter("writing")

    def uses_tools(self) -> None:
        """The desk answers a tool call, which has a limit of its own."""
        self._enter("tools")

    @property
    def due(self) -> float:
        """Return the time (time.monotonic) at which the provider has been silent for too long."""
        if self.phase == "tools":
            return float("inf")
        return self.touched + self._quiet_seconds

    @property
    def _quiet_seconds(self) -> float:
        """A model whose reasoning is hidden is as silent as one that has not begun."""
        limits = self.limits
        hidden = self.phase == "reasoning" and not self.reasoned
        if self.phase == "waiting" or hidden:
            return max(limits.first_token_seconds, limits.silence_seconds) if hidden else limits.first_token_seconds
        return limits.silence_seconds

    @property
    def tokens(self) -> int:
        """Return the tokens of the current model call so far, estimated."""
        return round(self.reasoned + self.written)

    @property
    def too_long(self) -> bool:
        return self.written > self.limits.output_tokens or self.reasoned > self._most_reasoned

    @property
    def _most_reasoned(self) -> int:
        return REASONING * self.limits.output_tokens

    def overdue(self) -> Failure | None:
        if self.too_long and not self.cut:
            return self.length()
        if time.monotonic() < self.due:
            return None
        quiet, call = f"{self._quiet_seconds:g} s", f"of model call {self.calls or 1}"
        if self.phase == "waiting":
            return failure("no_first_token", f"no first token for {quiet} {call}; {RAISE['first_token']}")
        if not self.tokens:
            what, raises = "while it reasoned out of sight", RAISE["first_token"]
        else:
            what, raises = f"after {self.tokens:,} tokens", RAISE["silence"]
        return failure("silent", f"silent for {quiet} {what} {call}; {raises}")

    def state(self) -> dict[str, Any]:
        """Return what the turn does now, for events. seconds: for how long."""
        seconds = round(time.monotonic() - self.since, 1)
        return {"phase": self.phase, "seconds": seconds, "tokens": self.tokens, "calls": self.calls}

    def length(self) -> Failure:
        if self.reasoned > self._most_reasoned:
            what = f"the model reasoned for more than {self._most_reasoned:,} tokens before one answer"
        else:
            what = f"the model wrote more than {self.limits.output_tokens:,} tokens in one answer"
        return failure("length", f"{what}; {RAISE['output']}")

    def without_text(self) -> Failure:
        """The answer ended at a limit of tokens, the provider's or the desk's, before any of its text came."""
        if self.too_long:
            return self.length()
        what = f"the answer came to its limit of tokens after {self.tokens:,} of reasoning, without any text"
        return failure("length", f"{what}; lower the effort, or {RAISE['output']}")

    def timeout(self, seconds: float | None = None) -> Failure:
        """seconds: what the turn had, where that was less than its limit."""
        what = f"the turn did not end within {seconds or self.limits.turn_seconds:.0f} s; it was {self.phase}"
        return failure("timeout", f"{what}, after {self.calls} model calls; {RAISE['turn']}")

    def _enter(self, phase: Phase) -> None:
        now = time.monotonic()
        if phase != self.phase:
            self.phase, self.since = phase, now
        self.touched = now


class Progress:
    """Reports a turn that takes long: when its phase changes, and else once in REPORT_SECONDS. report: gets the
    liveness."""

    def __init__(self, liveness: Liveness, report: Callable[[Liveness], None]) -> None:
        self._liveness, self._report = liveness, report
        self._began = self._at = time.monotonic()
        self._phase: Phase | None = None

    def report(self) -> None:
        now, liveness = time.monotonic(), self._liveness
        changed = liveness.phase != self._phase and now - liveness.since >= QUICK_SECONDS
        if changed or (now - self._at >= REPORT_SECONDS and now - self._began >= QUICK_SECONDS):
            self._at, self._phase = now, liveness.phase
            self._report(liveness)


# What lifts each limit, for all turns or for a role's or model's own.
RAISE = {
    "turn": "raise DESK_TURN_SECONDS, or turn in DESK_TURN_LIMITS",
    "first_token": "raise DESK_FIRST_TOKEN_SECONDS, or first_token in DESK_TURN_LIMITS",
    "silence": "raise DESK_SILENCE_SECONDS, or silence in DESK_TURN_LIMITS",
    "output": "raise DESK_OUTPUT_TOKENS, or output in DESK_TURN_LIMITS",
}


def _tokens(text: str) -> float:
    """A short piece of a stream is one token; a longer one is several."""
    return 1.0 if len(text) <= SHORT_CHARS else len(text) / CHARS_PER_TOKEN
