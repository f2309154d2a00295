"""The sessions of a backtest: the runs of one day on the market as it was then, the row of each session, the result."""

from __future__ import annotations

import bisect
import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from sqlalchemy import func
from sqlmodel import Session, col, select

from chordesk.models.answers import ReportStatus
from chordesk.models.exchanges import EXCHANGES, exchange_code
from chordesk.models.orders import DenialCode
from chordesk.models.questions import QuestionState
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import research_account, with_values
from chordesk.models.states import RunKind, RunState, StepKind, StepState, TradingState
from chordesk.models.tables.board import Forecast, Question
from chordesk.models.tables.orders import Account, Fill, Order, Position
from chordesk.models.tables.runs import (
    BacktestSession,
    Candidate,
    Decision,
    Report,
    Run,
    ScreenHit,
    Step,
    Turn,
    Verdict,
    lens_title,
)
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine import budgets
from chordesk.tasks.engine.budgets import RULES, cost_of, runs_of_backtest, was_run
from chordesk.tasks.engine.steps import ChildRun, NewStep, named_step
from chordesk.tasks.engine.summary import BLOCKED
from chordesk.tasks.reading.runs import backtest_rows, blocked, blocked_rows
from chordesk.tasks.workflows.holding_reviews import SCREENED
from chordesk.tasks.workflows.research import all_roles, candidate_steps, researchers, unscreened
from chordesk.tasks.workflows.runs import new_run
from chordesk.tasks.workflows.screen import screen_params
from chordesk.tools.books import costs_of, duties_sum, worth_of_fill
from chordesk.tools.decimals import exact
from chordesk.tools.ledger import account_money, ensure_account, value, worth_of
from chordesk.tools.market.clock import ReplayClock, day_of, decision_time
from chordesk.tools.market.past_sessions import later_session
from chordesk.tools.market.prices import STALE_DAYS, Quotes, actions_of, previous_session, share_of
from chordesk.tools.market.protocol import Action, ClosedSet, Floats, MarketData, RecordedSessions
from chordesk.tools.market.universe import is_named, resolve_universe
from chordesk.tools.measure.backtest_performance import (
    SESSIONS_A_YEAR,
    Performance,
    capacities_of,
    conclusion,
    course_of,
    excess_of,
    performance,
    random_entry,
)
from chordesk.tools.measure.backtests import QUESTION, Claim, drawdown, hit_rates, volumes_of
from chordesk.tools.orders import halting
from chordesk.tools.orders.accounts import equity_levels
from chordesk.tools.portfolio.lots import lots_of
from chordesk.tools.prices.close_table import CloseTable, buy_and_hold, closes_of, equal_weight
from chordesk.tools.risk.exposure import underlying_of
from chordesk.tools.scoring.statistics import ScoredForecast, score
from chordesk.tools.scoring.track_records import voice_forecasts

# Real minutes mean nothing in a walk: a session of it takes seconds.
_NO_RATE = 1_000_000


def settings_of_walk(settings: Settings, memory: str, rounds: int, universe: str | None) -> Settings:
    """Paper as the broker, orders without a person, no limit by real time. Each session is judged anew: that reports
    count again is for an arm to say."""
    asked = {"memory": memory, "rounds": rounds, "reuse": "off", **({"universe": universe} if universe else {})}
    always = {"broker": "paper", "trader_live": True, "approval": "auto", "max_orders_per_minute": _NO_RATE}
    return with_values(settings, {**asked, **always})


def symbols_of_walk(universe: str, market: MarketData, days: Sequence[dt.date]) -> list[str]:
    """Return the names of a walk: of a named universe every one that was a member on any of its days. market: that of
    the last day."""
    if not is_named(universe):
        return resolve_universe(universe, market)
    assert isinstance(market, RecordedSessions)
    then = (market.on(ReplayClock(day, exchange=market.clock.exchange)) for day in days)
    return sorted({symbol for one in then for symbol in resolve_universe(universe, one)})


