"""Cassettes: answers of models kept by what the model saw, and played again without one.

A turn is kept whole: what opened it (instructions, tools, the form of its answer, model, effort, the turns before it,
its text), its calls of tools with their answers in order, and its end. It is played where all of that is the same: the
tools are called again, and the first answer that differs ends the playing.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import os
import re
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import orjson
import structlog
from sqlmodel import col, select
from sqlmodel.sql.expression import SelectOfScalar

from chordesk.agents.providers.liveness import failure, interrupted
from chordesk.agents.role_models import RULES
from chordesk.agents.runtime import (
    ActiveRuntime,
    Conversation,
    ConversationSpec,
    RogueCall,
    Runtime,
    TurnResult,
    WebSearch,
)
from chordesk.agents.wraps import DeskOfRuns
from chordesk.models.answers import Failure, Frozen, Usage
from chordesk.models.database.blobs import pack, unpack
from chordesk.models.database.store import Store
from chordesk.models.errors import DeskError
from chordesk.models.files import user_home
from chordesk.models.outside import inflated
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import BACKTEST
from chordesk.models.settings.schema import SECRETS
from chordesk.models.tables.columns import dialect_insert, new_id, utcnow
from chordesk.models.tables.runtime import CassettePart, CassetteTurn
from chordesk.models.text import SHORTEST_SECRET, environment_secrets, without_keys, without_secrets
from chordesk.models.urls import HIDDEN
from chordesk.tools.registry import ToolAnswer, Toolset, ToolSpec
from chordesk.tools.toolsets import CITE

Doc = dict[str, Any]
# An id of a row, a digest, a UUID, the account of a backtest, a moment with parts of a second, which no market's bar
# has, or the whole text by which another turn's answer of a tool is cited.
_OF_A_RUN = re.compile(
    r"(?<![0-9a-zA-Z])(?:[0-9a-f]{64}|[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?![0-9a-zA-Z])"
    rf"|\b{BACKTEST}[0-9a-f]{{12}}(?![0-9a-zA-Z])"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\.\d{3,9}(?:Z|[+-]\d\d:\d\d)?"
    r'|(?<=")[a-z]{4}-[a-z]{1,2}(?=\\?")|\A[a-z]{4}-[a-z]{1,2}\Z'
)
_CITED = re.compile(r"\b[a-z]{4}-[a-z]+\b")
_NAMED = re.compile(r"⟦[a-z]+(?: \d+)?⟧")


class StableForm:
    """Of one conversation. masked: its pictures differ from run to run, by the run's mask alone."""

    def __init__(self, settings: Settings, *, masked: bool = False) -> None:
        self._masked = masked
        folders = {"home": settings.home, "data": settings.data, "user": user_home()}
        places = {str(path): f"⟦{name}⟧" for name, path in folders.items() if path is not None and len(path.parts) > 1}
        self._folders = [
            (re.compile(re.escape(path) + r"(?![\w-])"), name)
            for path, name in sorted(places.items(), key=lambda one: len(one[0]), reverse=True)
        ]
        own = [value.get_secret_value() for name in SECRETS if (value := getattr(settings, name)) is not None]
        secrets = {value for value in (*environment_secrets(os.environ), *own) if len(value) >= SHORTEST_SECRET}
        self._secrets = sorted(secrets, key=len, reverse=True)
        self._names: dict[str, str] = {}
        self._actual = {name: path for path, name in places.items()}
        self._ids = self._cites = 0

    def seen(self, value: Any) -> Any:
        """Return JSON data that the model is shown; new ids get the next names."""
        return _each(value, lambda text: _OF_A_RUN.sub(self._named, self._plain(without_secrets(text))))

    def written(self, value: Any) -> Any:
        """Return JSON data that the model wrote. An id that it was never shown stays as it is."""

        def known(found: re.Match[str]) -> str:
            return self._names.get(found[0], found[0])

        return _each(value, lambda text: _OF_A_RUN.sub(known, self._plain(without_keys(text))))

    def present(self, value: Any) -> Any:
        """Return kept data with the ids and folders of now."""
        return _each(value, lambda text: _NAMED.sub(lambda one: self._actual.get(one[0], one[0]), text))

    def call(self, tool: str, arguments: Any, answer: ToolAnswer) -> Doc:
        asked, payload = self.written(arguments), orjson.loads(answer.text())
        if isinstance(cite := payload.get(CITE), str):
            self._cites += 1
            self._keep(cite, f"⟦cite {self._cites}⟧")
        picture = answer.image if not self._masked else None
        image = hashlib.sha256(picture.data).hexdigest() if picture is not None else None
        return {"tool": tool, "arguments": asked, "answer": self.seen(payload), "image": image}

    def copy(self) -> StableForm:
        other = copy(self)
        other._names, other._actual = {**self._names}, {**self._actual}
        return other

    def _plain(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, HIDDEN)
        for path, name in self._folders:
            text = path.sub(name, text)
        return _CITED.sub(lambda one: self._names.get(one[0], one[0]), text)

    def _named(self, found: re.Match[str]) -> str:
        if (name := self._names.get(found[0])) is None:
            self._ids += 1
            name = self._keep(found[0], f"⟦id {self._ids}⟧")
        return name

    def _keep(self, actual: str, name: str) -> str:
        self._names[actual], self._actual[name] = name, actual
        return name


