"""Signals of the account's holdings: their heat, how much of it is the same bet, and what is left for the next one."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy
from sqlmodel import col

from chordesk.models.board.forecasts import MAX_FINDINGS, Harvest
from chordesk.models.questions import BoardQuestion, QuestionSource
from chordesk.models.tables.board import Question, SignalFinding
from chordesk.tools.board.event_positions import EVENT_BANKROLL, KELLY_FRACTION, event_ledger
from chordesk.tools.board.harvest_context import Finding, HarvestContext, asleep, listed, named
from chordesk.tools.board.question_sets import LAG, LEVELS, MARKETS, Asked, Known, Record, Series
from chordesk.tools.portfolio.size_bounds import HeatBook, contract_heat, heat_book, kelly_bet, room
from chordesk.tools.prices.price_panel import CORRELATION_SESSIONS, mean_of_pairs
from chordesk.tools.questions.stored_questions import known_column
from chordesk.tools.scoring.track_records import PRIOR, resolved

_NAME_CHARS = 24
NEAR = 0.1  # of a price, on either side
_BASIS = "none: a share of outcomes that were known a week before now"
_SERIES = Finding(
    "{series}: yes in {yes} of {known} earlier questions; with {others} on others of its source, {share:.0%}",
    _BASIS,
    "outcomes of {market}",
)
_PRICE = Finding(
    "price {price:.0%}: of {known} other questions near it, {yes} came true; drawn to the price, {share:.0%}",
    _BASIS,
    "outcomes of {market}",
)


class _Row(NamedTuple):
    """A question of a set. price: its baseline."""

    series: Series
    due: dt.date
    until: dt.date
    text: str
    price: float | None
    outcome: float | None

    @classmethod
    def of(cls, key: str, text: str, known: dt.datetime, price: float | None, outcome: float | None) -> _Row:
        due, source, name = key.split(" ", 2)
        until = known.date() if source in MARKETS else dt.date.fromisoformat(name[-len("2026-03-01") :])
        name = name if source in MARKETS else name[: -len(" 2026-03-01")]
        return cls(Series(source, name), dt.date.fromisoformat(due), until, text, price, outcome)


_COLUMNS = (
    *(col(Question.external_id), col(Question.text), col(Question.closes_at)),
    *(col(Question.baseline), col(Question.outcome)),
)


def record_signals(context: HarvestContext) -> Harvest:
    """Return a finding for each of the first five questions that are of a question set."""
    if context.tool.store is None:
        return asleep("there is no store")
    now = context.tool.clock.now()
    of_sets = col(Question.source) == QuestionSource.FORECASTBENCH
    ids = {one.id: one for one in context.questions}
    with context.tool.store.read() as session:
        asked = session.execute(
            sqlalchemy.select(col(Question.id), *_COLUMNS).where(of_sets, col(Question.id).in_(ids))
        ).all()
        if not asked:
            return asleep("no question is of a question set")
        outcomes = session.execute(
            sqlalchemy.select(*_COLUMNS[:2], known_column(), *_COLUMNS[3:]).where(of_sets, *resolved(now - LAG))
        ).all()
    known = [_Row.of(*row) for row in outcomes]
    rows = {ids[row[0]]: _Row.of(*row[1:])._replace(outcome=None) for row in asked}
    found = _of_series(context, known, {one: row for one, row in rows.items() if row.series.source not in MARKETS})
    found |= _of_prices(context, known, {one: row for one, row in rows.items() if row.series.source in MARKETS})
    return Harvest(findings=tuple(found[one] for one in context.questions if one in found)[:MAX_FINDINGS])


def _of_series(
    context: HarvestContext, known: Sequence[_Row], asked: Mapping[BoardQuestion, _Row]
) -> dict[BoardQuestion, SignalFinding]:
    found = {}
    for source in {row.series.source for row in asked.values()}:
        before = [row for row in known if row.series.source == source]
        mine = {one: row for one, row in asked.items() if row.series.source == source}
        questions = [Asked(row.series, row.due, row.due, row.until, row.text, None) for row in mine.values()]
        outcomes = [Known(row.series, row.due, row.until, row.outcome or 0.0) for row in before]
        kinds = {one.series: one.kind for one in questions}
        kinds |= {row.series: Asked(row.series, row.due, row.due, row.until, row.text, None).kind for row in before}
        shares = Record(outcomes, questions, kinds).rates(*LEVELS)
        for (one, row), share in zip(mine.items(), shares.tolist(), strict=True):
            same = [other.outcome for other in before if other.series == row.series]
            data = {
                "series": f"{source} {row.series.id[:_NAME_CHARS]}", "yes": sum(value == 1 for value in same),
                "known": len(same), "others": len(before) - len(same), "share": round(share, 4),
            }  # fmt: skip
            found[one] = _SERIES.of(
                context, data, subjects=(one.label,), as_of=context.tool.clock.now(), probability=share
            )
    return found


def _of_prices(
    context: HarvestContext, known: Sequence[_Row], asked: Mapping[BoardQuestion, _Row]
) -> dict[BoardQuestion, SignalFinding]:
    """A market's question is asked again in later sets: the last of its prices counts, as one question."""
    priced = {row.series: row for row in sorted(known, key=lambda row: row.due) if row.series.source in MARKETS}
    found = {}
    for one, row in asked.items():
        if (price := row.price) is None:
            continue
        near = [
            other.outcome or 0.0
            for other in priced.values()
            if other.series != row.series and other.price is not None and abs(other.price - price) <= NEAR
        ]
        share = (sum(near) + PRIOR * price) / (len(near) + PRIOR)
        data = {"price": price, "yes": sum(value == 1 for value in near), "known": len(near), "share": round(share, 4)}
        found[one] = _PRICE.of(context, data, subjects=(one.label,), as_of=context.tool.clock.now(), probability=share)
    return found


