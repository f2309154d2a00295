"""The runtime that plays kept turns, and keeps those of the runtime behind it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import structlog

from chordesk.agents.cassettes.shelf import Doc, KeptTurn, Shelf, StableForm, digest, fixed_part
from chordesk.agents.pulse import failure, interrupted
from chordesk.agents.runtime import (
    ActiveRuntime,
    Conversation,
    ConversationSpec,
    RogueCall,
    Runtime,
    TurnResult,
    WebSearch,
)
from chordesk.models.answers import Failure, Usage
from chordesk.models.errors import DeskError
from chordesk.models.settings import Settings
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.tools.registry import ToolAnswer, Toolset, ToolSpec

MISS = "cassette_miss"
PLAYED = "from the cassette "  # in a turn's way, before the beginning of the kept turn's id
ID_SHOWN = 16
_EXCERPT = 60  # characters of both texts from a little before their first difference on
_BEFORE = 20

log = structlog.get_logger(__name__)


class CassetteRuntime(ActiveRuntime):
    """Implements agents.runtime.Runtime over another one. name: the other's; behind: None to play alone. mode: `record`
    plays nothing, `auto` asks the model for what is not kept. A conversation of its own starts each turn afresh: a
    thread that is kept from run to run has shown its model what no turn's opening has."""

    def __init__(
        self, name: str, behind: Runtime | None, mode: Literal["record", "replay", "auto"], shelf: Shelf, own: Settings
    ) -> None:
        super().__init__("runtime of cassettes")
        self.name, self.behind, self.mode, self.shelf, self._settings = name, behind, mode, shelf, own

    @asynccontextmanager
    async def conversation(self, spec: ConversationSpec, deadline: float) -> AsyncIterator[Conversation]:
        self._require_open()
        if spec.approvals and self.behind is not None:
            # What a person allowed was done, and cannot be played.
            async with self.behind.conversation(spec, deadline) as live:
                yield live
            return
        async with AsyncExitStack() as stack:
            spec = replace(spec, keep=False)
            conversation = CassetteConversation(
                self, spec, deadline, StableForm(self._settings, masked=bool(spec.mask)), stack
            )
            if self.mode == "record":
                await conversation.open()
            stack.enter_context(self._active.holding(conversation))
            yield conversation
            await conversation.keep()


class HeardTools:
    """A toolset that notes calls with their answers. first: answers to calls that were made already, in order, which
    are given again to whom makes the same call; nothing is called twice."""

    def __init__(self, tools: Toolset) -> None:
        self._tools = tools
        self.calls: list[list[Any]] = []  # tool, arguments and answer, None while it is called
        self.first: list[tuple[str, Any, ToolAnswer]] = []

    def specs(self) -> Sequence[ToolSpec]:
        return self._tools.specs()

    async def call(self, name: str, arguments: Any) -> ToolAnswer:
        noted = [name, arguments, None]
        self.calls.append(noted)
        made = next((one for one in self.first if one[:2] == (name, arguments)), None)
        if made is not None:
            self.first.remove(made)
        noted[2] = made[2] if made is not None else await self._tools.call(name, arguments)
        answer: ToolAnswer = noted[2]
        return answer


@dataclass(slots=True)
class Missed:
    """A turn that is not kept. calls: those made before that was known."""

    why: str
    calls: list[tuple[str, Any, ToolAnswer]] = field(default_factory=list)


