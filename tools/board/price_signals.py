"""Signals of prices: momentum, reversal, patterns of time and volatility, each symbol against its universe."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
from sqlmodel import select

from chordesk.models.board.forecasts import MAX_FINDINGS, Harvest
from chordesk.models.errors import DeskError
from chordesk.models.tables.board import SignalDirection, SignalFinding
from chordesk.models.tables.orders import Position
from chordesk.models.text import without_secrets
from chordesk.tools.board.harvest_context import (
    EarlierVote,
    Finding,
    HarvestContext,
    asleep,
    bar_time,
    best,
    compose,
    listed,
    named,
)
from chordesk.tools.market.protocol import Floats
from chordesk.tools.market.universe import NAMED
from chordesk.tools.model_tools.company_data import plain_text
from chordesk.tools.prices import price_figures
from chordesk.tools.prices.daily_bars import Budget
from chordesk.tools.prices.price_panel import (
    CORRELATION_SESSIONS,
    PricePanel,
    a_year_of,
    beat_median,
    change,
    correlations,
    log_returns,
    mean_of_pairs,
    panel_of,
    returns,
    standing,
    universe_correlation,
)
from chordesk.tools.risk.exposure import underlying_of
from chordesk.tools.scoring.inference import Estimate, Observation, estimate
from chordesk.tools.scoring.voice_scores import Agreement, agreement, consensus

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


PATTERN_SHORT, PATTERN_LONG = 5, 20
LEAST_MOVE = 0.02
QUIET, BUSY = 0.8, 1.25  # mean volume of 5 sessions to that of 20
LEAST_DATES = 30
NO_PATTERN: Final = -1
_LEVEL = 0.05
_SIDES = ("down", "up")
_VOLUMES = ("low", "usual", "high")
Codes = npt.NDArray[np.int8]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class PatternRecord:
    """How a pattern ended."""

    instances: int
    dates: int
    share: float  # mean over dates of the share of its instances with the outcome
    pooled: float  # share of the instances, whatever their dates
    base: float  # the same of all names on these dates
    edge: Estimate  # `share` less `base`

    @property
    def enough(self) -> bool:
        return self.dates >= LEAST_DATES and self.edge.error is not None

    def interval(self, looks: int) -> tuple[float, float] | None:
        """Return bounds of the share that hold for all of so many patterns at once with 95 % (Bonferroni)."""
        bounds = self.edge.bounds(1 - _LEVEL / looks)
        return (max(0.0, self.base + bounds[0]), min(1.0, self.base + bounds[1])) if bounds else None


def pattern_codes(panel: PricePanel) -> Codes:
    """Return the pattern of each name and session, n x T; NONE where a move is within 2 % or a figure is missing."""
    short, long = change(panel.close, PATTERN_SHORT), change(panel.close, PATTERN_LONG)
    ratio = _trailing_mean(panel.volume, PATTERN_SHORT) / _trailing_mean(panel.volume, PATTERN_LONG)
    volumes = np.where(ratio < QUIET, 0, np.where(ratio > BUSY, 2, 1))
    codes = 6 * (short > 0) + 3 * (long > 0) + volumes
    known = (np.abs(short) > LEAST_MOVE) & (np.abs(long) > LEAST_MOVE) & np.isfinite(ratio)
    return np.where(known, codes, NO_PATTERN).astype(np.int8)


def described_pattern(code: int) -> dict[str, str]:
    return {"shortMove": _SIDES[code // 6], "longMove": _SIDES[code // 3 % 2], "volume": _VOLUMES[code % 3]}


def record_of(panel: PricePanel, mask: Mask, outcome: Floats, horizon: int) -> PatternRecord | None:
    found = mask & np.isfinite(outcome)
    columns = np.flatnonzero(found.any(axis=0))
    if not len(columns):
        return None
    shares = np.array([outcome[found[:, at], at].mean() for at in columns])
    base = np.nanmean(outcome[:, columns], axis=0)
    # The error is that of the difference to the base on the same dates: what moves both makes neither uncertain.
    differences = zip(columns.tolist(), (shares - base).tolist(), strict=True)
    edge = estimate(Observation(difference, at, at + horizon) for at, difference in differences)
    assert edge is not None, "there is a date"
    return PatternRecord(
        instances=int(found.sum()),
        dates=len(columns),
        share=float(shares.mean()),
        pooled=float(outcome[found].mean()),
        base=float(base.mean()),
        edge=edge,
    )


def _trailing_mean(values: Floats, sessions: int) -> Floats:
    found = np.full(values.shape, np.nan)
    if values.shape[1] >= sessions:
        found[:, sessions - 1 :] = np.lib.stride_tricks.sliding_window_view(values, sessions, axis=1).mean(axis=2)
    return found


# At the ends of a ranking a forecast moves by half of it. On the default data neither momentum nor reversal has any
# skill: a larger step costs more than it could bring.
UNPROVEN = 0.1


Row = dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Ranking:
    """A figure by which symbols are ranked."""

    finding: Finding
    # of a panel, each symbol's data by symbol, None where the figure is missing; its shareBelow is the percentile, 0 to
    # 1. The confidence is `most` x |2 x percentile - 1|.
    rows: Callable[[PricePanel], Callable[[str], Row]]
    most: float
    side: Literal[-1, 0, 1]  # 1 when a high percentile is bullish, -1 when it is bearish, 0 for no direction
    lacks: str  # why there is no row at all

    def __call__(self, context: HarvestContext) -> Harvest:
        panel = panel_of(context.tool, context.symbols)
        row_of = self.rows(panel)
        found = {symbol: row_of(symbol) for symbol in context.symbols}
        missing = [symbol for symbol, row in found.items() if row is None]
        rows = [row for row in found.values() if row is not None]
        if not rows:
            return asleep(f"{self.lacks}: {listed(missing)}")
        rows.sort(key=lambda row: (-round(abs(row["shareBelow"] - 0.5), 6), row["symbol"]))
        session, at = panel.days[-1].isoformat(), bar_time(context.tool.clock, panel.days[-1])
        return Harvest(findings=tuple(
            self.finding.of(
                context,
                {**row, "session": session, "missing": named(missing)},
                self.most * abs(2 * row["shareBelow"] - 1),
                (row["symbol"],),
                _direction(self.side * (row["shareBelow"] - 0.5)),
                as_of=at,
            )
            for row in rows[:MAX_FINDINGS]
        ))  # fmt: skip


def _direction(lean: float) -> SignalDirection:
    return "bullish" if lean > 0 else "bearish" if lean < 0 else "neutral"


MOMENTUM_SHORT, MOMENTUM_LONG = 20, 60


def _momentum(panel: PricePanel) -> Callable[[str], Row]:
    short, long = returns(panel, MOMENTUM_SHORT), returns(panel, MOMENTUM_LONG)

    def row(symbol: str) -> Row:
        near, far = (standing(each, panel.place[symbol]) for each in (short, long))
        if near is None or far is None:
            return None
        return {
            "symbol": symbol,
            "short": MOMENTUM_SHORT,
            "momentum20": round(near.value, 4),
            "rank20": near.rank,
            "of20": near.of,
            "long": MOMENTUM_LONG,
            "momentum60": round(far.value, 4),
            "rank60": far.rank,
            "of60": far.of,
            "shareBelow": round((near.percentile + far.percentile) / 2, 4),
        }

    return row


momentum_signals = Ranking(
    Finding(
        "{symbol}: {momentum20:+.1%} in {short} sessions, rank {rank20} of {of20}; "
        "{momentum60:+.1%} in {long}, rank {rank60} of {of60}",
        f"{UNPROVEN:g} x |2 x mean percentile of both ranks - 1|; it has shown no skill on the default data",
    ),
    _momentum,
    most=UNPROVEN,
    side=1,
    lacks=f"no momentum of {MOMENTUM_SHORT} and {MOMENTUM_LONG} sessions, or nothing to compare it with",
)

REVERSAL_SESSIONS = 5


def _reversal(panel: PricePanel) -> Callable[[str], Row]:
    moves = returns(panel, REVERSAL_SESSIONS)

    def row(symbol: str) -> Row:
        found = standing(moves, panel.place[symbol])
        if found is None:
            return None
        return {
            "symbol": symbol,
            "sessions": REVERSAL_SESSIONS,
            "return5": round(found.value, 4),
            "rank": found.rank,
            "of": found.of,
            "shareBelow": round(found.percentile, 4),
        }

    return row


reversal_signals = Ranking(
    Finding(
        "{symbol}: {return5:+.1%} in {sessions} sessions, rank {rank} of {of}; a reversal would go the other way",
        f"{UNPROVEN:g} x |2 x percentile of the rank - 1|, against the move; it has shown no skill on the default data",
    ),
    _reversal,
    most=UNPROVEN,
    side=-1,
    lacks=f"no return of {REVERSAL_SESSIONS} sessions, or nothing to compare it with",
)

MOST_TEMPORAL = 0.3
_TEMPORAL_BASIS = (
    f"2 x distance from the base rate to the nearer bound, at most {MOST_TEMPORAL:g}, and 0 where it lies between "
    "them; the bounds hold for all patterns that were looked at together with 95 %, with errors by blocks of dates"
)
_PATTERN = "{names}: {shortMove} in {short} sessions, {longMove} in {long}, volume {volume}: "
_ENOUGH = Finding(
    _PATTERN
    + "{share:.1%} of {instances:,} instances on {dates} dates beat the median over the next {horizon} sessions, "
    "by date {shareFrom:.1%} to {shareTo:.1%}, base rate {base:.1%}: {reading}",
    _TEMPORAL_BASIS,
)
_TOO_FEW = Finding(
    _PATTERN + "{instances:,} instances on {dates} dates, below {leastDates}: not enough", _TEMPORAL_BASIS
)
_NEVER = Finding(_PATTERN + "no instance with a known outcome: not enough", _TEMPORAL_BASIS)


def temporal_signals(context: HarvestContext) -> Harvest:
    """A finding for each pattern of the questions' symbols; instances count whose outcome was known by now."""
    panel, horizon = panel_of(context.tool, context.symbols), context.tool.settings.question_sessions
    codes = pattern_codes(panel)
    showing: dict[int, list[str]] = defaultdict(list)
    for symbol in context.symbols:
        showing[int(codes[panel.place[symbol], -1])].append(symbol)
    without = showing.pop(NO_PATTERN, [])
    if not showing:
        reason = f"no move beyond {LEAST_MOVE:.0%} in both {PATTERN_SHORT} and {PATTERN_LONG} sessions, "
        reason += "or a figure is missing"
        return asleep(f"no symbol shows a pattern, {listed(without)}: {reason}")
    outcome = beat_median(panel.close, horizon)
    findings = [
        _pattern_finding(context, panel, code, names, record_of(panel, codes == code, outcome, horizon), len(showing))
        for code, names in showing.items()
    ]
    return best(findings, lambda one: (-(one.confidence if one.confidence is not None else -1), -one.data["dates"]))


