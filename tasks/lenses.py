"""Lenses as people see them: the list, one with its rule, what it says today, what changed, and its tries."""

from __future__ import annotations

import datetime as dt
import difflib
from collections.abc import Sequence
from typing import Any, Literal

import orjson
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, select

from chordesk.agents.desk_roles import (
    is_of_the_desk,
    is_own,
    known_lenses,
    lens_names,
    lens_of,
    own_lenses,
)
from chordesk.models.answers import Frozen
from chordesk.models.errors import NotFound, UsageError
from chordesk.models.settings import KNOWN_LENSES, Settings
from chordesk.models.settings.types import own_texts
from chordesk.models.tables.runs import LensTrial, Run
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.workflows.screen import require_means
from chordesk.tools.lenses.figures import FIGURES
from chordesk.tools.lenses.files import Lens
from chordesk.tools.lenses.past import PastFigures
from chordesk.tools.lenses.rules import ruled_today
from chordesk.tools.lenses.trials import Trial, digest_of, trial_of, walk
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.past_sessions import later_session, sessions_between
from chordesk.tools.market.protocol import RecordedSessions
from chordesk.tools.market.universe import is_named, resolve_universe
from chordesk.tools.registry import ToolContext

SHOWN = 10  # names of a check
LONGEST = 20  # sessions of an outcome
YOUNGEST = 61  # sessions before the first that is tried by default: the figure that looks back furthest


class LensRow(Frozen):
    """fault: why its file cannot be used, with the remedy; used: a screen of this desk takes it by default."""

    name: str
    version: str | None
    by: Literal["rule", "model", "both"] | None
    origin: Literal["desk", "package", "own"]
    used: bool
    purpose: str
    fault: str | None = None


class LensCheck(Frozen):
    """What a lens says on the market's day. passed: the first names, the best first; passing: how many there are."""

    lens: str
    version: str
    market: str
    day: dt.date
    compared: int
    passing: int
    hits: int
    undecided: int
    unknown: dict[str, int]
    passed: list[dict[str, Any]]
    notes: list[str]


def rows(settings: Settings) -> list[LensRow]:
    """Return the lenses of the desk, of packages and of own files, the faulty ones too."""
    found = []
    for name in lens_names(settings):
        lens = lens_of(name, settings)
        found.append(
            LensRow(
                name=name,
                version=lens.version if lens is not None else None,
                by=lens.by if lens is not None else "model",
                origin="own" if is_own(name) else "desk" if is_of_the_desk(name) else "package",
                used=name in settings.lenses,
                purpose=lens.purpose if lens is not None else KNOWN_LENSES[name],
            )
        )
    for name, fault in own_lenses(settings).items():
        if isinstance(fault, UsageError):
            why = f"{fault.args[0]}: {fault.remedy}"
            found.append(LensRow(name=name, version=None, by=None, origin="own", used=False, purpose="", fault=why))
    return found


def lens_named(name: str, settings: Settings) -> Lens:
    """Raises UsageError for an unknown or faulty lens, and for one of a package that is a role alone."""
    fault = own_lenses(settings).get(name)
    if isinstance(fault, UsageError):
        raise fault
    known_lenses([name], settings)
    if (found := lens_of(name, settings)) is None:
        raise UsageError(
            f"the lens {name} of a package is a role alone, without a file", remedy="look into the package"
        )
    return found


def check(desk: Desk, name: str) -> LensCheck:
    """Return what a lens says of the desk's universe today. Raises UsageError for a fault, for a figure that the market
    does not have, and for a lens that needs a model where there is none."""
    settings = desk.settings
    lens = lens_named(name, settings)
    require_means(lens, settings)
    if lens.rule is None:
        return _wordy(desk, lens)
    context = desk.tool_context()
    found = ruled_today(lens, context, resolve_universe(settings.universe, context.market))
    if found.compared > found.doubtful and (
        gone := [one for one, count in found.unknown.items() if count == found.compared]
    ):
        raise UsageError(
            f"the lens {name}: the {context.market.name} market knows {', '.join(gone)} of no name",
            remedy="use a market that has it, or leave it out of the lens",
        )
    return LensCheck(
        lens=name, version=lens.version, market=context.market.name, day=context.clock.session(),
        compared=found.compared, passing=len(found.passed), hits=lens.hits, undecided=found.undecided,
        unknown={one: count for one, count in found.unknown.items() if count},
        passed=[one.row() for one in found.passed[:SHOWN]], notes=found.notes(lens),
    )  # fmt: skip


def _wordy(desk: Desk, lens: Lens) -> LensCheck:
    market = desk.market
    return LensCheck(
        lens=lens.name, version=lens.version, market=market.name, day=market.clock.session(), compared=0, passing=0,
        hits=lens.hits, undecided=0, unknown={}, passed=[], notes=["it has words alone: a model decides"],
    )  # fmt: skip