@dataclass(frozen=True, slots=True)
class Walk:
    """What every day of a backtest shares, read from its run. parallel: nothing of one day feeds the screen of the
    next."""

    run_id: str
    backtest_id: str
    account: str
    parallel: bool
    settings: Settings
    symbols: Sequence[str]

    @classmethod
    def of(cls, desk: Desk, run: Run) -> Walk:
        asked = run.params
        return cls(
            run.id, asked["backtest"], run.account, asked["parallel"], desk.settings_of(run.id), asked["symbols"]
        )

    def market(self, desk: Desk, day: dt.date) -> MarketData:
        return desk.market_on(self.run_id, day)

    def screen(self, desk: Desk, day: dt.date, parent_step: str) -> ChildRun:
        market = self.market(desk, day)
        params = {**screen_params(self.settings, self._symbols_on(market)), "trade": not self.parallel}
        account = research_account(self.account) if self.parallel else self.account
        run = self._run(desk, RunKind.SCREEN, params, account, market, self.run_id)

        def write(session: Session, row: Run, finish: str) -> list[NewStep]:
            ensure_account(session, account, self.settings.starting_cash, self.settings.currency)
            return [NewStep(StepKind.SCREEN, finish)]

        return ChildRun(run, write, parent_step)

    def _symbols_on(self, market: MarketData) -> list[str]:
        """Return the members of a named universe on the market's day, those of a list that it carries by then."""
        if is_named(self.settings.universe):
            return resolve_universe(self.settings.universe, market)
        later = set(market.unknown(self.symbols)) if isinstance(market, ClosedSet) else set[str]()
        return [symbol for symbol in self.symbols if symbol not in later]

    def trade(self, desk: Desk, day: dt.date, screen: str, parent_step: str) -> ChildRun:
        """Unscreened holdings are researched first, as a screen of that account would have done."""
        market = self.market(desk, day)
        params = {"source_run": screen, **researchers(self.settings)}
        run = self._run(desk, RunKind.TRADE, params, self.account, market, screen)

        def write(session: Session, row: Run, finish: str) -> list[NewStep]:
            capital = ensure_account(session, self.account, self.settings.starting_cash, self.settings.currency).cash
            candidates = _unjudged(session, row, screen, market)
            session.add_all(candidates)
            session.flush()
            decide = NewStep(StepKind.DECIDE, finish, waits=bool(candidates))
            asked = all_roles(row, SCREENED)
            return [decide, *candidate_steps(candidates, lambda symbol: asked, capital, decide.id)]

        return ChildRun(run, write, parent_step)

    def _run(
        self, desk: Desk, kind: str, params: Mapping[str, Any], account: str, market: MarketData, parent: str
    ) -> Run:
        same = {"settings": self.settings, "account": account, "market": market, "parent": parent}
        return new_run(desk, kind, {**params, "backtest": self.backtest_id}, **same)  # type: ignore[arg-type]


def _unjudged(session: Session, run: Run, screen: str, market: MarketData) -> list[Candidate]:
    """Return candidates for what the run's account holds and the screen has no verdict on."""
    held = session.exec(select(Position.symbol).where(Position.account == run.account).order_by(col(Position.symbol)))
    judged = set(session.exec(select(Verdict.symbol).where(Verdict.run_id == screen)).all())
    shares = dict.fromkeys(share_of(market, underlying_of(symbol)) for symbol in held.all())
    return unscreened(run.id, [symbol for symbol in shares if symbol not in judged], "position", first=1)


DONE, MISSING = "done", "missing"
_ENDED_WELL = (RunState.DONE, RunState.PARTIAL)


@dataclass(frozen=True, slots=True)
class Day:
    """One session before it is marked. reason: why it is missing, else None."""

    day: dt.date
    screen: str | None = None
    trade: str | None = None
    reason: str | None = None


def off_now(session: Session, settings: Settings, account: str) -> str | None:
    """Return why every order that opens would be denied now, whatever it is; None while trading is on."""
    state, why = halting.trading_state(session, settings, account)
    return None if state is TradingState.ACTIVE else f"trading is {state}: {why or 'no reason given'}"


def denied_by_halt(row: BacktestSession) -> bool:
    return bool({DenialCode.HALTED.value, DenialCode.REDUCING.value} & row.denials.keys())


def trading_off(session: Session, walk: Walk) -> str | None:
    """Return why a walk ended early for a halt, None for any other."""
    steps = session.exec(select(Step).where(Step.run_id == walk.run_id).order_by(col(Step.created_at))).all()
    return next((str(one.result["reason"]) for one in steps if one.result.get("status") == BLOCKED), None)