def _pattern_finding(
    context: HarvestContext, panel: PricePanel, code: int, names: list[str], found: PatternRecord | None, looks: int
) -> SignalFinding:
    data: dict[str, Any] = {
        "names": listed(names),
        "short": PATTERN_SHORT,
        "long": PATTERN_LONG,
        **described_pattern(code),
        "horizon": context.tool.settings.question_sessions,
        "patternsLookedAt": looks,
        "leastDates": LEAST_DATES,
        "instances": found.instances if found is not None else 0,
        "dates": found.dates if found is not None else 0,
    }
    kind, confidence, lean = _NEVER if found is None else _TOO_FEW, None, 0.0
    if found is not None and found.enough and (bounds := found.interval(looks)) is not None:
        low, high = bounds
        lean = max(low - found.base, 0.0) - max(found.base - high, 0.0)
        kind, confidence = _ENOUGH, min(2 * abs(lean), MOST_TEMPORAL)
        figures = {"share": found.share, "pooled": found.pooled, "shareFrom": low, "shareTo": high, "base": found.base}
        data |= {name: round(value, 4) for name, value in figures.items()}
        data["reading"] = "no edge shown" if lean == 0 else f"an edge {'above' if lean > 0 else 'below'} the base rate"
    at = bar_time(context.tool.clock, panel.days[-1])
    return kind.of(context, {**data, "symbols": names}, confidence, tuple(names), _direction(lean), as_of=at)