class CassetteConversation:
    """Implements agents.runtime.Conversation."""

    def __init__(
        self, runtime: CassetteRuntime, spec: ConversationSpec, deadline: float, form: StableForm, stack: AsyncExitStack
    ) -> None:
        self.thread_id, self.reason = new_id(), "stateless"
        self.running_turn_id: str | None = None
        self._runtime, self._spec, self._deadline, self._form, self._stack = runtime, spec, deadline, form, stack
        self._live: Conversation | None = None
        self._tools = HeardTools(spec.tools)
        self._stopped = False
        self._so_far = ""  # of the turns before, as they were played: to a model that is asked in their middle
        self._state = ""  # digest of the turns before
        self._kept: list[KeptTurn] = []
        self._parts: dict[str, Doc] = {}
        self._whole = True  # no turn of it failed: else a kept beginning would have no end to play

    async def open(self) -> Conversation:
        if self._live is None:
            assert self._runtime.behind is not None
            spec = replace(self._spec, tools=self._tools)
            self._live = await self._stack.enter_async_context(self._runtime.behind.conversation(spec, self._deadline))
            self.thread_id = self._live.thread_id
            if self._stopped:
                self._live.interrupt()
        return self._live

    def interrupt(self) -> None:
        self._stopped = True
        if self._live is not None:
            self._live.interrupt()

    async def turn(
        self,
        text: str,
        output_schema: dict[str, Any],
        metadata: Mapping[str, str],
        on_started: Callable[[str], None] | None = None,
        on_limited: Callable[[float | None], None] | None = None,
    ) -> TurnResult:
        fixed: Doc = self._form.seen(fixed_part(self._spec.base_instructions, self._spec.tools.specs(), output_schema))
        part, opening = digest(fixed), self._opening(text)
        made: list[tuple[str, Any, ToolAnswer]] = []
        if self._runtime.mode != "record":
            turn_id, form = new_id(), self._form.copy()
            if on_started is not None:
                on_started(turn_id)
            found = await self._played(turn_id, part, fixed, opening)
            if isinstance(found, TurnResult):
                self._so_far += f"{text}\n\nYou answered:\n{found.text}\n\n"
                return found
            if self._runtime.behind is None:
                return self._failed(turn_id, failure(MISS, found.why))
            made, self._form = found.calls, form
        live = await self.open()
        self._tools.calls, self._tools.first = [], made
        result = await live.turn(self._so_far + text, output_schema, metadata, on_started, on_limited)
        self._so_far = ""
        self._note(part, fixed, opening, result)
        return result

    async def keep(self) -> None:
        """Put the turns on the shelf; a fault there costs no turn its result."""
        if not (self._kept and self._whole):
            return
        try:
            await asyncio.to_thread(self._runtime.shelf.keep, self._kept, self._parts)
        except DeskError as error:
            log.warning("cassette.not_kept", role=self._spec.role, error=str(error))

    def _opening(self, text: str) -> Doc:
        spec = self._spec
        opening = {
            "model": spec.model,
            "effort": spec.effort,
            "verbosity": spec.verbosity,
            "web_search": spec.web_search,
            "mask": sorted(spec.mask),
            "items": [dict(one) for one in spec.items],
            "text": text,
        }
        seen: Doc = self._form.seen({name: value for name, value in opening.items() if value not in (None, [])})
        return {**seen, "before": self._state}

    async def _played(self, turn_id: str, part: str, fixed: Doc, opening: Doc) -> TurnResult | Missed:
        spec, shelf, made = self._spec, self._runtime.shelf, list[tuple[str, Any, ToolAnswer]]()
        seen: list[Doc] = []
        left = await asyncio.to_thread(shelf.opened_by, digest([part, opening]))
        if not left:
            return Missed(await asyncio.to_thread(_why_unknown, shelf, spec, part, fixed, opening))
        while not self._stopped:
            kept = left[0]
            if len(kept.calls) == len(seen):
                self._state = _after(kept.id, kept.end)
                return self._result(turn_id, kept)
            call = kept.calls[len(seen)]
            arguments = self._form.present(call["arguments"])
            answer = await spec.tools.call(call["tool"], arguments)
            made.append((call["tool"], arguments, answer))
            seen.append(self._form.call(call["tool"], arguments, answer))
            same = [one for one in left if one.calls[: len(seen)] == seen]
            if not same:
                what = f"answer {len(seen)} of its tools, of {call['tool']},"
                return Missed(_missed(spec, kept, what, call, seen[-1]), made)
            left = same
        return self._failed(turn_id, interrupted(), "interrupted")

    def _result(self, turn_id: str, kept: KeptTurn) -> TurnResult:
        end = self._form.present(kept.end)
        at = utcnow()
        way = f"{PLAYED}{kept.id[:ID_SHOWN]}"
        return TurnResult(
            self.thread_id, turn_id, end["status"], end["text"],
            Usage(**end["usage"]), None, end["refusal"], end["context_tokens"], end["model"],
            cost_usd=0.0,  # nothing was paid now
            searches=tuple(WebSearch(at, *one) for one in end["searches"]),
            way="; ".join(filter(None, (end["way"], way))), cut=end["cut"],
            rogue=tuple(RogueCall(at, *one) for one in end["rogue"]),
        )  # fmt: skip

    def _failed(self, turn_id: str, why: Failure, status: Literal["failed", "interrupted"] = "failed") -> TurnResult:
        return TurnResult(self.thread_id, turn_id, status, "", Usage(), why, None)

    def _note(self, part: str, fixed: Doc, opening: Doc, result: TurnResult) -> None:
        """Make a kept turn of one that a model answered, in words or by declining."""
        calls = self._tools.calls
        if result.failure is not None or result.status == "interrupted" or any(one[2] is None for one in calls):
            self._whole = False
            return
        seen = [self._form.call(*one) for one in calls]
        end = {
            "status": result.status,
            "text": result.text,
            "refusal": result.refusal,
            "usage": result.usage.model_dump(),
            "context_tokens": result.context_tokens,
            "model": result.model,
            "way": result.way,
            "cut": result.cut,
            "searches": [[one.action, one.queries, one.url, one.results] for one in result.searches],
            "rogue": [[one.tool, one.arguments] for one in result.rogue],
        }
        spec = self._spec
        kept = KeptTurn(
            run_id=spec.scope.run_id, role=spec.role, subject=spec.scope.subject, runtime=self._runtime.name,
            model=spec.model, kept_at=utcnow(), part=part, opening=opening, calls=seen, end=self._form.written(end),
        )  # fmt: skip
        self._state = _after(kept.id, kept.end)
        self._parts[part] = fixed
        self._kept.append(kept)


