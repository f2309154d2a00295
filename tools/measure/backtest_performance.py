"""What a backtest came to against chance: differences to benchmarks of the same risk, figures with intervals, and the
sentence that follows from them by rule."""

from __future__ import annotations

import datetime as dt
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from chordesk.models.tables.orders import Fill
from chordesk.tools.market.clock import day_of
from chordesk.tools.market.protocol import Floats
from chordesk.tools.measure.backtests import drawdown
from chordesk.tools.portfolio.lots import Lot
from chordesk.tools.prices.close_table import CloseTable, Mask, Places
from chordesk.tools.scoring.inference import LEAST_VALUES, TOO_FEW, Estimate, Observation, estimate, told_apart

SESSIONS_A_YEAR = 252
DRAWS, SEED = 1_000, 20_100_104
_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Course:
    """An account from one mark to the next, T steps of which both ends have a price, as shares of equity.

    The book pays no interest, so that its return is w R, of the share w that is invested at R. What cash would earn is
    in every comparison: the return with it is w R + (1 - w) c, and the excess over cash w (R - c). A share that is held
    idle is not charged for what it could have earned, and one that is invested is, as the universe's is."""

    desk: Floats  # as the book has it
    # held, even: the universe bought and held, and kept at equal weight
    held: Floats
    even: Floats
    exposure: Floats  # mean of both ends
    turnover: Floats
    costs: Floats
    a_year: float  # steps a year
    cash: float = 0.0  # what cash earns a step

    @property
    def idle(self) -> Floats:
        """The share that is not invested; none where a book is invested more than once."""
        return np.maximum(0.0, 1 - self.exposure)

    @property
    def whole(self) -> Floats:
        """The desk's return with interest on idle cash."""
        return self.desk + self.idle * self.cash

    @property
    def excess(self) -> Floats:
        """That over cash."""
        return self.whole - self.cash


def course_of(
    equity: Sequence[float | None], exposure: Sequence[float | None], traded: Sequence[float], costs: Sequence[float],
    held: Sequence[float], even: Sequence[float], sessions_a_step: float, cash_a_year: float = 0.0,
) -> Course:  # fmt: skip
    """Return the steps from values at each mark. traded, costs: since the mark before. cash_a_year: its continuous
    rate."""
    value, share = (np.array([math.nan if one is None else one for one in row]) for row in (equity, exposure))
    market = np.array([held, even], dtype=np.float64)
    known = np.isfinite(value) & (np.nan_to_num(value) > 0) & np.isfinite(share)
    both = known[:-1] & known[1:]
    before = value[:-1][both]
    others = (market[:, 1:] / market[:, :-1] - 1)[:, both]
    return Course(
        desk=value[1:][both] / before - 1,
        held=others[0],
        even=others[1],
        exposure=(share[1:] + share[:-1])[both] / 2,
        turnover=np.array(traded[1:], dtype=np.float64)[both] / before,
        costs=np.array(costs[1:], dtype=np.float64)[both] / before,
        a_year=SESSIONS_A_YEAR / sessions_a_step,
        cash=math.expm1(cash_a_year * sessions_a_step / SESSIONS_A_YEAR),
    )


def excess_of(
    equity: Sequence[float | None], exposure: Sequence[float | None], sessions_a_step: float, cash_a_year: float
) -> Floats:
    """Return the excess over cash of each step, as of `course_of`."""
    none, one = [0.0] * len(equity), [1.0] * len(equity)
    return course_of(equity, exposure, none, none, one, one, sessions_a_step, cash_a_year).excess


@dataclass(frozen=True, slots=True)
class Difference:
    """The desk's mean return a step less that of a benchmark."""

    name: str
    returned: float  # of the benchmark over all steps
    mean: float
    low: float | None
    high: float | None
    lack: str
    told: bool = False  # whether the difference is told from 0 among those to all benchmarks


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure with its 95 % bounds; None with the reason in `lack`."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    lack: str = TOO_FEW


@dataclass(frozen=True, slots=True)
class RandomEntry:
    """Profit of the share lots against that of the same entries in names drawn at random."""

    lots: int
    desk: float
    median: float
    # low, high: 95 % of the draws
    low: float
    high: float
    share: float  # of the draws that came to less
    entries: int = 0  # that the lots are parts of