def run_of_step(session: Session, step_id: str) -> Run | None:
    rows = select(Run).where(named_step() == step_id).order_by(col(Run.created_at).desc())
    return session.exec(rows).first()


def failure_of(run: Run | None, what: str) -> str | None:
    if run is None:
        return f"its {what} was never opened"
    if run.state in _ENDED_WELL:
        return None
    why = f": {run.notes[0]}" if run.notes else ""
    return f"its {what} {run.id} {run.state}{why}"


def cut_trade(session: Session, trade: Run | None) -> str | None:
    if trade is None:
        return None
    steps = session.exec(select(Step).where(Step.run_id == trade.id, Step.kind == StepKind.DECIDE)).all()
    return next(iter(budgets.skipped(steps)), None)


class _Order(NamedTuple):
    state: str
    denial_code: str | None


def session_row(session: Session, walk: Walk, day: Day, market: MarketData) -> BacktestSession:
    """Also brings orders of the rows before up to date. The account is marked at the market's now."""
    runs, now = [day.screen, day.trade], market.clock.now()
    orders = defaultdict[str | None, list[_Order]](list)
    columns = select(Order.run_id, Order.state, Order.denial_code).where(Order.account == walk.account)
    for run_id, *order in session.exec(columns):
        orders[run_id].append(_Order(*order))
    earlier = [row for row in backtest_rows(session, walk.backtest_id) if row.day < day.day]
    for row in earlier:
        row.orders = _states(orders, row.screen_run_id, row.trade_run_id)
        session.add(row)
    session.get_one(Account, walk.account, with_for_update=True)
    money = account_money(session, walk.settings, walk.account)
    found = value(session, Quotes(market, money), walk.account, now)
    equity_levels(session, found, now, previous_session(market), keep=True)
    gross = sum((abs(worth) for one in found.positions if (worth := worth_of(one)) is not None), exact(0))
    denied = Counter(one.denial_code for run_id in set(runs) for one in orders[run_id] if one.denial_code)
    return BacktestSession(
        backtest_id=walk.backtest_id,
        run_id=walk.run_id,
        day=day.day,
        state=DONE if day.reason is None else MISSING,
        reason=day.reason,
        screen_run_id=day.screen,
        trade_run_id=day.trade,
        cash=found.cash,
        equity=found.equity,
        exposure=float(gross) / found.equity if found.equity and found.equity > 0 else None,
        traded=_traded(
            session, walk.account, decision_time(earlier[-1].day, market.clock.exchange) if earlier else None, now
        ),
        orders=_states(orders, *runs),
        denials=dict(sorted(denied.items())),
        verdicts=_sorted(session.exec(select(Verdict.rating).where(col(Verdict.run_id).in_(runs))).all()),
        unpriced=[one.symbol for one in found.positions if one.priced_at is None],
        stale=[one.symbol for one in found.positions if one.priced_at and _is_stale(market, one.symbol, one.priced_at)],
    )


def _is_stale(market: MarketData, symbol: str, priced_at: dt.datetime) -> bool:
    return day_of(priced_at, symbol) < market.clock.session(exchange_code(symbol))


def _traded(session: Session, account: str, since: dt.datetime | None, now: dt.datetime) -> float:
    """Return the value of the fills after one market time, up to another."""
    fills = select(Fill).where(Fill.account == account, col(Fill.filled_at) <= now)
    if since is not None:
        fills = fills.where(col(Fill.filled_at) > since)
    return float(sum(map(worth_of_fill, session.exec(fills)), exact(0)))


def decided_before(session: Session, account: str, now: dt.datetime) -> Run | None:
    """A run on this day whose decision has become orders: a walk that was stopped then must not decide twice."""
    found = (
        select(Run)
        .join(Decision, col(Decision.run_id) == col(Run.id))
        .where(Run.account == account, Run.market_now == now, col(Decision.processed_at).is_not(None))
    )
    return session.exec(found.order_by(col(Run.created_at))).first()