VOLATILITY_SESSIONS, DRAWDOWN = 20, 60
LEAST_WINDOWS = 20  # of its own past that a percentile needs


def volatilities(panel: PricePanel) -> Floats:
    """Return the annualised standard deviation of the last 20 daily log returns of each row, as
    tools/prices/price_figures.py has it; not a number where a close is missing."""
    if len(panel.days) <= VOLATILITY_SESSIONS:
        return np.full(len(panel.close), np.nan)
    changes = np.diff(np.log(panel.close[:, -VOLATILITY_SESSIONS - 1 :]), axis=1)
    return np.asarray(changes.std(axis=1, ddof=1) * math.sqrt(a_year_of(panel)), dtype=np.float64)


def _volatility(panel: PricePanel) -> Callable[[str], Row]:
    universe = volatilities(panel)

    def row(symbol: str) -> Row:
        at = panel.place[symbol]
        found, close = standing(universe, at), panel.close[at]
        fall, own = price_figures.drawdown(close, DRAWDOWN), _own_percentile(close)
        if found is None or own is None or fall is None:
            return None
        return {
            "symbol": symbol,
            "sessions": VOLATILITY_SESSIONS,
            "volatility": round(found.value, 4),
            "shareBelow": round(own[0], 4),
            "windows": own[1],
            "rank": found.rank,
            "of": found.of,
            "drawdownSessions": DRAWDOWN,
            "drawdown": round(fall, 4),
        }

    return row


