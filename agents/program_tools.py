"""The tools that an agent of another program may call: the desk's read tools, on the settings' market or a run's.

It needs no running desk. Without a database its data are missing.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection

from chordesk.agents.roles import TOOLS
from chordesk.models.database.store import Store, require_current
from chordesk.models.errors import DatabaseDown, NotFound, UsageError
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import in_run
from chordesk.models.tables.runs import Run
from chordesk.tools.market.factory import MarketKey, build_market, configured_market, market_at
from chordesk.tools.registry import ToolContext, Toolset, ToolSpec
from chordesk.tools.toolsets import TurnTools

PREVIEW = "orders_preview"
READ_TOOLS: tuple[str, ...] = tuple(name for name in TOOLS if name != PREVIEW)


def offer(
    settings: Settings,
    run_id: str | None = None,
    *,
    day: dt.date | None = None,
    names: Collection[str] | None = None,
    preview: bool = False,
) -> Toolset:
    """Return tools whose calls end within DESK_TOOL_SECONDS; an error of one is its answer.

    run_id: a run, whose market, day and settings they have; None for the market of the settings, on `day` where it
    replays. names: None for all that read. preview: also the dry run of an order, which needs a run. None submits.

    Raises UsageError, NotFound, DatabaseDown for a run without its database, SettingError and NotConfigured for a
    market that cannot be had.
    """
    specs = _chosen(names, preview)
    if TOOLS[PREVIEW] in specs and run_id is None:
        raise UsageError("orders_preview rests on the verdicts of a run", remedy="name the run, or leave the tool out")
    context = _on_market(settings, day) if run_id is None else _on_run(settings, run_id, day)
    if context.settings.mask:
        raise UsageError("another program's agent would be shown what DESK_MASK hides", remedy="leave DESK_MASK out")
    return TurnTools(specs, context, context.settings.tool_seconds)


def _chosen(names: Collection[str] | None, preview: bool) -> tuple[ToolSpec, ...]:
    if isinstance(names, str):
        raise UsageError(f"names is {names!r}, a text", remedy=f"give a list, such as [{names!r}]")
    wanted = set(READ_TOOLS if names is None else names) | ({PREVIEW} if preview else set())
    if wrong := sorted(str(name) for name in wanted if name not in TOOLS):
        raise UsageError(f"no tool named {', '.join(wrong)}", remedy=f"choose among {', '.join(TOOLS)}")
    return tuple(spec for name, spec in TOOLS.items() if name in wanted)


def _on_market(settings: Settings, day: dt.date | None) -> ToolContext:
    key = configured_market(settings)
    if day is not None:
        if key.day is None:
            raise UsageError(
                f"market {key.name} is in real time and has no day {day}",
                remedy="leave the day out, or set DESK_MARKET",
            )
        settings = settings.model_copy(update={"replay_date": day})
    try:
        store = _store(settings)
    except DatabaseDown:
        store = None
    return _context(settings, key if day is None else key._replace(day=day), store, None)


def _on_run(settings: Settings, run_id: str, day: dt.date | None) -> ToolContext:
    if day is not None:
        raise UsageError("a run has a day of its own", remedy="give the run or the day, not both")
    store = _store(settings)
    with store.read() as session:
        run = session.get(Run, run_id)
    if run is None:
        store.close()
        raise NotFound(f"no run {run_id!r}", remedy="`desk runs list` lists them")
    return _context(
        in_run(settings, run.settings, run.account), market_at(run.market, run.market_now, run.settings), store, run.id
    )


def _store(settings: Settings) -> Store:
    require_current(settings.database)
    return Store(settings.database)


def _context(settings: Settings, key: MarketKey, store: Store | None, run_id: str | None) -> ToolContext:
    market = build_market(settings, key)
    return ToolContext(market, market.clock, store, settings, settings.account, run_id)
