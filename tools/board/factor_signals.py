"""factors: how often the same bet is made: sectors and correlation of the symbols, and the voices' last consensus."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from sqlmodel import select

from chordesk.models.board import Harvest
from chordesk.models.errors import DeskError
from chordesk.models.masking import without_secrets
from chordesk.models.tables.board import SignalFinding
from chordesk.models.tables.orders import Position
from chordesk.tools.board.context import EarlierVote, Finding, HarvestContext, asleep, compose, named
from chordesk.tools.history import Budget
from chordesk.tools.market.universe import NAMED
from chordesk.tools.model_tools.company_data import plain_text
from chordesk.tools.price_panel import (
    CORRELATION_SESSIONS,
    correlations,
    log_returns,
    mean_of_pairs,
    panel_of,
    universe_correlation,
)
from chordesk.tools.risk import underlying_of
from chordesk.tools.scoring.voices import Agreement, agreement, consensus

LEAST_SYMBOLS = 3
ALARM = 0.5  # of the consensus beyond chance
_LEAST_QUESTIONS = 3
_SECTOR_CHARS, _REASON_CHARS = 40, 160
_PULL = 5.0  # questions at which half of a consensus is believed
_CROWD = "{market} listings and daily bars"
_SECTOR = Finding(
    "{count} of the {named} symbols with a known sector are {sector}, {share:.0%}{universe}",
    "(share - share of the universe) / (1 - share of the universe), at least 0; null without the latter",
    _CROWD,
)
_MOVES = Finding(
    "{names} symbols of questions and holdings have a mean correlation of {correlation:.2f} over {sessions} sessions"
    "{universe}: as many as {effectiveBets:.1f} independent ones",
    "(correlation - that of the universe) / (1 - that of the universe), at least 0",
    _CROWD,
)
_CONSENSUS = Finding(
    "Last episode: {share:.0%} of the voices on the larger side over {questions} question{plural}, where chance gives "
    "{byChance:.0%}: consensus {consensus:.2f} beyond chance{alarming}",
    f"|consensus beyond chance| x questions / (questions + {_PULL:g})",
    "forecasts of the last episode",
)


def crowding_signals(context: HarvestContext) -> Harvest:
    names = tuple(dict.fromkeys([*context.symbols, *_held(context)]))
    audit = _audit(context)
    try:
        found = [_moves(context, names), _sector(context, names)] if len(names) >= LEAST_SYMBOLS else []
    except DeskError as error:
        if audit is None:
            raise
        # The votes are the desk's own: they are there while the market is away.
        found, missing = [], [plain_text(without_secrets(str(error)), _REASON_CHARS)]
        audit = audit.model_copy(update={"data": {**audit.data, "missing": missing}})
    findings = tuple(one for one in (audit, *found) if one is not None)
    if not findings:
        return asleep(f"fewer than {LEAST_SYMBOLS} symbols to compare, and no votes of an earlier episode")
    return Harvest(findings=findings)


def _held(context: HarvestContext) -> list[str]:
    if context.tool.store is None:
        return []
    held = select(Position.symbol).where(Position.account == context.tool.account)
    with context.tool.store.read() as session:
        return sorted({underlying_of(symbol) for symbol in session.exec(held)})


def _sector(context: HarvestContext, names: Sequence[str]) -> SignalFinding | None:
    budget = Budget(context.tool)
    sectors = {name: sector for name in names if (sector := _sector_of(context, name, budget)) is not None}
    if len(sectors) < LEAST_SYMBOLS:
        return None
    sector, count = max(Counter(sectors.values()).items(), key=lambda one: (one[1], one[0]))
    if count < 2:
        return None
    share, usual = count / len(sectors), _share_of_universe(context, sector)
    data: dict[str, Any] = {
        "sector": sector,
        "count": count,
        "named": len(sectors),
        "share": round(share, 4),
        "universeShare": None if usual is None else round(usual, 4),
        "missing": named([name for name in names if name not in sectors]),
    }
    universe = "" if usual is None else compose("; of the universe {universeShare:.0%}", data)
    crowd = tuple(name for name, one in sectors.items() if one == sector)
    confidence = None if usual is None else (share - usual) / (1 - usual) if usual < 1 else 0.0
    return _SECTOR.of(context, data, confidence, crowd, universe=universe)


def _sector_of(context: HarvestContext, symbol: str, budget: Budget) -> str | None:
    """The market's own listing, which is outside text; None where it is not known, or not in time."""
    try:
        budget.spend()
        sector = context.tool.market.listing(symbol).sector
    except DeskError:
        return None
    return plain_text(sector, _SECTOR_CHARS) or None if sector is not None else None


