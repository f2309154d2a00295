"""Orders at other exchanges: steps, lots, the range of a day, and shares that are not sold on the day of purchase."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal

import numpy as np
import pytest

from chordesk.models.day_limits import DAY_LIMITS
from chordesk.models.exchanges import EXCHANGES
from chordesk.models.market import Listing
from chordesk.models.orders import DenialCode
from chordesk.models.states import OrderState
from chordesk.models.tables.runs import Run
from chordesk.tasks.reading.runs import view
from chordesk.tools.brokers.paper_matching import locked_side
from chordesk.tools.market.clock import LiveClock
from chordesk.tools.market.price_steps import day_band, listing_terms, market_terms
from chordesk.tools.market.protocol import Bars
from chordesk.tools.orders.flow import maintain_orders
from tests.tools.orders.abroad import TapeAbroad
from tests.tools.orders.desk import Desk, action, denied
from tests.tools.orders.protection.watch import a_pass, stops

NewDesk = Callable[..., Desk]
SHANGHAI, TOKYO = "600519.SS", "7203.T"
RATES: dict[str, tuple[float, dt.datetime | None]] = {
    "CNYUSD": (0.14, None), "JPYUSD": (0.0065, None), "GBPUSD": (1.3, None)
}  # fmt: skip


@dataclass
class TapeWithCloses(TapeAbroad):
    """closes: the days before, the last of them the close before today."""

    closes: dict[str, list[float]] = field(default_factory=dict)

    def bars(self, symbol: str, sessions: int) -> Bars:
        if symbol not in self.closes:
            return super().bars(symbol, sessions)
        kept = self.closes[symbol][-sessions:]
        days = [self.clock.at.date() - dt.timedelta(days=back) for back in range(len(kept), 0, -1)]
        price, volume = np.array(kept), np.full(len(kept), 1e6)
        return Bars(symbol, days, False, price.copy(), price.copy(), price.copy(), price, volume)


def _market(price: float, symbol: str, close: float) -> TapeWithCloses:
    return TapeWithCloses({symbol: price}, rates=dict(RATES), closes={symbol: [close]})


@pytest.mark.parametrize(
    ("symbol", "close", "low", "high"),
    [
        (SHANGHAI, 10.05, "9.05", "11.06"),  # 9.045 and 11.055 to the nearest step
        ("688981.SS", 10.0, "8", "12"),
        ("300750.SZ", 10.0, "8", "12"),
        ("000001.SZ", 10.0, "9", "11"),
        ("005930.KS", 70_100.0, "49100", "91100"),  # 49,070 and 91,130, inwards to steps of 100
        (TOKYO, 2_999.0, "2499", "3495"),  # up to 3,499 in steps of 5
        (TOKYO, 99.0, "69", "129"),
    ],
)
def test_a_price_is_within_the_range_of_its_day(symbol: str, close: float, low: str, high: str) -> None:
    band = day_band(symbol, [close])
    assert band is not None
    assert (band.low, band.high) == (Decimal(low), Decimal(high))


def test_what_has_no_limit_has_no_range() -> None:
    assert [day_band(symbol, [10.0]) for symbol in ("AAPL", "AZN.L", "BTC-USD")] == [None] * 3
    assert day_band(SHANGHAI, []) is None
    assert all(row.source and set(row.exchanges) <= EXCHANGES.keys() for row in DAY_LIMITS)


def test_a_limit_is_a_price_of_the_exchange_and_within_its_day(new_desk: NewDesk) -> None:
    desk = new_desk(_market(3_000.0, TOKYO, 3_000.0), max_price_collar=1)
    (order,) = desk.run(action(TOKYO, quantity=250, orderType="limit", limitPrice=3_012.0))
    assert (order.limit_price, order.quantity) == (3_010.0, 200)  # steps of 5 above 3,000, and lots of 100
    assert "limit price JPY 3,010.00, a price of the exchange" in (order.message or "")
    reason = denied(
        desk.run(action(TOKYO, "add", quantity=100, orderType="limit", limitPrice=3_705.0))[0], DenialCode.DAY_LIMIT
    )
    assert "give JPY 2,300.00 to JPY 3,700.00" in reason  # 700 yen either way from 3,000


def test_nobody_sells_at_the_highest_price_of_the_day(new_desk: NewDesk) -> None:
    band = day_band(SHANGHAI, [10.0])
    ends = [locked_side(band, Decimal(low), Decimal(high)) for low, high in (("11", "11"), ("9", "9"), ("9.5", "11"))]
    assert ends == ["buy", "sell", ""]
    desk = new_desk(_market(11.0, SHANGHAI, 10.0))
    (order,) = desk.run(action(SHANGHAI, quantity=100))
    assert order.state == OrderState.SUBMITTED
    assert "at the limit of its day" in (order.message or "")


def test_shares_of_shanghai_are_sold_from_the_next_session_on(new_desk: NewDesk) -> None:
    market = _market(10.0, SHANGHAI, 10.0)
    desk = new_desk(market, protect="stop:5%")
    assert desk.run(action(SHANGHAI, quantity=200))[0].state == OrderState.FILLED
    reason = denied(desk.run(action(SHANGHAI, "close", quantity=200))[0], DenialCode.SAME_DAY)
    assert "200 600519.SS were bought today, and are sold in Shanghai from the next session on" in reason
    market.prices[SHANGHAI] = 9.2  # below the stop, which waits
    market.clock.at += dt.timedelta(minutes=1)
    maintain_orders(desk.context())
    assert desk.positions() == {SHANGHAI: 200}
    market.clock.at += dt.timedelta(days=1)
    market.closes[SHANGHAI].append(9.2)
    maintain_orders(desk.context())
    assert desk.positions() == {}


def _in_london() -> TapeWithCloses:
    """Prices of BP.L that fit one of London's tables alone, which is not its coarsest."""
    market = _market(13.034, "BP.L", 13.032)
    market.listings["BP.L"] = Listing(symbol="BP.L", currency="GBP", lot=1)
    return market


