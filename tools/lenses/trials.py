"""A lens's rule tried over past sessions: what it put forward, what became of that, and what luck alone would make.

No run is opened and no model asked. A name's outcome over some sessions is its return less the median return of the
universe over the same sessions, for a rule that only names what rises with the market has no merit.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise

import numpy as np

from chordesk.models.answers import Frozen
from chordesk.tools.lenses.expressions import Numbers
from chordesk.tools.lenses.figures import FIGURES, Panel, read_panel
from chordesk.tools.lenses.files import Lens
from chordesk.tools.lenses.past import PastFigures
from chordesk.tools.lenses.rules import Ruled, members, ruled, sectors_for
from chordesk.tools.prices.close_table import CloseTable
from chordesk.tools.registry import Gaps, ToolContext
from chordesk.tools.scoring.inference import Estimate, Observation, estimate, share_bounds

HORIZONS = (5, 10, 20)


class Outcome(Frozen):
    """What became of the hits over so many sessions, against the median of the universe.

    n: hits with an outcome; open: without one yet. mean: of the excess returns, with 95 % bounds, null where the hits
    are too few or too close in time. beat: share that beat the median. luck: what the best of all tries of the lens
    would come to without any merit; deflated: the mean less that; chance: how often luck alone does as well.
    """

    sessions: int
    n: int
    open: int
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    beat: float | None = None
    beat_low: float | None = None
    beat_high: float | None = None
    luck: float | None = None
    deflated: float | None = None
    chance: float | None = None


class Trial(Frozen):
    """One lens over some sessions. a_session: hits of a mean session; turnover: share of a session's hits that the one
    before did not have, of sessions with hits; undecided: share of the names of which the rule could not be told;
    unknown: by figure, share of the names without it; overlap: by other lens, share of the hits that it has too."""

    lens: str
    version: str
    first: dt.date
    last: dt.date
    sessions: int
    hits: int
    a_session: float
    turnover: float | None
    undecided: float
    unknown: dict[str, float]
    overlap: dict[str, float]
    tries: int
    outcomes: list[Outcome]


Hits = Mapping[int, tuple[str, ...]]  # by row of a day


@dataclass(slots=True)
class Walked:
    """What a lens put forward, by row of a day."""

    hits: dict[int, tuple[str, ...]] = field(default_factory=dict)
    compared: int = 0
    undecided: int = 0
    unknown: Counter[str] = field(default_factory=Counter)

    def add(self, row: int, found: Ruled, most: int) -> None:
        self.hits[row] = tuple(one.symbol for one in found.passed[:most])
        self.compared += found.compared
        self.undecided += found.undecided
        self.unknown.update(found.unknown)


def walk(
    lenses: Sequence[Lens],
    past: PastFigures,
    rows: Sequence[int],
    universe_of: Callable[[int], Sequence[str]],
    context_of: Callable[[int], ToolContext],
) -> dict[str, Walked]:
    """Return what each lens puts forward on the days of some rows. universe_of: the names of a day; context_of: the
    market of a day, for figures of companies, which are read day by day. Raises UsageError for a figure that the market
    does not have."""
    names = {name for lens in lenses for name in lens.used}
    company = tuple(name for name in FIGURES if name in names and FIGURES[name].part != "prices")
    tables = past.tables(names, rows)
    own: dict[str, str | None] = {}
    for lens in lenses:
        own |= sectors_for(lens, past.market, past.symbols)
    found = {lens.name: Walked() for lens in lenses}
    for row in rows:
        symbols = [symbol for symbol in universe_of(row) if symbol in past.column]
        at = np.array([past.column[symbol] for symbol in symbols], dtype=np.int64)
        columns: dict[str, Numbers] = {name: table[row, at] for name, table in tables.items()}
        if company:
            columns |= read_panel(context_of(row), symbols, company).columns
        panel = Panel(tuple(symbols), columns, Gaps())
        for lens in lenses:
            inside, doubtful = members(lens, panel, own)
            found[lens.name].add(row, ruled(lens, inside, most=lens.hits, doubtful=doubtful), lens.hits)
    return found


def trial_of(lens: Lens, walked: Mapping[str, Walked], past: PastFigures, closes: CloseTable, tries: int) -> Trial:
    """tries: versions of the lens that were tried, with this one."""
    own, rows = walked[lens.name], sorted(walked[lens.name].hits)
    count = sum(map(len, own.hits.values()))
    others = {name: one.hits for name, one in walked.items() if name != lens.name}
    return Trial(
        lens=lens.name,
        version=lens.version,
        first=past.days[rows[0]],
        last=past.days[rows[-1]],
        sessions=len(rows),
        hits=count,
        a_session=count / len(rows),
        turnover=_turnover([own.hits[row] for row in rows]),
        undecided=own.undecided / own.compared if own.compared else 0.0,
        unknown={name: given / own.compared for name, given in own.unknown.items() if given},
        overlap={name: _shared(own.hits, hits) for name, hits in others.items()} if count else {},
        tries=tries,
        outcomes=[outcome(own.hits, closes, sessions, tries) for sessions in HORIZONS],
    )


def _turnover(hits: Sequence[tuple[str, ...]]) -> float | None:
    changed = [len(set(after) - set(before)) / len(after) for before, after in pairwise(hits) if after]
    return float(np.mean(changed)) if changed else None


def _shared(own: Hits, other: Hits) -> float:
    both = sum(len(set(symbols) & set(other.get(row, ()))) for row, symbols in own.items())
    return both / sum(map(len, own.values()))


def outcome(hits: Hits, closes: CloseTable, sessions: int, tries: int) -> Outcome:
    """Return what became of hits. A name that leaves the market counts with what its last close paid."""
    excess, beaten, waiting = list[Observation](), list[Observation](), 0
    carried, column = closes.carried(), {symbol: at for at, symbol in enumerate(closes.symbols)}
    for row, symbols in hits.items():
        if not symbols:
            continue
        if row + sessions >= len(closes.days):
            waiting += len(symbols)
            continue
        listed = closes.listed(row)
        returns = carried[row + sessions] / carried[row] - 1
        median = float(np.median(returns[listed]))
        for symbol in symbols:
            value = float(returns[column[symbol]]) - median
            excess.append(Observation(value, row, row + sessions, symbol))
            beaten.append(Observation((1 + np.sign(value)) / 2, row, row + sessions, symbol))
    found, share = estimate(excess), estimate(beaten)
    if found is None or share is None:
        return Outcome(sessions=sessions, n=0, open=waiting)
    bounds = share_bounds(share)
    return Outcome(
        sessions=sessions,
        n=found.n,
        open=waiting,
        mean=found.mean,
        low=found.low,
        high=found.high,
        beat=share.mean,
        beat_low=bounds.low if bounds else None,
        beat_high=bounds.high if bounds else None,
        **_deflated(found, tries),
    )


def _deflated(found: Estimate, tries: int) -> dict[str, float]:
    if found.error is None or found.degrees is None:
        return {}
    luck = expected_best(tries) * found.error
    alone = found.chance / 2 if found.mean > 0 else 1 - found.chance / 2
    return {"luck": luck, "deflated": found.mean - luck, "chance": 1 - (1 - alone) ** tries}


@cache
def expected_best(tries: int) -> float:
    """Return by how many standard errors the best of so many lenses without merit lies above zero, on average.

    The mean excess of a lens without merit, over its standard error, is about a standard normal draw. The largest of N
    independent ones lies below x with the chance F(x)^N, where F is the normal distribution, so that its mean is

        E[max] = integral of x d(F(x)^N) = integral of x N f(x) F(x)^(N-1) dx

    which is 0 for N = 1 and 1.87 for N = 20 (Bailey and Lopez de Prado, The Deflated Sharpe Ratio, Journal of Portfolio
    Management 40(5), 2014, have its approximation for large N). The best of N shown as if it were the only one is too
    good by that. Versions of one lens are alike, and the best of fewer independent ones lies lower: what is left after
    this is on the safe side. By the same reasoning luck alone does as well as p with the chance 1 - (1 - p)^N (Sidak,
    1967).
    """
    if tries <= 1:
        return 0.0
    x = np.linspace(-9.0, 9.0, 20_001)
    density = np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    below = np.array([0.5 * math.erfc(-value / math.sqrt(2)) for value in x])
    return float(np.sum(x * tries * density * below ** (tries - 1)) * (x[1] - x[0]))


def digest_of(symbols: Sequence[str]) -> str:
    return hashlib.sha256(",".join(sorted(symbols)).encode()).hexdigest()[:12]
