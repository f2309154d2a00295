"""Options as they reach an order: puts sold against free cash, and all that is not traded."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chordesk.models.market import Quote
from chordesk.models.orders import DenialCode
from tests.tools.orders.desk import Desk, action, denied
from tests.tools.orders.tape import Tape
from tests.tools.risk.test_gathering import PREVIEWED, replayed

NewDesk = Callable[..., Desk]
PUT = "AAA100918P00090000"


class Options(Tape):
    """A tape that prices contracts too."""

    def option_quote(self, contract: str) -> Quote:
        return self.quote(contract)


def option(kind: str = "open", side: str = "sell", **changes: Any) -> dict[str, Any]:
    base = {"side": side, "quantity": 1.0, "orderType": "limit", "limitPrice": 2.0, "contract": PUT}
    return action(**{"symbol": "AAA", "kind": kind, **base, **changes})


def test_a_put_is_sold_against_free_cash_alone(new_desk: NewDesk) -> None:
    market = Options({"AAA": 100.0, "BBB": 500.0, PUT: 2.0})
    allowed = {"stock_only": False, "options_mode": "both", "max_symbol_share": 1}
    desk = new_desk(market, trader_live=False, starting_cash=9_000, **allowed)
    desk.hold("BBB", 100)
    (sold,) = desk.run(option(), instrument="option")
    assert sold.state == PREVIEWED
    order = desk.orders()[0]
    assert (order.contract, order.multiplier, order.symbol, order.side) == (PUT, 100, "AAA", "sell")
    poor = new_desk(market, trader_live=False, starting_cash=8_999.99, **allowed)
    poor.hold("BBB", 100)
    assert "cash" in denied(poor.run(option(), instrument="option")[0], DenialCode.CASH_SECURED)
    first, second = desk.run(option(), option("add"), instrument="option")
    assert first.state == PREVIEWED
    denied(second, DenialCode.CASH_SECURED)


OPTION_DENIALS: list[tuple[dict[str, Any], DenialCode]] = [
    ({"contract": "AAPL"}, DenialCode.OPTION_CONTRACT),
    ({"contract": "AAA100918P00080000"}, DenialCode.UNPRICED),
    ({"limitPrice": 2.11}, DenialCode.COLLAR),
    ({"quantity": None, "notional": 9_000.0}, DenialCode.MALFORMED),
    ({"quantity": 0.5}, DenialCode.MALFORMED),
    ({"contract": "TOOLONGFORANOCCSYMBOL1"}, DenialCode.MALFORMED),
]


@pytest.mark.parametrize(("changes", "code"), OPTION_DENIALS)
def test_options_that_are_not_traded(new_desk: NewDesk, changes: dict[str, Any], code: DenialCode) -> None:
    market = Options({"AAA": 100.0, PUT: 2.0, "AAA100918C00090000": 2.0})
    desk = new_desk(market, trader_live=False, stock_only=False, options_mode="both")
    denied(desk.run(option(**changes), instrument="option")[0], code)


def test_a_limit_far_from_a_contracts_quotes_is_denied_with_their_middle(new_desk: NewDesk) -> None:
    class Spread(Options):
        def option_quote(self, contract: str) -> Quote:
            return self.quote(contract).model_copy(update={"bid": 0.2, "ask": 0.25})

    market = Spread({"AAA": 100.0, PUT: 0.225})
    desk = new_desk(market, trader_live=False, stock_only=False, options_mode="both")
    reason = denied(desk.run(option(limitPrice=0.2), instrument="option")[0], DenialCode.COLLAR)
    assert f"the limit of 0.20 is far from the middle of the quotes of {PUT}, 0.225" in reason


def test_options_need_a_market_that_prices_them_and_leave_to_trade_them(new_desk: NewDesk) -> None:
    plain = new_desk(Tape({"AAA": 100.0, PUT: 2.0}), trader_live=False, stock_only=False, options_mode="both")
    assert "the tape market has no option quotes" in denied(plain.run(option())[0], DenialCode.UNPRICED)
    stocks = new_desk(Options({"AAA": 100.0, PUT: 2.0}), trader_live=False)
    denied(stocks.run(option())[0], DenialCode.STOCKS_ONLY)


def test_the_replay_market_reports_that_it_has_no_option_quotes(new_desk: NewDesk, tmp_path: Path) -> None:
    desk = replayed(new_desk, tmp_path, stock_only=False, options_mode="both")
    put = option(symbol="AAPL", contract="AAPL100918P00230000")
    assert denied(desk.run(put, market="replay")[0], DenialCode.UNPRICED) == (
        "AAPL100918P00230000 has no price: not available: the replay market has no option quotes; "
        "configure DESK_MARKET=yahoo for them"
    )


@pytest.mark.parametrize(("days", "state"), [(0, "filled"), (1, "denied")])
def test_a_written_put_can_be_bought_back_until_its_last_day_is_over(new_desk: NewDesk, days: int, state: str) -> None:
    ends = "AAA100812P00090000"
    market = Options({"AAA": 100.0, ends: 2.0})
    desk = new_desk(market, stock_only=False, options_mode="both", max_symbol_share=1)
    desk.hold(ends, -1, 2.0)
    market.clock.at += dt.timedelta(days=days)
    (order,) = desk.run(option("close", "buy", contract=ends), instrument="option")
    assert order.state == state
    if state == "denied":
        assert "expires on 2010-08-12" in denied(order, DenialCode.OPTION_CONTRACT)


def test_more_than_is_held_is_not_bought_back_on_the_last_day(new_desk: NewDesk) -> None:
    ends = "AAA100812P00090000"
    desk = new_desk(Options({"AAA": 100.0, ends: 2.0}), stock_only=False, options_mode="both", max_symbol_share=1)
    desk.hold(ends, -1, 2.0)
    (order,) = desk.run(option("close", "buy", contract=ends, quantity=2.0), instrument="option")
    denied(order, DenialCode.OPTION_CONTRACT)