def _after(turn: str, end: Doc) -> str:
    return digest([turn, end["text"]])


def _why_unknown(shelf: Shelf, spec: ConversationSpec, part: str, fixed: Doc, opening: Doc) -> str:
    near = shelf.near(spec.role, spec.scope.subject)
    if not near:
        return f"no turn of {spec.role} is kept ({_REMEDY})"
    kept = max(near, key=lambda one: _alike(one, part, opening))
    then, now = {**shelf.part(kept.part), **kept.opening}, {**fixed, **opening}
    named = next((name for name in (*now, *then) if then.get(name) != now.get(name)), "text")
    what = {"before": "the turn before it", "text": "its text"}.get(named, f"its {named}")
    return _missed(spec, kept, what, then.get(named), now.get(named))


def _alike(kept: KeptTurn, part: str, opening: Doc) -> tuple[bool, int, int]:
    same = sum(kept.opening.get(name) == value for name, value in opening.items())
    return kept.part == part, same, _first_difference(str(kept.opening["text"]), str(opening["text"]))


def _missed(spec: ConversationSpec, kept: KeptTurn, what: str, then: Any, now: Any) -> str:
    old, new = (one if isinstance(one, str) else str(one) for one in (then, now))
    at = max(_first_difference(old, new) - _BEFORE, 0)
    nearest = f"the nearest, {kept.id[:ID_SHOWN]} of {kept.subject or kept.role}"
    shown = f"was {old[at : at + _EXCERPT]!r} and is {new[at : at + _EXCERPT]!r}"
    return f"no kept turn of {spec.role} is this one; of {nearest}, {what} {shown} ({_REMEDY})"


def _first_difference(one: str, other: str) -> int:
    least = min(len(one), len(other))
    return next((at for at in range(least) if one[at] != other[at]), least)


_REMEDY = "DESK_CASSETTES=auto asks the model for it"