@dataclass(frozen=True, slots=True)
class Performance:
    steps: int  # between marks
    beta: float | None
    differences: list[Difference]
    measures: list[Measure]
    random: RandomEntry | None
    # the probability that the Sharpe ratio is above what the best of so many trials without skill would show
    deflated: float | None
    trials: int
    # the probability that the best of them in one half is below the median in the other, None with a single one
    overfitting: float | None
    cash: float = 0.0  # what cash earns a step, in the desk's return and in the benchmarks'


EXPOSURE, BETA = "the universe at the same exposure", "the universe at the same beta"


def performance(
    course: Course, random: RandomEntry | None, capacities: Sequence[float], trials: Sequence[Floats],
    overlapping: Sequence[Floats] = (),
) -> Performance:  # fmt: skip
    """capacities: by session with a fill; trials: excess a step of other backtests of the same steps; overlapping: that
    of backtests of other steps, which have seen the half of these days at least.

    A Sharpe ratio without skill varies as one over the root of its steps. So the ratio of n steps of any length counts
    as one of as many steps as this course has: with the same t statistic, which is ratio * sqrt(n)."""
    beta, differences = _differences(course)
    steps = len(course.desk)
    ratios = [_sharpe(one) for one in (course.excess, *trials)]
    for other in overlapping:
        ratio = _sharpe(other)
        ratios.append(None if ratio is None or not steps else ratio * math.sqrt(len(other) / steps))
    return Performance(
        steps=steps,
        beta=beta,
        differences=differences,
        measures=list(_measures(course, capacities)),
        random=random,
        deflated=deflated_sharpe(course.excess, [ratio for ratio in ratios if ratio is not None]),
        trials=len(ratios),
        overfitting=overfitting(np.column_stack([course.excess, *trials])),
        cash=course.cash,
    )


def _mean(values: Floats) -> Estimate | None:
    """Return the mean of one value a step; a step is its own date and nothing overlaps."""
    return estimate(Observation(float(value), at, at + 1) for at, value in enumerate(values))


def _differences(course: Course) -> tuple[float | None, list[Difference]]:
    """Return beta and the differences; without steps there are none, and without a move of the universe no beta."""
    if not len(course.desk):
        return None, []
    cash, whole = course.cash, course.whole
    matched, beta = course.exposure * course.even + course.idle * cash, None
    benchmarks = {EXPOSURE: (matched, whole - matched)}
    if (spread := float(course.even.var())) > 0:
        universe = course.even - cash
        centred = universe - universe.mean()
        beta = float((centred * course.excess).mean()) / spread
        excess = course.excess - beta * universe
        # What each step adds to the intercept of the regression: its residual, and its pull on the slope.
        pull = 1 - universe.mean() * centred / spread
        benchmarks[BETA] = (cash + beta * universe, excess.mean() + (excess - excess.mean()) * pull)
    benchmarks |= {
        "the universe kept at equal weight": (course.even, whole - course.even),
        "the universe bought and held": (course.held, whole - course.held),
        "cash": (np.full(len(whole), cash), course.excess),
    }
    found = {name: _mean(values) for name, (_, values) in benchmarks.items()}
    told = told_apart(found)
    return beta, [
        Difference(
            name, float(np.prod(1 + benchmarks[name][0]) - 1), one.mean, one.low, one.high, one.lack, name in told
        )
        for name, one in found.items()
        if one is not None
    ]


def _measures(course: Course, capacities: Sequence[float]) -> Iterable[Measure]:
    root = math.sqrt(course.a_year)
    yield _scaled("Sharpe ratio, a year", _mean(_sharpe_steps(course.excess)), root)
    yield _scaled("Sortino ratio, a year", _mean(_sortino_steps(course.excess)), root)
    yield _drawdown(course.desk)
    # Neither is below zero, whatever few large values do to an interval.
    yield _scaled("turnover, times equity a year", _mean(course.turnover), course.a_year, least=0.0)
    yield _scaled("costs, share of equity a year", _mean(course.costs), course.a_year, least=0.0)
    yield _capacity(capacities)


def _capacity(capacities: Sequence[float]) -> Measure:
    """Return the geometric mean."""
    name, found = "capacity, in account currency", _mean(np.log(np.array(capacities, dtype=np.float64)))
    if found is None or found.low is None or found.high is None:
        return Measure(name, math.exp(found.mean) if found else None, lack=found.lack if found else TOO_FEW)
    return Measure(name, math.exp(found.mean), math.exp(found.low), math.exp(found.high), "")


