"""The part of a screen that code does: what a lens looks at, and what its rule says of it, without a turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from chordesk.agents.desk_roles import is_own, role_of
from chordesk.agents.prompting import shard_size
from chordesk.agents.role import lens_role
from chordesk.agents.roles import shards
from chordesk.agents.rulebook.cases import PREFIX
from chordesk.models.answers import Instrument, ReportStatus
from chordesk.models.errors import DeskError
from chordesk.models.states import StepKind
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.models.tables.runs import ScreenHit, Turn
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine.budgets import RULES
from chordesk.tasks.engine.steps import ClaimedStep, NewStep
from chordesk.tasks.worker.endings import Done, Ending
from chordesk.tools.lenses.figures import read_panel
from chordesk.tools.lenses.files import Lens
from chordesk.tools.lenses.rules import Passed, Ruled, members, ruled_today, sectors_for
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.registry import ToolContext


def ruled_step(desk: Desk, step: ClaimedStep, lens: Lens) -> Ending:
    """Put the names forward that pass the rule, or hand them to shards of a model. A market that has not what the rule
    names ends the lens, not the screen."""
    context, symbols = desk.tool_context(step.run_id), step.payload["symbols"]
    if lens.by == "model":
        panel = read_panel(context, symbols, () if lens.within is None else lens.within.figures)
        kept, doubtful = members(lens, panel, sectors_for(lens, context.market, symbols))
        unsure = f", and of {len(doubtful)} that is unknown" if len(doubtful) else ""
        note = f"{lens.title}: {len(kept)} of {len(symbols)} names are in its universe{unsure}"
        return _handed_on(desk, step, [(symbol, None) for symbol in kept.symbols], [note])
    found = ruled_today(lens, context, symbols)
    if lens.by == "both":
        return _handed_on(desk, step, [(one.symbol, one) for one in found.passed], found.notes(lens))
    turn = _turn(step, lens)
    hits = list(_hits(context, step, turn, lens, found.passed[: lens.hits]))
    result = {"status": _status(lens, found), "hits": len(hits), "notes": found.notes(lens), **_reason(lens, found)}
    return Done(result, ([turn], hits))


def _status(lens: Lens, found: Ruled) -> ReportStatus:
    """Without any name of which the rule can be told, nothing was screened."""
    return ReportStatus.NO_DATA if _reason(lens, found) else ReportStatus.COMPLETED


def _reason(lens: Lens, found: Ruled) -> dict[str, str]:
    if found.compared and found.undecided == found.compared:
        lacking = [name for name, count in found.unknown.items() if count == found.compared]
        return {"reason": f"{', '.join(lacking) or 'what the rule names'} is unknown of all {found.compared} names"}
    return {}


def _handed_on(
    desk: Desk, step: ClaimedStep, kept: Sequence[tuple[str, Passed | None]], notes: Sequence[str]
) -> Ending:
    """Return the step's end, with the shards that a model looks at in its place."""
    lens, settings = step.payload["lens"], desk.settings_of(step.run_id)
    size, by_symbol = shard_size(role_of(step.role, settings), settings), dict(kept)
    children = []
    for number, some in enumerate(shards(list(by_symbol), size)):
        passed = [one.row() for symbol in some if (one := by_symbol[symbol]) is not None]
        payload = {**step.payload, "shard": number, "symbols": list(some), **({"passed": passed} if passed else {})}
        subject, role = f"{lens}:{number}", lens_role(lens)
        children.append(
            NewStep(StepKind.SCREEN_SHARD, str(step.parent_id), subject=subject, role=role, payload=payload)
        )
    return Done({"status": ReportStatus.COMPLETED, "hits": 0, "notes": list(notes)}, children=children)


def _turn(step: ClaimedStep, lens: Lens) -> Turn:
    """Return the row by which hits name their author. No turn was taken."""
    now = utcnow()
    return Turn(
        id=new_id(), run_id=step.run_id, step_id=step.id, attempt=step.attempt, ordinal=0, role=step.role,
        subject=step.subject, kept=False, provider=RULES, model=f"rule {lens.title}", status=ReportStatus.SKIPPED,
        outcome="completed", total_tokens=0, started_at=now, finished_at=now,
    )  # fmt: skip


def _hits(
    context: ToolContext, step: ClaimedStep, turn: Turn, lens: Lens, passed: Sequence[Passed]
) -> Iterator[ScreenHit]:
    at, lens_version = context.clock.now(), lens.version if is_own(lens.name) else None
    for one in passed:
        yield ScreenHit(
            run_id=step.run_id, step_id=step.id, turn_id=turn.id, lens=lens.name, lens_version=lens_version,
            symbol=one.symbol, instrument=_instrument(context.market, one.symbol), confidence=one.confidence,
            thesis=f"{PREFIX} {one.reason(lens.title)}", market_at=at,
        )  # fmt: skip


def _instrument(market: MarketData, symbol: str) -> Instrument:
    try:
        return Instrument.ETF if market.listing(symbol).kind == "etf" else Instrument.EQUITY
    except DeskError:
        return Instrument.EQUITY