@pytest.mark.parametrize(("protect", "stop"), [("stop:8%", 11.992), ("trail:5%", 12.384)])
def test_the_stop_of_a_preview_is_the_one_that_is_sent(new_desk: NewDesk, protect: str, stop: float) -> None:
    desk = new_desk(_in_london(), protect=protect)
    (order,) = desk.run(action("BP.L", quantity=100))
    a_pass(desk)
    assert [sent.stop_price for sent in stops(desk)] == [stop]
    assert f" {stop}," in (order.protection or "")
    with desk.store.read() as session:
        (row,) = view(session, session.get_one(Run, order.run_id)).actions
    assert f" GBP {stop}," in (row.protection or "")


def test_a_stop_at_other_steps_than_were_previewed_is_decided_anew(new_desk: NewDesk) -> None:
    market = _in_london()
    desk = new_desk(market, protect="stop:8%")
    decision = desk.decide(action("BP.L", quantity=100))
    desk.process(decision, trader_live=False)
    market.closes["BP.L"] = [13.035, 13.03]
    (order,) = desk.process(decision)
    assert denied(order, DenialCode.PREVIEW_STALE).endswith("decide anew")
    assert (order.measured, order.limit_text) == ("stop 11.995", "stop 11.992")


@pytest.mark.parametrize(
    ("listing", "prices", "lot", "least", "part", "opens"),
    [
        (Listing(symbol="AZN.L", lot=1), ["100.05", "100.1"], 1, 1, "1", True),
        (Listing(symbol="AZN.L", lot=1), [], 1, 1, "1", False),
        (Listing(symbol="AZN.L", lot=1, price_step="0.02"), [], 1, 1, "1", True),
        (Listing(symbol="0700.HK"), [], 1, 1, "1", False),
        (Listing(symbol="0700.HK", lot=100), [], 100, 100, "1", True),
        (Listing(symbol="688981.SS"), [], 1, 200, "1", True),
        (
            Listing(symbol="BTC-USD", price_step="0.01", quantity_step="0.0001", least_amount="0.001"),
            [], "0.0001", "0.001", "0.0001", True,
        ),
    ],
)  # fmt: skip
def test_a_listing_states_its_own_terms(listing, prices, lot, least, part, opens) -> None:
    found = listing_terms(listing, map(Decimal, prices))
    assert (found.lot, found.least, found.part) == (Decimal(lot), Decimal(least), Decimal(part))
    assert (found.why_not is None) == opens
    assert found.quantity(found.least * Decimal("1.0001"), opens=True) == found.least
    assert found.quantity(found.least - Decimal(part) / 2, opens=True) == 0


