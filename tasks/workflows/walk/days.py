"""The runs of one day of a backtest: a screen on the market as it was then, and its trader.

Where nothing of one day feeds the next, the screens of several days run beside each other on an account that is always
empty, and the traders in order on the account of the backtest. With memory or rounds a day is one whole screen on that
account, as the desk itself would have run it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlmodel import Session, col, select

from chordesk.models.settings import Settings
from chordesk.models.settings.accounts import research_account
from chordesk.models.settings.snapshots import with_values
from chordesk.models.states import RunKind, StepKind
from chordesk.models.tables.orders import Position
from chordesk.models.tables.runs import Candidate, Run, Verdict
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine.child_runs import ChildRun
from chordesk.tasks.engine.steps import NewStep
from chordesk.tasks.workflows.portfolio.schedule import SCREENED
from chordesk.tasks.workflows.research import all_roles, candidate_steps, researchers, unscreened
from chordesk.tasks.workflows.runs import new_run
from chordesk.tasks.workflows.screen import screen_params
from chordesk.tools.ledger import ensure_account
from chordesk.tools.market.protocol import ClosedSet, MarketData
from chordesk.tools.market.quotes import share_of
from chordesk.tools.risk import underlying_of

# Real minutes mean nothing in a walk: a session of it takes seconds.
_NO_RATE = 1_000_000


def settings_of_walk(settings: Settings, memory: str, rounds: int, universe: str | None) -> Settings:
    """Return the settings of a backtest's runs: the desk's own with paper as the broker, orders sent without a person,
    and no limit by real time."""
    asked = {"memory": memory, "rounds": rounds, **({"universe": universe} if universe else {})}
    always = {"broker": "paper", "trader_live": True, "approval": "auto", "max_orders_per_minute": _NO_RATE}
    return with_values(settings, {**asked, **always})


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
        """Return the market of one day. Raises SettingError when the data lack it."""
        return desk.market_on(self.run_id, day)

    def screen(self, desk: Desk, day: dt.date, parent_step: str) -> ChildRun:
        """Return the screen of a day, for which a step waits."""
        market = self.market(desk, day)
        later = set(market.unknown(self.symbols)) if isinstance(market, ClosedSet) else set[str]()
        known = [symbol for symbol in self.symbols if symbol not in later]
        params = {**screen_params(self.settings, known), "trade": not self.parallel}
        account = research_account(self.account) if self.parallel else self.account
        run = self._run(desk, RunKind.SCREEN, params, account, market, self.run_id)

        def write(session: Session, row: Run, finish: str) -> list[NewStep]:
            ensure_account(session, account, self.settings.starting_cash)
            return [NewStep(StepKind.SCREEN, finish)]

        return ChildRun(run, write, parent_step)

    def trade(self, desk: Desk, day: dt.date, screen: str, parent_step: str) -> ChildRun:
        """Return the trade on a screen's verdicts, for which a step waits. What is held and was not screened is
        researched in it first, as a screen of that account would have done."""
        market = self.market(desk, day)
        params = {"source_run": screen, **researchers(self.settings)}
        run = self._run(desk, RunKind.TRADE, params, self.account, market, screen)

        def write(session: Session, row: Run, finish: str) -> list[NewStep]:
            capital = ensure_account(session, self.account, self.settings.starting_cash).cash
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