def _scaled(name: str, found: Estimate | None, factor: float, least: float = -math.inf) -> Measure:
    if found is None:
        return Measure(name, None)
    if found.low is None or found.high is None:
        return Measure(name, factor * found.mean, lack=found.lack)
    return Measure(name, factor * found.mean, max(least, factor * found.low), factor * found.high, "")


def _sharpe(returns: Floats) -> float | None:
    """Return mean over standard deviation, of a step; None where there is no deviation."""
    deviation = float(returns.std()) if len(returns) else 0.0
    return float(returns.mean()) / deviation if deviation > 1e-12 else None


def _sharpe_steps(returns: Floats) -> Floats:
    """Return values of which the mean is the Sharpe ratio, and the error of the mean its own (the delta method; Lo,
    2002): S + z - S (z^2 - 1) / 2."""
    ratio = _sharpe(returns)
    if ratio is None:
        return np.zeros(0)
    z = (returns - returns.mean()) / returns.std()
    return np.asarray(ratio + z - ratio * (z**2 - 1) / 2, dtype=np.float64)


def _sortino_steps(returns: Floats) -> Floats:
    """The same for the mean over the root of the mean square of losses; empty without a loss."""
    losses = np.minimum(returns, 0) ** 2
    if not losses.any():
        return np.zeros(0)
    below = math.sqrt(losses.mean())
    ratio = returns.mean() / below
    moved = (returns - returns.mean()) / below - ratio * (losses - losses.mean()) / (2 * below**2)
    return np.asarray(ratio + moved, dtype=np.float64)


def _drawdown(returns: Floats) -> Measure:
    """Return the deepest fall with 95 % of those of paths that are drawn from the same steps in blocks (the stationary
    bootstrap; Politis and Romano, 1994)."""
    name, count = "deepest fall", len(returns)
    value = drawdown(np.cumprod(1 + np.insert(returns, 0, 0.0)).tolist())
    if count < LEAST_VALUES:
        return Measure(name, value if count else None)
    draws = np.random.default_rng(SEED)
    fresh = draws.random((DRAWS, count)) < count ** (-1 / 3)
    fresh[:, 0] = True
    starts = draws.integers(0, count, (DRAWS, count))
    since = np.arange(count) - np.maximum.accumulate(np.where(fresh, np.arange(count), 0), axis=1)
    begun = np.take_along_axis(starts, np.arange(count) - since, axis=1)
    paths = np.cumprod(1 + returns[(begun + since) % count], axis=1)
    highs = np.maximum(np.maximum.accumulate(paths, axis=1), 1.0)
    low, high = np.quantile((1 - paths / highs).max(axis=1), (0.025, 0.975))
    return Measure(name, value, float(low), float(high), "")


def deflated_sharpe(returns: Floats, ratios: Sequence[float]) -> float | None:
    """Return the probability that the Sharpe ratio, of a step, is above the mean best of so many trials without skill
    (Bailey and Lopez de Prado, 2014). ratios: of all trials, this one too; a single one is held against zero."""
    own, count = _sharpe(returns), len(returns)
    if own is None or count < LEAST_VALUES:
        return None
    z = (returns - returns.mean()) / returns.std()
    spread = 1 - float((z**3).mean()) * own + (float((z**4).mean()) - 1) / 4 * own**2
    return _NORMAL.cdf((own - best_of_chance(ratios)) * math.sqrt((count - 1) / spread))


_EULER = 0.5772156649015329


def best_of_chance(ratios: Sequence[float]) -> float:
    """Return the mean of the highest of n Sharpe ratios that vary as these do around zero; 0 for one."""
    n = len(ratios)
    if n < 2:
        return 0.0
    first, second = _NORMAL.inv_cdf(1 - 1 / n), _NORMAL.inv_cdf(1 - 1 / (n * math.e))
    return float(np.std(ratios, ddof=1)) * ((1 - _EULER) * first + _EULER * second)


_MOST_PARTS, _LEAST_PART = 16, 5


