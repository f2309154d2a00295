"""The runtime that masks what goes to the one behind it, puts back what comes, and keeps what was shown."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import zlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any

import orjson
from sqlmodel import select

from chordesk.agents.measure.mask.mask import UNKNOWN, Mask, Talk
from chordesk.agents.runtime import Conversation, ConversationSpec, ProcessStatus, Runtime, TurnResult
from chordesk.agents.wraps import DeskOfRuns
from chordesk.models.database.store import Store
from chordesk.models.errors import DeskError, UsageError
from chordesk.models.events import DESK
from chordesk.models.market import Listing
from chordesk.models.settings import REPLAYING, Settings
from chordesk.models.tables.runtime import Identity, MaskedTurn
from chordesk.tools.market.clock import clock_day
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.market.universe import NAMED, resolve_universe
from chordesk.tools.registry import ToolAnswer, Toolset, ToolSpec, failed

TRADED_SESSIONS = 300  # whose prices are known in texts
MASKS_KEPT = 16


def mask_for(store: Store, settings: Settings, run_id: str, market: MarketData) -> Mask:
    """The key is of the run and of the desk's own id, which its database keeps: the same in each of its processes."""
    with store.read() as session:
        desk = session.exec(select(Identity.desk)).one()
    key = hmac.digest(desk.encode(), run_id.encode(), hashlib.sha256)
    day = clock_day(market.clock)
    return Mask(settings.mask, key, listings_of(settings, market), day, traded(market))


def listings_of(settings: Settings, market: MarketData) -> list[Listing]:
    """Return the names of the market's own universe, and those of the settings."""
    found: dict[str, Listing] = {}
    for name in NAMED:
        try:
            found |= {one.symbol: one for one in market.universe(name)}
        except DeskError:
            continue
    for symbol in resolve_universe(settings.universe, market):
        known = found.get(symbol) or (market.listing(symbol) if settings.market in REPLAYING else None)
        found[symbol] = known or Listing(symbol=symbol)
    return list(found.values())


def traded(market: MarketData) -> Callable[[str], frozenset[str]]:
    @cache
    def prices(symbol: str) -> frozenset[str]:
        try:
            bars = market.bars(symbol, TRADED_SESSIONS)
        except DeskError:
            return frozenset()
        values = (bars.open, bars.high, bars.low, bars.close)
        return frozenset(f"{value:.2f}" for column in values for value in column.tolist())

    return prices


class MaskWrap:
    """Implements agents.wraps.Wrap: the mask of each run that has one."""

    def __init__(self, desk: DeskOfRuns) -> None:
        self._desk = desk
        self._masks = lru_cache(MASKS_KEPT)(self._made)

    def runtime(self, desk: DeskOfRuns, name: str, behind: Callable[[], Runtime]) -> Runtime:
        return MaskRuntime(behind(), self.disguise, lambda: desk.store)

    def disguise(self, run_id: str) -> Mask | None:
        """Return what the run hides from its models; None for one that hides nothing, and outside any run."""
        if run_id == DESK or not self._desk.settings_of(run_id).mask:
            return None
        return self._masks(run_id)

    def _made(self, run_id: str) -> Mask:
        return mask_for(self._desk.store, self._desk.settings_of(run_id), run_id, self._desk.market_of(run_id))