BELIEF, EVEN = 0.55, 0.5  # of the example of a stake
TOGETHER = 0.6  # mean correlation from which on holdings are one bet
_BOOKS = "account {account}, {market} daily bars"
_STAKE = "a belief of {belief:.0%} at a price of {price:.2f} is worth at most {stake:.1%} of equity"
_KNOWN = "share of the holdings of which the heat is known; it sizes bets and forecasts nothing"
_BOOK = Finding(
    "Heat{least} {heat:.1%} of equity over {holdings} holdings, {correlatedHeat:.1%} together ({effectiveBets:.1f} "
    "effective bets), {heatLeft:.1%} left of {heatLimit:.1%}; " + _STAKE,
    _KNOWN,
    _BOOKS,
)
_EMPTY = Finding(
    "No holding with a known heat, {heatLeft:.1%} of equity left of {heatLimit:.1%}; " + _STAKE, _KNOWN, _BOOKS
)
_TOGETHER = Finding(
    "{holdings} holdings move as {effectiveBets:.1f} bets (mean correlation {correlation:.2f} over {sessions} "
    "sessions): one more of the same kind spreads nothing",
    "the mean correlation itself; it warns of one bet and forecasts nothing",
    _BOOKS,
)
_ROOM = Finding(
    "{symbol}: correlation {correlation:.2f} with the holdings by heat; at most {room:.1%} of equity more, by "
    "{boundBy}",
    "1 where the correlation with every holding is known, else the share of holdings of which it is",
    _BOOKS,
)
_EVENTS = Finding(
    "{open} open event positions have {staked:.1%} of a bankroll of {bankroll:,.0f} in play money at stake, the "
    "largest {largest:.1%}",
    "1: the ledger is the desk's own; it sizes bets and forecasts nothing",
    _BOOKS,
)


def holding_signals(context: HarvestContext) -> Harvest:
    """The account's heat, a warning if its holdings are one bet, and the room for the questions' symbols, least
    first."""
    tool = context.tool
    if tool.store is None:
        return asleep("not available: this home has no database yet; run `desk up`, or set DESK_DATABASE_URL")
    book = heat_book(tool, context.symbols)
    if book.equity is None or book.equity <= 0:
        return asleep(f"no equity to measure heat by: {_why(book)}")
    findings = [_whole(context, book)]
    if (warning := _moving_together(context, book)) is not None:
        findings.append(warning)
    if (events := _event_stakes(context)) is not None:
        findings.append(events)
    if book.rows:
        findings += sorted(_rooms(context, book), key=lambda one: (one.data["room"], one.subjects))
    return Harvest(findings=tuple(findings[:MAX_FINDINGS]))