def screened_before(session: Session, account: str, now: dt.datetime) -> Run | None:
    """A screen on this day that has ended well: a walk that was stopped had some ahead of its traders."""
    found = select(Run).where(Run.kind == RunKind.SCREEN, Run.account == account, Run.market_now == now)
    rows = session.exec(found.where(col(Run.state).in_(_ENDED_WELL)).order_by(col(Run.created_at))).all()
    return next((run for run in rows if budgets.cut_short(session, run.id) is None), None)


def _states(orders: Mapping[str | None, Sequence[_Order]], *runs: str | None) -> dict[str, int]:
    """runs: of one day; they may be one and the same."""
    return _sorted(one.state for run_id in set(runs) for one in orders.get(run_id, ()))


def _sorted(values: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(values).items()))


def backtest_figures(session: Session, run: Run) -> dict[str, Any]:
    """Return the figures of a backtest's summary: how far it came, its turns, and its result once it has one."""
    rows = backtest_rows(session, run.params["backtest"])
    result = session.exec(
        select(Step.result).where(
            Step.run_id == run.id, Step.kind == StepKind.BACKTEST_RESULT, Step.state == StepState.DONE
        )
    ).first()
    missing = [row for row in rows if row.state == MISSING]
    return {
        "sessions": len(rows),
        "missing": [{"day": row.day.isoformat(), "reason": row.reason} for row in missing],
        **spent(session, run.account),
        "backtest": result,
    }


def spent(session: Session, account: str) -> dict[str, Any]:
    turns, tokens = session.exec(
        select(func.count(), func.coalesce(func.sum(Turn.total_tokens), 0)).where(
            col(Turn.run_id).in_(runs_of_backtest(account)), was_run()
        )
    ).one()
    return {"turns": turns, "tokens": tokens}


def result_of(desk: Desk, walk: Walk) -> dict[str, Any]:
    """Return the result of a walk as JSON values. Money is in account currency, shares are fractions. The outcomes of
    verdicts are looked up in the sessions after their days, as far as the data go."""
    with desk.store.read() as session:
        rows = backtest_rows(session, walk.backtest_id)
        capital = session.get_one(Account, walk.account).opening_cash
        cost = _cost(session, walk)
        claims = _claims(session, walk.account)
        voices, waiting = _voices(voice_forecasts(session, walk.account)), _waiting(session, walk.account)
        fills = list(session.exec(select(Fill).where(Fill.account == walk.account)))
        trials = trials_of(session, walk.backtest_id, [row.day for row in rows])
        off = trading_off(session, walk) or blocked_rows(rows)
    blocked_by = {"blocked": off, "status": BLOCKED, "reason": off} if off is not None else {}
    if not rows:
        return {"sessions": 0, **blocked_by}
    days, horizon = [row.day for row in rows], walk.settings.question_sessions
    # So much later it is known which names have left the market.
    until = horizon + STALE_DAYS
    market = walk.market(desk, later_session(walk.market(desk, days[-1]), days[-1], until))
    closes = _closes(market, walk, days[0])
    found = _performance(walk, market, rows, capital, closes, fills, trials)
    return {
        **_curves(rows, closes.at(days), capital),
        "position_risk": walk.settings.position_risk,
        "costs": f"{walk.settings.slippage_bps:g} basis points against each fill, "
        f"{walk.settings.commission_per_share:g} a share",
        "question": QUESTION.format(sessions=horizon),
        **{name: [asdict(row) for row in hit_rates(found, closes, horizon)] for name, found in claims.items()},
        "rounds": walk.settings.rounds,
        "voices": voices,
        "forecasts_waiting": waiting,
        **cost,
        "performance": asdict(found),
        "conclusion": f"Blocked, and no result: {off}."
        if off is not None
        else conclusion(found, rules=walk.settings.provider == RULES),
        **blocked_by,
    }


def _closes(market: MarketData, walk: Walk, first: dt.date) -> CloseTable:
    assert isinstance(market, RecordedSessions)
    days = [day for day in market.recorded() if first <= day <= market.clock.session()]
    return closes_of(market, walk.symbols, days, walk.settings.delisted_pays)