class MaskRuntime:
    """Implements agents.runtime.Runtime. mask_of: returns the mask of a run, None of one without; it blocks. A
    conversation under a mask starts afresh: the thread of an earlier run has other names."""

    def __init__(self, behind: Runtime, mask_of: Callable[[str], Mask | None], store: Callable[[], Store]) -> None:
        self.behind, self._mask_of, self._store = behind, mask_of, store

    async def start(self) -> None:
        await self.behind.start()

    async def close(self, grace_seconds: float) -> None:
        await self.behind.close(grace_seconds)

    def status(self) -> list[ProcessStatus]:
        return self.behind.status()

    def interrupt(self, thread_id: str, turn_id: str) -> bool:
        return self.behind.interrupt(thread_id, turn_id)

    @asynccontextmanager
    async def conversation(self, spec: ConversationSpec, deadline: float) -> AsyncIterator[Conversation]:
        mask = await asyncio.to_thread(self._mask_of, spec.scope.run_id) if spec.mask else None
        if mask is None:
            async with self.behind.conversation(spec, deadline) as live:
                yield live
            return
        if spec.approvals or spec.web_search is not None:
            what = "searches the web" if spec.web_search is not None else "may ask for commands and files"
            raise UsageError(
                f"the role {spec.role} {what}, which DESK_MASK cannot hide", remedy="take one of both away"
            )
        talk = Talk(mask)
        tools = MaskedTools(spec.tools, talk)
        items = tuple(talk.hide(dict(one)) for one in spec.items)
        # Own prompts may have names in them; the desk's have none.
        told = talk.hide_text(spec.base_instructions)
        hidden = replace(
            spec, keep=False, base_instructions=told, tools=tools, items=items, subject=f"{spec.role}/masked"
        )
        async with self.behind.conversation(hidden, deadline) as live:
            try:
                yield MaskedConversation(live, talk, tools)
            finally:  # also of a turn that failed or was cancelled: its model saw it
                kept = {"shown": [told, orjson.dumps(items).decode(), *tools.shown], "scaled": talk.levels.scaled()}
                await asyncio.to_thread(self._keep, spec, kept)

    def _keep(self, spec: ConversationSpec, kept: dict[str, list[str]]) -> None:
        """A turn whose evidence cannot be kept has no result: the error is raised."""
        scope = spec.scope
        with self._store().session() as session:
            session.add(
                MaskedTurn(
                    run_id=scope.run_id, step_id=scope.step_id, role=spec.role, subject=scope.subject,
                    body=zlib.compress(orjson.dumps(kept)),
                )
            )  # fmt: skip


@dataclass
class MaskedTools:
    """Implements tools.registry.Toolset. shown: what the model was given, in order."""

    behind: Toolset
    talk: Talk
    shown: list[str] = field(default_factory=list)

    def specs(self) -> Sequence[ToolSpec]:
        return self.behind.specs()

    async def call(self, name: str, arguments: Any) -> ToolAnswer:
        asked = self.talk.restore(arguments)
        answer = await self._called(name, asked)
        masked = replace(answer, payload=self.talk.hide(orjson.loads(answer.text())))
        self.shown.append(masked.text())
        return masked

    async def _called(self, name: str, asked: Any) -> ToolAnswer:
        if any(one.endswith(UNKNOWN) and one[:-1] in self.talk.mask.invented for one in _texts(asked)):
            return failed(name, "a symbol is none of the names that this market has")
        return await self.behind.call(name, asked)


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return [text for part in parts for text in _texts(part)]


class MaskedConversation:
    """Implements agents.runtime.Conversation."""

    def __init__(self, live: Conversation, talk: Talk, tools: MaskedTools) -> None:
        self._live, self._talk, self._tools = live, talk, tools
        self.thread_id, self.reason = live.thread_id, live.reason

    def interrupt(self) -> None:
        self._live.interrupt()

    async def turn(
        self,
        text: str,
        output_schema: dict[str, Any],
        metadata: Mapping[str, str],
        on_started: Callable[[str], None] | None = None,
        on_limited: Callable[[float | None], None] | None = None,
    ) -> TurnResult:
        asked = self._talk.hide_prompt(text)
        self._tools.shown.append(asked)
        result = await self._live.turn(asked, output_schema, metadata, on_started, on_limited)
        back = self._talk.restore_text
        failure = result.failure
        return replace(
            result,
            text=back(result.text),
            refusal=back(result.refusal) if result.refusal is not None else None,
            failure=failure.model_copy(update={"message": back(failure.message)}) if failure is not None else None,
            rogue=tuple(one._replace(arguments=back(one.arguments)) for one in result.rogue),
        )