def _share_of_universe(context: HarvestContext, sector: str) -> float | None:
    """None for an unnamed universe, whose members would have to be asked for, and where the market has none."""
    wanted = context.tool.settings.universe.strip().lower()
    if wanted not in NAMED:
        return None
    try:
        members = context.tool.market.universe(wanted)
    except DeskError:
        return None
    known = [plain_text(one.sector, _SECTOR_CHARS) for one in members if one.sector is not None]
    return known.count(sector) / len(known) if known else None


def _moves(context: HarvestContext, names: Sequence[str]) -> SignalFinding | None:
    returns = log_returns(context.tool, names)
    known = [name for name in names if name in returns]
    if len(known) < LEAST_SYMBOLS:
        return None
    matrix = correlations(returns, known, 1.0)
    mean, usual = mean_of_pairs(matrix) or 0.0, universe_correlation(panel_of(context.tool, context.symbols))
    together = float(matrix.sum())
    data: dict[str, Any] = {
        "names": len(known),
        "correlation": round(mean, 4),
        "sessions": CORRELATION_SESSIONS,
        "universeCorrelation": None if usual is None else round(usual, 4),
        "effectiveBets": round(len(known) ** 2 / together, 2) if together > 0 else float(len(known)),
        "missing": named([name for name in names if name not in returns]),
    }
    universe = "" if usual is None else compose(" (the universe {universeCorrelation:.2f})", data)
    confidence = None if usual is None else (mean - usual) / (1 - usual)
    return _MOVES.of(context, data, confidence, tuple(known), universe=universe)


def _audit(context: HarvestContext) -> SignalFinding | None:
    """Return how far the voices agreed beyond chance in the last episode; None without two votes on one question."""
    asked: dict[str, list[EarlierVote]] = defaultdict(list)
    for vote in context.votes:
        asked[vote.question].append(vote)
    found = [one for votes in asked.values() if (one := _agreement(votes)) is not None]
    beyond = consensus(found)
    if beyond is None:
        return None
    alarm = beyond >= ALARM and len(found) >= _LEAST_QUESTIONS
    data: dict[str, Any] = {
        "questions": len(found),
        "votes": sum(one.n for one in found),
        "share": round(sum(one.share for one in found) / len(found), 4),
        "byChance": round(sum(one.by_chance for one in found) / len(found), 4),
        "consensus": round(beyond, 4),
        "withinFactions": _within_factions(asked.values()),
        "alarm": alarm,
    }
    return _CONSENSUS.of(
        context,
        data,
        min(abs(beyond), 1.0) * len(found) / (len(found) + _PULL),
        direction="contrarian" if alarm else "neutral",
        as_of=max(vote.at for vote in context.votes),
        plural="s" if len(found) > 1 else "",
        alarming=", an alarm: few of them forecast for themselves" if alarm else "",
    )


def _agreement(votes: Sequence[EarlierVote]) -> Agreement | None:
    """Return the agreement on one question; a single voice agrees with none."""
    found = agreement([vote.probability for vote in votes], votes[0].baseline)
    return found if found is not None and found.n > 1 else None


def _within_factions(asked: Any) -> dict[str, float]:
    """Return the consensus beyond chance within each faction that has two voices on a question."""
    found: dict[str, list[Agreement]] = defaultdict(list)
    for votes in asked:
        by_faction: dict[str, list[EarlierVote]] = defaultdict(list)
        for vote in votes:
            by_faction[vote.faction].append(vote)
        for faction, members in by_faction.items():
            if (one := _agreement(members)) is not None:
                found[faction].append(one)
    return {faction: round(beyond, 4) for faction in sorted(found) if (beyond := consensus(found[faction])) is not None}