def _curves(rows: Sequence[BacktestSession], closes: CloseTable, capital: float) -> dict[str, Any]:
    desk = [row.equity for row in rows]
    held, even = buy_and_hold(closes, capital), equal_weight(closes, capital)
    known = [value for value in desk if value is not None]
    exposures = [row.exposure for row in rows if row.exposure is not None]
    traded = sum(row.traded for row in rows)
    return {
        "sessions": len(rows),
        "missing": sum(row.state == MISSING for row in rows),
        "first": rows[0].day.isoformat(),
        "last": rows[-1].day.isoformat(),
        "capital": capital,
        "curve": [
            {"day": row.day.isoformat(), "equity": value, "held": round(one, 2), "equal_weight": round(other, 2)}
            for row, value, one, other in zip(rows, desk, held, even, strict=True)
        ],
        "returns": {
            "desk": known[-1] / capital - 1 if known else None,
            "held": held[-1] / capital - 1,
            "equal_weight": even[-1] / capital - 1,
        },
        "drawdown": {"desk": drawdown(desk), "held": drawdown(held), "equal_weight": drawdown(even)},
        "turnover": traded / (sum(known) / len(known)) if known else None,
        "exposure": sum(exposures) / len(exposures) if exposures else None,
        "orders": _summed(row.orders for row in rows),
        "denials": _summed(row.denials for row in rows),
        "verdicts": _summed(row.verdicts for row in rows),
    }


class Trial(NamedTuple):
    """Another backtest: its sessions, with equity and exposure of each."""

    days: Sequence[dt.date]
    equity: Sequence[float | None]
    exposure: Sequence[float | None]


LEAST_OVERLAP = 0.5


def overlap(days: Sequence[dt.date], others: Sequence[dt.date]) -> float:
    """Return the share of the days from the first to the last one that lies between the first and the last of others:
    sessions that only one of two backtests visits belong to both."""
    first, last = max(days[0], others[0]), min(days[-1], others[-1])
    return max(0, (last - first).days + 1) / ((days[-1] - days[0]).days + 1)


def trials_of(session: Session, backtest_id: str, days: Sequence[dt.date]) -> list[Trial]:
    """Return the other backtests of the same market that are trials of one of these days: whose sessions overlap with
    at least half of them, arms of experiments too, whatever names and settings they had. A course that is the same
    counts once. None is a backtest that has not ended, was stopped or failed, or ended as partial: of what was blocked
    or cut short nothing was chosen."""
    own = session.get_one(Run, backtest_id)
    query = select(Run.id).where(
        Run.kind == RunKind.BACKTEST, Run.market == own.market, Run.id != backtest_id, Run.state == RunState.DONE
    )
    mine, found = _trial(backtest_rows(session, backtest_id)), dict[Hashable, Trial]()
    for other in session.exec(query.order_by(col(Run.created_at))).all():
        rows = backtest_rows(session, other)
        if blocked(session, other, rows) is not None:
            continue
        trial = _trial(rows)
        if trial.days and overlap(days, trial.days) >= LEAST_OVERLAP:
            found.setdefault((*trial.days, *trial.equity), trial)
    found.pop((*mine.days, *mine.equity), None)
    return list(found.values())


def _trial(rows: Sequence[BacktestSession]) -> Trial:
    return Trial([row.day for row in rows], [row.equity for row in rows], [row.exposure for row in rows])


def _performance(
    walk: Walk, market: MarketData, rows: Sequence[BacktestSession], capital: float, closes: CloseTable,
    fills: Sequence[Fill], trials: Sequence[Trial],
) -> Performance:  # fmt: skip
    days, slippage = [row.day for row in rows], walk.settings.slippage_bps / 10_000
    rate = walk.settings.risk_free_rate
    visited, last = closes.at(days), list(closes.days).index(days[-1])
    whole = closes.until(last)
    fees = [0.0] * len(rows)
    for fill in fills:
        day = day_of(fill.filled_at, fill.symbol)
        fees[min(bisect.bisect_left(days, day), len(rows) - 1)] += float(costs_of(fill))
    course = course_of(
        [row.equity for row in rows],
        [row.exposure for row in rows],
        [row.traded for row in rows],
        [row.traded * slippage + fee for row, fee in zip(rows, fees, strict=True)],
        buy_and_hold(visited, capital),
        equal_weight(visited, capital),
        _sessions_a_step(market, days),
        rate,
    )
    same, other = list[Floats](), list[Floats]()
    for trial in trials:
        steps = _sessions_a_step(market, trial.days)
        excess = excess_of(trial.equity, trial.exposure, steps, rate)
        (same if list(trial.days) == days and len(excess) == len(course.desk) else other).append(excess)
    return performance(
        course,
        random_entry(lots_of(fills, whole, _actions(market, fills)), whole, slippage),
        capacities_of(fills, volumes_of(market, fills), capital, walk.settings.paper_volume_share),
        same,
        other,
    )