def test_steps_are_those_that_a_month_of_prices_fits() -> None:
    market = TapeWithCloses({"AZN.L": 91.0}, closes={"AZN.L": [91.02, 91.0, 91.06]})
    terms = market_terms(market, Listing(symbol="AZN.L", lot=1))
    assert terms.why_not is None
    assert terms.price(Decimal("91.031"), ROUND_CEILING) == Decimal("91.04")
    coarse = TapeWithCloses({"SHIB-USD": 0.0000123}, closes={"SHIB-USD": [0.0000123]})
    why = market_terms(coarse, Listing(symbol="SHIB-USD", lot=1, price_step="0.01")).why_not or ""
    assert why.startswith("the price step of SHIB-USD is stated as 0.01, above its price of 0.0000123; put step right")
    adjusted = TapeWithCloses({"AZN.L": 91.0}, closes={"AZN.L": [91.0213]})
    assert "state step in listings.csv" in (market_terms(adjusted, Listing(symbol="AZN.L", lot=1)).why_not or "")


def test_a_stop_is_at_the_steps_of_its_listing(new_desk: NewDesk) -> None:
    """Of London's tables, which the symbol does not tell, the coarsest would have it at 87.40."""
    listed = {"AZN.L": Listing(symbol="AZN.L", lot=1, price_step="0.02", currency="GBP", exchange="XLON")}
    market = TapeAbroad({"AZN.L": 91.0}, rates={"GBPUSD": (1.25, None)}, listings=listed)
    desk = new_desk(market, protect="stop:4%")
    (bought,) = desk.run(action("AZN.L", quantity=10))
    assert bought.state == OrderState.FILLED
    a_pass(desk)
    assert [order.stop_price for order in stops(desk)] == [87.36]
    a_pass(desk)
    assert [order.stop_price for order in stops(desk)] == [87.36], "and it is not replaced"


def test_what_is_left_of_a_step_of_a_pair_is_in_no_stop_and_in_no_sale(new_desk: NewDesk) -> None:
    """As where a venue takes its fee out of the coins that were bought."""
    step = {"price_step": 0.5, "quantity_step": "0.001", "lot": "0.001"}
    market = TapeAbroad({"BTC-USD": 97.5}, listings={"BTC-USD": Listing.model_validate({"symbol": "BTC-USD", **step})})
    desk = new_desk(market, protect="stop:8%")
    desk.hold("BTC-USD", 1.23456, 97.5)
    a_pass(desk)
    assert [(order.stop_price, order.quantity) for order in stops(desk)] == [(90.0, 1.234)]
    a_pass(desk)
    assert len(stops(desk)) == 1, "it is the one that ought to stand"
    orders, left = desk.flatten(desk.context(), "a test", "enough")
    assert ([(row.state, row.quantity) for row in orders], left) == ([("filled", 1.234)], [])
    assert desk.positions() == {"BTC-USD": pytest.approx(0.00056)}
    assert desk.flatten(desk.context(), "a test", "enough") == ([], [])


class _StoppedClock(LiveClock):
    """Real hours at a moment that stands still."""

    def __init__(self, at: dt.datetime) -> None:
        super().__init__("XTKS")
        self.at = at

    def now(self) -> dt.datetime:
        return self.at


@pytest.mark.parametrize(
    ("time", "says"), [("11:29", None), ("11:45", "next open 2026-11-26 12:30 JST"), ("12:30", None)]
)
def test_no_order_of_the_day_is_taken_in_a_lunch_break(new_desk: NewDesk, time: str, says: str | None) -> None:
    at = dt.datetime.fromisoformat(f"2026-11-26T{time}:00+09:00")
    market = TapeAbroad({TOKYO: 3_000.0}, clock=_StoppedClock(at), rates=dict(RATES))  # type: ignore[arg-type]
    (order,) = new_desk(market).run(action(TOKYO, quantity=100))
    if says is None:
        assert order.state == OrderState.FILLED
    else:
        assert says in denied(order, DenialCode.MARKET_CLOSED)