def _why(book: HeatBook) -> str:
    return f"it is {book.equity:.2f}" if book.equity is not None else f"no price of {listed(book.missing)}"


def _left(context: HarvestContext, book: HeatBook) -> float:
    return max(0.0, context.tool.settings.max_drawdown - book.correlated)


def _whole(context: HarvestContext, book: HeatBook) -> SignalFinding:
    settings, left = context.tool.settings, _left(context, book)
    bet = kelly_bet(BELIEF, EVEN, None, KELLY_FRACTION)
    known = len(book.rows) / (len(book.rows) + len(book.missing)) if book.rows or book.missing else 1.0
    data: dict[str, Any] = {
        "holdings": len(book.rows),
        "heat": round(book.heat, 4),
        "correlatedHeat": round(book.correlated, 4),
        "effectiveBets": round(book.bets or 0.0, 2),
        "heatLimit": settings.max_drawdown,
        "heatLeft": round(left, 4),
        "belief": BELIEF,
        "price": EVEN,
        "kellyFraction": KELLY_FRACTION,
        "stake": round(min(bet.stake if bet is not None else 0.0, left), 4),
        "missing": named(book.missing),
        "assumedToMoveTogether": named(book.assumed),
    }
    kind = _BOOK if book.rows else _EMPTY
    return kind.of(context, data, known, least=" at least" if book.missing else "")


def _moving_together(context: HarvestContext, book: HeatBook) -> SignalFinding | None:
    """Return a warning where the mean correlation of the holdings is high; holdings without returns are left out."""
    known = [place for place, row in enumerate(book.rows) if row.symbol in book.returns]
    mean = mean_of_pairs(book.correlation[known][:, known]) if known else None
    if mean is None or mean < TOGETHER or book.bets is None:
        return None
    names = tuple(dict.fromkeys(row.symbol for row in book.rows))
    data = {
        "holdings": len(book.rows),
        "effectiveBets": round(book.bets, 2),
        "correlation": round(mean, 4),
        "sessions": CORRELATION_SESSIONS,
        "missing": named(book.assumed),
    }
    return _TOGETHER.of(context, data, mean, names)


def _event_stakes(context: HarvestContext) -> SignalFinding | None:
    """Return the play money at stake on event markets; None without any, and in a replay, which has no such markets."""
    tool = context.tool
    if tool.store is None or tool.clock.day is not None:
        return None
    with tool.store.read() as session:
        ledger = event_ledger(session, tool.account, EVENT_BANKROLL, only_open=True)
    if not ledger.positions or ledger.bankroll <= 0:
        return None
    labels = {question.id: question.label for question in context.questions}
    data: dict[str, Any] = {
        "open": len(ledger.positions),
        "staked": round(contract_heat(ledger.staked, ledger.bankroll), 4),
        "bankroll": round(ledger.bankroll, 2),
        "largest": round(max(held.position.cost for held in ledger.positions) / ledger.bankroll, 4),
        "onTheBoard": [labels[held.question.id] for held in ledger.positions if held.question.id in labels],
    }
    return _EVENTS.of(context, data, 1.0, tuple(dict.fromkeys(data["onTheBoard"])))


def _rooms(context: HarvestContext, book: HeatBook) -> list[SignalFinding]:
    settings, found = context.tool.settings, []
    missing = [symbol for symbol in context.symbols if symbol not in book.units or symbol not in book.returns]
    for symbol in context.symbols:
        with_new = book.with_new(symbol)
        if with_new is None or symbol not in book.units:
            continue
        held = sum(row.value for row in book.rows if row.symbol == symbol) / (book.equity or 1.0)
        by_heat = room(book, with_new, book.units[symbol], settings.max_drawdown)
        by_share = max(0.0, settings.max_symbol_share - held)
        data = {
            "symbol": symbol,
            "correlation": round(float(with_new @ book.heats) / book.heat if book.heat else 0.0, 4),
            "room": round(min(by_heat, by_share), 4),
            "boundBy": "heat" if by_heat < by_share else "the limit of one symbol",
            "heatAtFullEquity": round(book.units[symbol], 4),
            "share": round(held, 4),
            "missing": named(missing),
        }
        found.append(_ROOM.of(context, data, 1 - len(book.assumed) / len(book.rows), (symbol,)))
    return found