def _sessions_a_step(market: MarketData, days: Sequence[dt.date]) -> float:
    """Return the sessions of a step, as of a year of 252: pairs have 365 in one."""
    assert isinstance(market, RecordedSessions)
    known = market.recorded()
    between = bisect.bisect_left(known, days[-1]) - bisect.bisect_left(known, days[0])
    steps = max(1, between) / max(1, len(days) - 1)
    return steps * (SESSIONS_A_YEAR / EXCHANGES[market.clock.exchange].days_a_year)


def _actions(market: MarketData, fills: Sequence[Fill]) -> dict[str, Sequence[Action]]:
    first: dict[str, dt.date] = {}
    for fill in sorted(fills, key=lambda one: one.filled_at):
        first.setdefault(fill.symbol, day_of(fill.filled_at, fill.symbol))
    return {symbol: actions_of(market, symbol, since) for symbol, since in first.items()}


def _summed(counts: Iterable[dict[str, int]]) -> dict[str, int]:
    return dict(sorted(sum(map(Counter, counts), Counter[str]()).items()))


def _cost(session: Session, walk: Walk) -> dict[str, Any]:
    """Return turns, tokens and commissions, and the estimated price of all turns; None where no price is known. Duties
    are named where there are any."""
    own = Fill.account == walk.account
    fees = session.exec(select(func.sum(Fill.commission)).where(own)).one() or 0.0
    duties = float(sum(map(duties_sum, session.exec(select(Fill.duties).where(own))), exact(0)))
    taxed = {"duties": duties} if duties else {}
    return {
        **spent(session, walk.account),
        "commission": fees,
        **taxed,
        "usd": cost_of(session, walk.settings, walk.run_id).usd,
    }


def _claims(session: Session, account: str) -> dict[str, list[Claim]]:
    """Ratings by verdict and confidence, stances by role, lenses; not of runs that were stopped."""
    own = col(Run.account).in_((account, research_account(account))), Run.state != RunState.STOPPED
    verdicts = session.exec(
        select(Verdict.rating, Verdict.confidence, Verdict.symbol, Run.market_now)
        .join(Run, col(Run.id) == col(Verdict.run_id))
        .where(*own)
    ).all()
    reports = session.exec(
        select(Report.role, Report.verdict, Report.symbol, Run.market_now)
        .join(Run, col(Run.id) == col(Report.run_id))
        .where(*own, Report.status == ReportStatus.COMPLETED)
    ).all()
    hits = session.exec(
        select(lens_title(), ScreenHit.symbol, Run.market_now)
        .join(Run, col(Run.id) == col(ScreenHit.run_id))
        .where(*own)
    ).all()
    return {
        "ratings": [Claim(rating, symbol, day_of(at, symbol)) for rating, _, symbol, at in verdicts],
        "confidences": [Claim(f"{rating} {sure}", symbol, day_of(at, symbol)) for rating, sure, symbol, at in verdicts],
        "roles": [Claim(f"{role} {stance}", symbol, day_of(at, symbol)) for role, stance, symbol, at in reports],
        "lenses": [Claim(lens, symbol, day_of(at, symbol)) for lens, symbol, at in hits],
    }


def _waiting(session: Session, account: str) -> int:
    asked = select(func.count()).select_from(Forecast).join(Question, col(Question.id) == col(Forecast.question_id))
    return session.exec(asked.where(Forecast.account == account, Question.state == QuestionState.OPEN)).one()


def _voices(forecasts: Sequence[ScoredForecast]) -> list[dict[str, Any]]:
    found = []
    for voice in sorted({one.source for one in forecasts}):
        own = score([one for one in forecasts if one.source == voice])
        if own is not None:
            figures = {"brier": own.brier.mean, "alpha": own.alpha.mean, "low": own.alpha.low, "high": own.alpha.high}
            found.append({"voice": voice, "questions": own.questions, "dates": own.alpha.dates, **figures})
    return found