def difference(session: Session, settings: Settings, name: str, run: Run | None) -> tuple[str, str]:
    """Return the run that kept the lens, and what changed in its file since, as a unified diff. run: by default the
    last one that used it."""
    now = own_texts(settings.own_lenses, settings.home).get(name)
    if now is None:
        own = ", ".join(own_texts(settings.own_lenses, settings.home)) or "none"
        raise UsageError(f"{name[:40]!r} is not an own lens", remedy=f"own lenses are: {own}")
    found = run if run is not None else _last_run(session, name)
    before = _kept(found).get(name) if found is not None else None
    if found is None or before is None:
        which = f"run {found.id[:16]}" if found is not None else "no run"
        raise NotFound(f"{which} has kept the lens {name}", remedy=f"screen with it: desk screen --lens {name}")
    lines = difflib.unified_diff(
        before.splitlines(), now.splitlines(), f"{name}.md of run {found.id[:16]}", f"{name}.md now", lineterm=""
    )
    return found.id, "\n".join(lines)


def _last_run(session: Session, name: str) -> Run | None:
    recent = select(Run).where(Run.kind == "screen").order_by(col(Run.created_at).desc(), col(Run.id).desc()).limit(500)
    return next((run for run in session.exec(recent) if name in _kept(run)), None)


def _kept(run: Run) -> dict[str, str]:
    text = (run.settings or {}).get("own_lenses") or ""
    return dict(orjson.loads(text)) if text else {}


def try_out(
    desk: Desk,
    name: str,
    first: dt.date | None = None,
    last: dt.date | None = None,
    every: int = 1,
    universe: str | None = None,
    until: dt.date | None = None,
) -> Trial:
    """Try a lens over sessions of the market's data, and keep the trial. until: the last day of which prices are looked
    at, by default 20 sessions after the last. Raises UsageError for a lens without a rule, a market of real time, and
    days outside the data."""
    settings, lens = desk.settings, lens_named(name, desk.settings)
    if lens.rule is None:
        reason = f"the lens {name} has no rule, and a model that is asked about the past may know what came"
        raise UsageError(reason, remedy=f'give it where = "...", or play it: desk backtest --lens {name}')
    days = _days(desk, first, last, every)
    past, universe_of = _past(desk, days, universe or settings.universe, until)
    tried = walk(
        [lens, *_others(lens, settings)],
        past,
        [past.row[day] for day in days],
        lambda row: universe_of[past.days[row]],
        lambda row: _context(desk, past.days[row]),
    )
    digest = digest_of(past.symbols)
    with desk.store.read() as session:
        versions = select(LensTrial.version).where(LensTrial.lens == name, LensTrial.market == desk.market.name)
        tries = len({*session.exec(versions.distinct()), lens.version})
    found = trial_of(lens, tried, past, past.closes(settings.delisted_pays), tries)
    _keep(desk, found, every, digest)
    return found


def _days(desk: Desk, first: dt.date | None, last: dt.date | None, every: int) -> list[dt.date]:
    market = desk.market
    known = list(market.recorded()) if isinstance(market, RecordedSessions) else []
    if known:
        first = first or known[min(YOUNGEST, len(known) - 1)]
        last = last or known[-1]
    today = dt.date.min
    return sessions_between(market, first or today, last or today, every)


def _past(
    desk: Desk, days: Sequence[dt.date], universe: str, until: dt.date | None
) -> tuple[PastFigures, dict[dt.date, list[str]]]:
    market = desk.market
    assert isinstance(market, RecordedSessions)
    end = min(later_session(market, days[-1], LONGEST), until or dt.date.max)
    at_end = market.on(ReplayClock(end, exchange=market.clock.exchange))
    known = [day for day in market.recorded() if day <= end]
    if is_named(universe):
        members = {day: resolve_universe(universe, _context(desk, day).market) for day in days}
    else:
        members = dict.fromkeys(days, resolve_universe(universe, at_end))
    return PastFigures(at_end, sorted({symbol for own in members.values() for symbol in own}), known), members


def _context(desk: Desk, day: dt.date) -> ToolContext:
    market = desk.market
    assert isinstance(market, RecordedSessions)
    then = market.on(ReplayClock(day, exchange=market.clock.exchange))
    return ToolContext(then, then.clock, desk.store, desk.settings, desk.settings.account, None)


def _others(lens: Lens, settings: Settings) -> list[Lens]:
    """Return the other lenses with a rule of prices alone, with which hits are compared."""
    found = (lens_of(name, settings) for name in lens_names(settings) if name != lens.name)
    return [
        one
        for one in found
        if one is not None and one.rule is not None and all(FIGURES[name].part == "prices" for name in one.used)
    ]


def _keep(desk: Desk, found: Trial, every: int, names: str) -> None:
    key: dict[str, Any] = {
        "lens": found.lens, "version": found.version, "market": desk.market.name, "first": found.first,
        "last": found.last, "every": every, "names": names,
    }  # fmt: skip
    try:
        with desk.store.session() as session:
            row = session.exec(select(LensTrial).filter_by(**key)).one_or_none() or LensTrial(**key, result={})
            row.result = found.model_dump(mode="json")
            session.add(row)
    except IntegrityError:
        pass  # the same trial of another process
