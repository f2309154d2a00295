"""The pass on a market of real time: one batch of prices, old quotes, a market that is away, a pass without time."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from chordesk.models.alerts.tables import AlertsAlert, AlertsPass, AlertsState
from chordesk.models.errors import MarketError, MarketUnavailable
from chordesk.models.market import Headline, Listing, Quote
from chordesk.tasks.alerts import alert_pass
from chordesk.tasks.alerts.checks import alerts
from chordesk.tasks.doctor.check import CheckContext
from chordesk.tools.alerts.keeping import remove, watch
from chordesk.tools.market.clock import exchange_hours
from chordesk.tools.market.protocol import Bars
from tests.tasks.alerts.conftest import Watched
from tests.tasks.alerts.test_alert_pass import firings

MONDAY = dt.datetime(2026, 11, 23, 15, tzinfo=dt.UTC)  # 10:00 in New York


class LiveClock:
    """Real time, as a test sets it."""

    day, exchange, at = None, "XNYS", MONDAY

    def now(self) -> dt.datetime:
        return self.at

    def is_open(self, exchange: str | None = None) -> bool:
        return exchange_hours("XNYS").is_open(self.at)

    def next_open(self, exchange: str | None = None) -> dt.datetime:
        return exchange_hours("XNYS").next_open(self.at)

    def session(self, exchange: str | None = None) -> dt.date:
        return exchange_hours("XNYS").last_closed(self.at)


class LiveMarket:
    """The far side: prices as a test sets them, and what was asked of it."""

    name = "live"

    def __init__(self, prices: dict[str, float]) -> None:
        self.clock, self.prices, self.age, self.away = LiveClock(), prices, dt.timedelta(), False
        self.batches: list[list[str]] = []
        self.headed: list[str] = []

    def prefetch(self, symbols: Sequence[str], seconds: float) -> None:
        self.batches.append(list(symbols))

    def quote(self, symbol: str) -> Quote:
        if self.away:
            raise MarketUnavailable("it does not answer")
        if symbol not in self.prices:
            raise MarketError(f"{symbol} is unknown")
        return Quote(symbol=symbol, price=self.prices[symbol], at=self.clock.now() - self.age, source="test")

    def bars(self, symbol: str, sessions: int) -> Bars:
        days = exchange_hours("XNYS").until(self.clock.session(), sessions)
        return Bars(symbol, list(days), False, *(np.full(len(days), 100.0) for _ in range(5)))

    def headlines(self, symbol: str, limit: int) -> list[Headline]:
        self.headed.append(symbol)
        return [Headline(symbol=symbol, headline=f"{symbol} merges", source="a wire", published_at=self.clock.now())]

    def universe(self, name: str) -> list[Listing]:
        return []

    def listing(self, symbol: str) -> Listing:
        return Listing(symbol=symbol)

    def sessions(self, count: int) -> Sequence[dt.date]:
        return exchange_hours("XNYS").until(self.clock.session(), count)

    def section(self, symbol: str, section: str) -> dict[str, float | str | None]:
        return {}


@pytest.fixture
def live(watched: Callable[..., Watched], monkeypatch: pytest.MonkeyPatch) -> tuple[Watched, LiveMarket]:
    desk, market = watched(), LiveMarket({"IBM": 100.0, "KO": 100.0})
    monkeypatch.setattr(desk.app.desk, "account_market", lambda: market)
    return desk, market


def ahead(market: LiveMarket, desk: Watched, **time: int) -> dict[str, int]:
    market.clock.at += dt.timedelta(**time)
    return desk.look()


def test_a_pass_asks_once_for_all_prices_and_fires_at_a_crossing(live: tuple[Watched, LiveMarket]) -> None:
    desk, market = live
    desk.add("over", "price above 105", "IBM", for_minutes=2)
    desk.add("falls", "move down 3%", "KO")
    desk.look()
    assert [sorted(batch) for batch in market.batches] == [["IBM", "KO"]]
    market.prices = {"IBM": 105.0, "KO": 96.0}
    assert ahead(market, desk, minutes=1)["fired"] == 1
    assert ahead(market, desk, minutes=1)["fired"] == 0
    assert ahead(market, desk, minutes=1)["fired"] == 1
    assert [(one.alert, one.symbol, one.slot) for one in firings(desk.app.desk.store)] == [
        ("falls", "KO", "2026-11-23:1"), ("over", "IBM", "2026-11-23:1")
    ]  # fmt: skip


def test_an_old_quote_or_a_move_like_a_split_is_no_look(live: tuple[Watched, LiveMarket]) -> None:
    desk, market = live
    desk.add("under", "price below 60", "IBM")
    desk.look()
    for market.prices["IBM"], market.age in ((59.0, dt.timedelta(hours=1)), (50.0, dt.timedelta())):
        assert ahead(market, desk, minutes=1) == {"looked": 1, "fired": 0, "left": 0, "failed": 0, "started": 0}
    with desk.app.desk.store.read() as session:
        state = session.get_one(AlertsState, ("under", "IBM"))
    assert state.armed
    assert "moved like a 2:1 split" in str(state.unknown_why)
    market.prices["IBM"] = 59.0
    assert ahead(market, desk, minutes=1)["fired"] == 1


def test_an_alert_written_again_under_its_name_fires_again_on_the_same_day(live: tuple[Watched, LiveMarket]) -> None:
    desk, market = live
    for _ in range(2):
        market.prices["IBM"] = 100.0
        desk.add("over", "price above 105", "IBM")
        ahead(market, desk, minutes=1)
        market.prices["IBM"] = 106.0
        assert ahead(market, desk, minutes=1)["fired"] == 1
        with desk.app.desk.store.session() as session:
            remove(session, desk.app.desk.settings, "over", "ann")
    assert [one.slot for one in firings(desk.app.desk.store)] == ["2026-11-23:1", "2026-11-23:2"]


def test_a_look_that_fails_stops_no_other_and_the_doctor_says_it(live: tuple[Watched, LiveMarket]) -> None:
    desk, market = live
    desk.add("a", "price above 105", "IBM")
    desk.add("b", "price above 105", "KO")
    desk.add("c", "price above 105", "KO")
    desk.look()
    with desk.app.desk.store.session() as session:
        session.get_one(AlertsAlert, "c").condition = "price over 105"  # as of a version that wrote it otherwise
    market.prices = {"IBM": "none", "KO": 106.0}  # type: ignore[dict-item]
    assert ahead(market, desk, minutes=1)["fired"] == 1
    assert [one.alert for one in firings(desk.app.desk.store)] == ["b"]
    said = alerts(CheckContext(desk.app.desk.settings, desk.app.desk)).detail
    assert "a on IBM: no data since 2026-11-23: the look failed: " in said
    assert "c: 'price over 105' lacks" in said


def test_nothing_is_looked_at_while_the_exchange_is_closed(live: tuple[Watched, LiveMarket]) -> None:
    desk, market = live
    desk.add("over", "price above 105", "IBM")
    desk.look()
    market.prices["IBM"] = 110.0
    assert ahead(market, desk, hours=8)["looked"] == 0
    assert ahead(market, desk, hours=16)["fired"] == 1, "over the gap of the night"


def test_a_market_that_is_away_is_left_alone_for_five_minutes(live: tuple[Watched, LiveMarket]) -> None:
    desk, market = live
    desk.add("a", "price above 105", "IBM")
    desk.add("b", "price above 105", "KO")
    market.away = True
    assert desk.look()["looked"] == 1
    market.away = False
    assert ahead(market, desk, minutes=1)["looked"] == 0
    with desk.app.desk.store.session() as session:
        session.get_one(AlertsPass, "alerts").left_until = None
    assert ahead(market, desk, minutes=5)["looked"] == 2


def test_what_a_pass_did_not_come_to_is_first_in_the_next(
    live: tuple[Watched, LiveMarket], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk, _ = live
    desk.add("a", "price above 105", "IBM")
    desk.add("b", "price above 105", "KO")
    monkeypatch.setattr(alert_pass, "PASS_SECONDS", -1.0)
    assert desk.look()["left"] == 2
    monkeypatch.setattr(alert_pass, "PASS_SECONDS", 30.0)
    desk.look()
    with desk.app.desk.store.read() as session:
        first, second = (session.get_one(AlertsState, one).looked_at for one in (("a", "IBM"), ("b", "KO")))
    assert first < second


def test_news_are_asked_for_twenty_symbols_a_pass_and_each_seldom(live: tuple[Watched, LiveMarket]) -> None:
    desk, market = live
    with desk.app.desk.store.session() as session:
        names = [f"A{number}" for number in range(30)]
        watch(session, desk.app.desk.settings, "many", names, "ann", market)
    desk.add("merger", "headline merges", "watchlist:many")
    for _ in range(3):
        desk.look()
    assert len(market.headed) == 30
    assert set(market.headed[:20]).isdisjoint(market.headed[20:])
    assert firings(desk.app.desk.store) == [], "a first look only remembers"