def overfitting(returns: Floats) -> float | None:
    """Return the share of splits into halves in which the configuration that is best in one is at or below the median
    in the other, from returns T x N (combinatorially symmetric cross-validation; Bailey, Borwein, Lopez de Prado and
    Zhu, 2017); None with fewer than two configurations or 30 steps."""
    steps, count = returns.shape
    if count < 2 or steps < LEAST_VALUES:
        return None
    parts = min(_MOST_PARTS, steps // _LEAST_PART // 2 * 2)
    blocks = [returns[one] for one in np.array_split(np.arange(steps), parts)]
    sums, squares = (np.array([(block**power).sum(axis=0) for block in blocks]) for power in (1, 2))
    sizes = np.array([len(block) for block in blocks])
    halves = list(combinations(range(parts), parts // 2))
    chosen = np.zeros((len(halves), parts))
    for row, half in enumerate(halves):
        chosen[row, list(half)] = 1.0
    inside, outside = (_ratios(picked, sums, squares, sizes) for picked in (chosen, 1 - chosen))
    best = inside.argmax(axis=1)
    own = outside[np.arange(len(halves)), best][:, None]
    # Ranks from 1, ties in the middle; a half of n + 1 is the median.
    rank = (outside < own).sum(axis=1) + ((outside == own).sum(axis=1) + 1) / 2
    return float(np.mean(rank <= (count + 1) / 2))


def _ratios(picked: Floats, sums: Floats, squares: Floats, sizes: npt.NDArray[np.int64]) -> Floats:
    """Return mean over deviation of each configuration in the blocks that each row picks."""
    n = (picked @ sizes)[:, None]
    mean = picked @ sums / n
    deviation = np.sqrt(np.maximum(picked @ squares / n - mean**2, 0))
    return np.divide(mean, deviation, out=np.zeros_like(mean), where=deviation > 1e-12)


def random_entry(lots: Sequence[Lot], closes: CloseTable, slippage: float) -> RandomEntry | None:
    """Return the lots' profit against 1,000 draws in which only the names are others: each name that the desk traded is
    exchanged for one of the universe, two names never for one. Days, stakes, holding times, the parts of an entry and
    entries in a name again stay as they were.

    A desk that does not know names is as likely to have traded any exchange of its own, so that its profit is one draw
    among the others, however names, days and parts hang together (a permutation test: Fisher, 1935): above 97.5 % of
    the draws it lies in 2.5 % of the cases. Counted in 3,000 desks without skill each, 20 names that share half of
    their variance, 60 sessions: 8 entries of one day sold in 3 parts 2.6 %, in 1 part 2.4 %, on 8 days 2.2 %; of names
    that share nothing 2.4 %; 40 entries in 4 favourite names 2.7 %; where half of the names leave or arrive 2.7 %. With
    name and day drawn anew for each lot it was 21 % for the first. What days alone earned is not seen here: the
    differences at the same exposure and beta show it.

    An entry can only be exchanged for what was listed on its day, so that a name may stand for another one in a later
    entry. slippage: share of a price that each fill costs, of the draws too. None without a lot held overnight, or
    where there was one name alone to choose."""
    lots = [lot for lot in lots if lot.until > lot.bought]
    entries = [entry for entry in _entries(lots) if closes.listed(entry[0].bought).any()]
    lots = [lot for entry in entries for lot in entry]
    if not lots or max(closes.listed(entry[0].bought).sum() for entry in entries) < 2:
        return None
    found = np.zeros(DRAWS)
    worth = closes.carried()
    for entry, names in zip(entries, _exchanged(entries, closes), strict=True):
        for lot in entry:
            found += lot.staked * (worth[lot.until, names] / worth[lot.bought, names] - 1)
    found -= slippage * math.fsum(lot.staked * (1 + lot.sold) for lot in lots)
    desk = math.fsum(lot.profit for lot in lots)
    low, median, high = np.quantile(found, (0.025, 0.5, 0.975))
    less = float((found < desk).mean())
    return RandomEntry(len(lots), desk, float(median), float(low), float(high), less, len(entries))


def _entries(lots: Sequence[Lot]) -> list[list[Lot]]:
    """Return the lots by stretch over which a name was held, in the order of days: an entry with what was added to it,
    whose parts may be sold apart."""
    by_symbol: dict[str, list[list[Lot]]] = defaultdict(list)
    for lot in sorted(lots, key=lambda one: (one.bought, one.until, one.symbol)):
        held = by_symbol[lot.symbol]
        if held and lot.bought < max(one.until for one in held[-1]):
            held[-1].append(lot)
        else:
            held.append([lot])
    return sorted((entry for held in by_symbol.values() for entry in held), key=lambda one: one[0].bought)


def _exchanged(entries: Sequence[Sequence[Lot]], closes: CloseTable) -> Iterable[Places]:
    """Yield for each entry the column of the name that stands for its own in each draw: that of the name's entries
    before where it is listed, else one that stands for no other name, or any where there is none."""
    draws, every = np.random.default_rng(SEED), np.arange(DRAWS)
    taken = np.zeros((DRAWS, len(closes.symbols)), dtype=bool)
    stands: dict[str, Places] = {}
    for entry in entries:
        symbol, listed = entry[0].symbol, closes.listed(entry[0].bought)
        kept = np.zeros(DRAWS, dtype=bool)
        if (before := stands.get(symbol)) is not None:
            taken[every, before] = False
            kept = listed[before]
        if before is None or not kept.all():
            fresh = _free(draws, taken, np.flatnonzero(listed))
            before = fresh if before is None else np.where(kept, before, fresh)
        taken[every, before] = True
        stands[symbol] = before
        yield before


_TRIES = 20


def _free(draws: np.random.Generator, taken: Mask, columns: Places) -> Places:
    """Return one of the columns for each row of `taken`, all alike likely, of those that are not taken if there are
    any."""
    chosen = columns[draws.integers(0, len(columns), len(taken))]
    for _ in range(_TRIES):
        again = np.flatnonzero(taken[np.arange(len(taken)), chosen])
        if not len(again):
            return chosen
        chosen[again] = columns[draws.integers(0, len(columns), len(again))]
    again = np.flatnonzero(taken[np.arange(len(taken)), chosen])
    chance = draws.random((len(again), len(columns))) - taken[np.ix_(again, columns)]
    chosen[again] = columns[chance.argmax(axis=1)]
    return chosen


def capacities_of(
    fills: Iterable[Fill], volumes: Mapping[tuple[str, dt.date], float], capital: float, most: float
) -> list[float]:
    """Return for each session with a fill of shares the capital at which its largest part of a name's volume would be
    `most`: there orders would no longer fill whole."""
    largest: dict[dt.date, float] = {}
    for fill in fills:
        day = day_of(fill.filled_at, fill.symbol)
        volume = volumes.get((fill.symbol, day))
        if volume:
            largest[day] = max(largest.get(day, 0.0), fill.quantity / volume)
    return [capital * most / share for _, share in sorted(largest.items()) if share > 0]


SURE, LUCK = 0.95, 0.5


def conclusion(found: Performance, *, rules: bool) -> str:
    """Return one sentence. Better: above the universe at the same exposure and at the same beta, both told from 0,
    above 97.5 % of random entries, and no likely best of many trials; worse: below both, told from 0; else it cannot be
    told."""
    who = "the rulebook, which is fixed rules and no model," if rules else "the desk"
    rows = {one.name: one for one in found.differences}
    matched = [rows[name] for name in (EXPOSURE, BETA) if name in rows and rows[name].low is not None]
    open_question = f"It cannot be told whether {who} did better or worse than its exposure to the market explains"
    if len(matched) < 2:
        if found.steps < LEAST_VALUES:
            return f"{open_question}: {found.steps} steps between sessions are too few, {LEAST_VALUES} are the least."
        lack = next((one.lack for one in found.differences if one.lack), "not known")
        return f"{open_question}: its differences from the market over {found.steps} steps are {lack}."
    bounds = " and ".join(
        f"{one.mean:+.3%} a step against {one.name} ({one.low:+.3%} to {one.high:+.3%})" for one in matched
    )
    caveat = "one stretch of one market" if rules else "one stretch of one market that a model may have read about"
    if all(one.told and one.mean < 0 for one in matched):
        return f"Over {found.steps} steps {who} did worse than chance explains, {bounds}; it is {caveat}."
    if not all(one.told and one.mean > 0 for one in matched):
        return f"{open_question}: {bounds} over {found.steps} steps."
    if doubts := list(_doubts(found)):
        return f"{open_question}: {bounds} over {found.steps} steps, but {' and '.join(doubts)}."
    return f"Over {found.steps} steps {who} did better than chance explains, {bounds}; it is {caveat}."


def _doubts(found: Performance) -> Iterable[str]:
    if found.random is None:
        yield "no shares were held that random entries could be drawn for"
    elif found.random.share <= 1 - (1 - SURE) / 2:
        yield f"{1 - found.random.share:.1%} of random entries on the same days came to as much"
    if found.deflated is None or found.deflated < SURE:
        probability = "unknown" if found.deflated is None else f"{found.deflated:.0%}"
        yield f"the probability that its Sharpe ratio is above the best of {found.trials} by chance is {probability}"
    if found.overfitting is not None and found.overfitting >= LUCK:
        yield f"the best of {found.trials} configurations is overfitted with probability {found.overfitting:.0%}"