volatility_signals = Ranking(
    Finding(
        "{symbol}: realised volatility {volatility:.1%} a year over {sessions} sessions, above {shareBelow:.0%} of its "
        "{windows} own windows, rank {rank} of {of}; deepest fall {drawdown:.1%} in {drawdownSessions} sessions",
        "|2 x percentile among its own windows - 1|: how unusual the level is, not where the price goes",
    ),
    _volatility,
    most=1.0,
    side=0,
    lacks=f"no volatility of {VOLATILITY_SESSIONS} sessions with a past to compare it with",
)


def _own_percentile(close: Floats) -> tuple[float, int] | None:
    """Return (the share of the earlier windows of 20 returns, at most 252, with a lower volatility than the last, equal
    ones by half, their number); None with fewer than LEAST_WINDOWS."""
    changes = np.diff(np.log(close))
    if len(changes) <= VOLATILITY_SESSIONS:
        return None
    windows = np.lib.stride_tricks.sliding_window_view(changes, VOLATILITY_SESSIONS)[
        -price_figures.SESSIONS_A_YEAR - 1 :
    ]
    spread = np.round(windows.std(axis=1, ddof=1), 12)  # beyond that, equal windows differ by their order
    past = spread[:-1][np.isfinite(spread[:-1])]
    if not math.isfinite(spread[-1]) or len(past) < LEAST_WINDOWS:
        return None
    return float(((past < spread[-1]).sum() + (past == spread[-1]).sum() / 2) / len(past)), len(past)
