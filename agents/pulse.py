"""Life signs of one turn: what its provider sends, since when it is silent, and the limit that ends it.

A turn lives while its provider sends anything. Whoever sees the provider's stream (the gateway, the LiteLLM client, or
the app-server's notifications where the stream is out of sight) reports here; whoever waits for the turn asks here.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from chordesk.agents.failures import failure
from chordesk.models.research import Failure

# waiting: for the first token of a model call. reasoning, writing: tokens come. tools: the desk answers a tool call.
Phase = Literal["waiting", "reasoning", "writing", "tools"]
LIMITS = frozenset({"timeout", "no_first_token", "silent", "length"})  # kinds of failures by a limit of the desk
REASONING = 8  # times the tokens of an answer that a model may reason before it
QUICK_SECONDS = 3.0  # a phase that is over sooner is not reported
REPORT_SECONDS = 60.0
CHARS_PER_TOKEN = 4  # of text that comes in pieces of unknown size, and only there
SHORT_CHARS = 16  # most servers send each token by itself, and few tokens are longer


@dataclass(frozen=True, slots=True)
class TurnLimits:
    """Limits of one turn. Times are seconds.

    first_token_seconds: from a model call to the first token of its answer; anything the provider sends meanwhile
    begins it anew. silence_seconds: without anything from the provider once a token has come. output_tokens: of one
    model call, beyond what it reasons.
    """

    turn_seconds: float = 1200.0
    first_token_seconds: float = 300.0
    silence_seconds: float = 120.0
    output_tokens: int = 8000


class Pulse:
    """Life signs of one turn; for one event loop.

    phase: what the turn does now, since `since` (time.monotonic). reasoned, written: tokens of the current model call,
    estimated from its pieces where the provider counts none. calls: model calls so far. counts: how many of them told
    their tokens, where a gateway sees it. way: how the answer's schema and the tools were put to the server, of those
    that a gateway translates for. cut: the answer was cut off at its length. tools_first: an answer is of use only
    after a call of a tool. context: tokens of the last request's prompt, where a gateway counts several requests as
    one call.
    """

    def __init__(self, limits: TurnLimits) -> None:
        self.limits = limits
        self.phase: Phase = "waiting"
        self.calls = self.counts = 0
        self.reasoned = 0.0
        self.written = 0.0
        self.way: str | None = None
        self.cut = self.tools_first = False
        self.context: int | None = None
        self.since = self.touched = time.monotonic()

    def requested(self) -> None:
        """A model call went to the provider."""
        self.calls += 1
        self.waits()

    def waits(self) -> None:
        """A model call is due: the turn waits for its first token."""
        self.reasoned = self.written = 0.0
        self._enter("waiting")

    def heard(self) -> None:
        """The provider sent something that is no token of an answer, such as a heartbeat."""
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
        """Return whether the current model call wrote more than it may, or reasons without end."""
        return self.written > self.limits.output_tokens or self.reasoned > self._most_reasoned

    @property
    def _most_reasoned(self) -> int:
        return REASONING * self.limits.output_tokens

    def overdue(self) -> Failure | None:
        """Return why the turn has to end now, None while it may go on."""
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
        """Return the failure of an answer that is longer than it may be."""
        if self.reasoned > self._most_reasoned:
            what = f"the model reasoned for more than {self._most_reasoned:,} tokens before one answer"
        else:
            what = f"the model wrote more than {self.limits.output_tokens:,} tokens in one answer"
        return failure("length", f"{what}; {RAISE['output']}")

    def timeout(self, seconds: float | None = None) -> Failure:
        """Return the failure of a turn that did not end in time. seconds: what it had, where that was less than its
        limit."""
        what = f"the turn did not end within {seconds or self.limits.turn_seconds:.0f} s; it was {self.phase}"
        return failure("timeout", f"{what}, after {self.calls} model calls; {RAISE['turn']}")

    def _enter(self, phase: Phase) -> None:
        now = time.monotonic()
        if phase != self.phase:
            self.phase, self.since = phase, now
        self.touched = now


class Progress:
    """Reports a turn that takes long: when its phase changes, and else once in REPORT_SECONDS. report: gets the
    pulse."""

    def __init__(self, pulse: Pulse, report: Callable[[Pulse], None]) -> None:
        self._pulse, self._report = pulse, report
        self._began = self._at = time.monotonic()
        self._phase: Phase | None = None

    def report(self) -> None:
        now, pulse = time.monotonic(), self._pulse
        changed = pulse.phase != self._phase and now - pulse.since >= QUICK_SECONDS
        if changed or (now - self._at >= REPORT_SECONDS and now - self._began >= QUICK_SECONDS):
            self._at, self._phase = now, pulse.phase
            self._report(pulse)


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