def _each(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _each(item, change) for key, item in value.items()}
    return [_each(item, change) for item in value] if isinstance(value, list | tuple) else value


NEAREST = 50  # kept turns of a role that a miss is compared with
log = structlog.get_logger(__name__)


def digest(value: Any) -> str:
    return hashlib.sha256(_sorted(value)).hexdigest()


def _sorted(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def fixed_part(instructions: str, tools: Iterable[ToolSpec], schema: Mapping[str, Any]) -> Doc:
    """Return what all turns of a role have in common, which is kept once."""
    table = [{"name": one.name, "description": one.description, "parameters": one.input_schema} for one in tools]
    return {"instructions": instructions, "tools": table, "schema": dict(schema)}


class KeptTurn(Frozen):
    """One turn in its stable form. part: the digest of its fixed part; opening: all else that opened it."""

    run_id: str
    role: str
    subject: str
    runtime: str
    model: str
    kept_at: dt.datetime
    part: str
    opening: dict[str, Any]
    calls: list[dict[str, Any]]
    end: dict[str, Any]

    @property
    def opened(self) -> str:
        return digest([self.part, self.opening])

    @property
    def id(self) -> str:
        """By what its model saw: a later turn that saw the same takes its place."""
        return digest([self.opened, self.calls])

    def row(self) -> dict[str, Any]:
        body = orjson.dumps({"opening": self.opening, "calls": self.calls, "end": self.end})
        named = self.model_dump(include=CassetteTurn.model_fields.keys() & KeptTurn.model_fields.keys())
        return {**named, "id": self.id, "opened": self.opened, "body": pack(body)}


class Shelf:
    """Every method blocks."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def keep(self, turns: Sequence[KeptTurn], parts: Mapping[str, Doc]) -> None:
        # In one order, so that two processes that keep the same never wait for each other.
        rows = [one.row() for _, one in sorted({one.id: one for one in turns}.items())]
        bodies = [
            {"digest": key, "body": pack(orjson.dumps(part, option=orjson.OPT_SORT_KEYS))}
            for key, part in sorted(parts.items())
        ]
        with self._store.session() as session:
            part, turn = dialect_insert(session, CassettePart), dialect_insert(session, CassetteTurn)
            newer = {name: getattr(turn.excluded, name) for name in CassetteTurn.model_fields if name != "id"}
            connection = session.connection()
            if bodies:
                connection.execute(part.on_conflict_do_nothing(index_elements=["digest"]), bodies)
            if rows:
                connection.execute(turn.on_conflict_do_update(index_elements=["id"], set_=newer), rows)

    def opened_by(self, opened: str) -> list[KeptTurn]:
        """Return the kept turns that were opened so, the newest first."""
        return self._turns(select(CassetteTurn).where(CassetteTurn.opened == opened))

    def near(self, role: str, subject: str) -> list[KeptTurn]:
        """Return some kept turns of a role, those on the subject first."""
        of_role = select(CassetteTurn).where(CassetteTurn.role == role)
        return self._turns(of_role.order_by(col(CassetteTurn.subject) != subject).limit(NEAREST))

    def part(self, key: str) -> Doc:
        with self._store.read() as session:
            kept = session.get(CassettePart, key)
        return (kept is not None and part_of(kept)) or {}

    def _turns(self, which: SelectOfScalar[CassetteTurn]) -> list[KeptTurn]:
        with self._store.read() as session:
            rows = session.exec(which.order_by(col(CassetteTurn.kept_at).desc(), col(CassetteTurn.id))).all()
        return [turn for row in rows if (turn := turn_of(row)) is not None]


def turn_of(row: CassetteTurn) -> KeptTurn | None:
    """None for a row that is damaged, which is logged: it counts as not kept."""
    try:
        turn = KeptTurn.of(row, **orjson.loads(inflated("a kept turn", row.body)))
    except (zlib.error, ValueError, TypeError) as error:
        log.warning("cassette.damaged", turn=row.id, error=str(error))
        return None
    return turn


def part_of(row: CassettePart) -> Doc | None:
    data = unpack(row.digest, row.body)
    return orjson.loads(data) if data is not None else None


MISS = "cassette_miss"
PLAYED = "from the cassette "  # in a turn's way, before the beginning of the kept turn's id
ID_SHOWN = 16
_EXCERPT = 60  # characters of both texts from a little before their first difference on
_BEFORE = 20


class CassetteWrap:
    """Implements agents.wraps.Wrap: the cassettes over each runtime; rules in the worker need none. They lie over the
    mask, and so have the house's words."""

    def __init__(self, desk: DeskOfRuns) -> None:
        pass

    def runtime(self, desk: DeskOfRuns, name: str, behind: Callable[[], Runtime]) -> Runtime:
        mode = desk.settings.cassettes
        if mode == "off" or name == RULES.runtime or not desk.records:
            return behind()
        return CassetteRuntime(name, behind() if mode != "replay" else None, mode, Shelf(desk.store), desk.settings)

    def disguise(self, run_id: str) -> None:
        return None


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
            stack.enter_context(self._holding(conversation))
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
