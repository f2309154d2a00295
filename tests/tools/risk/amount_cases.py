"""Cases of amounts, prices and losses."""

from __future__ import annotations

import datetime as dt

from chordesk.models.money import FxRate
from chordesk.models.orders import DenialCode
from tests.tools.risk.cases import (
    OPTION,
    OPTIONS,
    SECOND,
    SELL,
    SELL_PUT,
    SHORT,
    SHORT_PUT,
    SMALL,
    TECH,
    Case,
    limit,
    quoted,
    stop_limit,
)
from tests.tools.risk.figures import NOW, PUT, account, held, reserve

DAY = dt.timedelta(days=1)
POUNDS = held("AZN.L", 10).model_copy(update={"currency": "GBP", "missing": "no rate of GBPUSD is known"})
RATE = FxRate("GBP", "USD", 1.3, NOW, "fx.csv")

AMOUNTS: list[Case] = [
    (
        DenialCode.NOTIONAL_PER_ORDER,
        ({"quantity": 3}, {"price": 0.1001}, {"max_order_notional": 0.3}),
        ({"quantity": 3}, {"price": 0.1}, {"max_order_notional": 0.3}),  # 0.1 * 3 > 0.3 in binary floats
    ),
    (
        DenialCode.FX_UNKNOWN,  # what is held in pounds cannot be counted without a rate
        ({}, {"account": account(100_000, 100_000, POUNDS)}, {}),
        ({}, {"account": account(100_000, 100_000, POUNDS.model_copy(update={"fx": RATE}))}, {}),
    ),
    (
        DenialCode.NOTIONAL_PER_ORDER,  # what is held goes in one order, however much it has become
        ({"quantity": 11}, {"account": account(AAA=11)}, {"max_order_notional": 1_000}),
        ({**SELL, "quantity": 11}, {"account": account(AAA=11)}, {"max_order_notional": 1_000}),
    ),
    (
        DenialCode.NOTIONAL_PER_ORDER,  # what was asked for in money counts, though whole shares come to less
        ({}, {"stated_notional": 1_000.01}, {"max_order_notional": 1_000}),
        ({}, {"stated_notional": 1_000}, {"max_order_notional": 1_000}),
    ),
    (
        DenialCode.NOTIONAL_PER_ORDER,  # and the other way round
        ({}, {"stated_notional": 900}, {"max_order_notional": 999.99}),
        ({}, {"stated_notional": 900}, {"max_order_notional": 1_000}),
    ),
    (
        DenialCode.NOTIONAL_PER_ORDER,  # a sold put is as large as its assignment
        (SELL_PUT, OPTION, {**OPTIONS, "max_order_notional": 8_999.99}),
        (SELL_PUT, OPTION, {**OPTIONS, "max_order_notional": 9_000}),
    ),
    (
        DenialCode.NOTIONAL_PER_ORDER,  # one that is bought back has no limit
        ({**SELL_PUT, "action": "add"}, SHORT_PUT, {**OPTIONS, "max_order_notional": 200}),
        (
            {**SELL_PUT, "side": "buy", "action": "close"},
            SHORT_PUT,
            {**OPTIONS, "max_order_notional": 200},
        ),
    ),
    (DenialCode.COLLAR, (limit(105.01), {}, {}), (limit(105), {}, {})),
    (DenialCode.COLLAR, (limit(94.99), {}, {}), (limit(95), {}, {})),
    (
        DenialCode.COLLAR,
        ({**SELL, **limit(94.99)}, {"account": account(AAA=10)}, {}),
        ({**SELL, **limit(95)}, {"account": account(AAA=10)}, {}),
    ),
    # A stop-limit's limit is measured from its stop, wherever the price is.
    (DenialCode.COLLAR, (stop_limit(110, 115.51), {}, {}), (stop_limit(110, 115.5), {}, {})),
    (
        DenialCode.COLLAR,
        ({**SELL, **stop_limit(90, 85.49)}, {"account": account(AAA=10)}, {}),
        ({**SELL, **stop_limit(90, 85.5)}, {"account": account(AAA=10)}, {}),
    ),
    (
        DenialCode.QUOTE_STALE,
        ({}, quoted(NOW - dt.timedelta(minutes=15, seconds=1)), {}),
        ({}, quoted(NOW - dt.timedelta(minutes=15)), {}),
    ),
    (DenialCode.QUOTE_STALE, ({}, quoted(NOW + SECOND), {}), ({}, quoted(NOW), {})),
    (
        DenialCode.QUOTE_STALE,
        ({}, quoted(NOW - 30 * DAY) | {"account": account(AAA=10)}, {}),
        (SELL, quoted(NOW - 30 * DAY) | {"account": account(AAA=10)}, {}),
    ),
    (
        DenialCode.UNPRICED,
        ({}, {"unpriced": "nothing known", "account": account(AAA=10)}, {}),
        (SELL, {"unpriced": "nothing known", "account": account(AAA=10)}, {}),
    ),
    (
        DenialCode.SHARE_PER_SYMBOL,
        ({}, {"account": account(equity=9_999.99), "day_opening": 1e4, "high_water": 1e4}, {}),
        ({}, SMALL, {}),
    ),
    (
        DenialCode.SHARE_PER_SYMBOL,
        ({}, {"account": account(AAA=80), "reservations": [reserve(11)]}, {}),
        ({}, {"account": account(AAA=80), "reservations": [reserve(10)]}, {}),
    ),
    (
        DenialCode.SHARE_PER_SYMBOL,
        ({"quantity": 11, **SHORT}, SMALL, {"allow_short": True}),
        ({"quantity": 10, **SHORT}, SMALL, {"allow_short": True}),
    ),
    (
        DenialCode.SHARE_PER_SYMBOL,
        ({}, {"account": account(1e5, None, held("ZZZ", 5, None))}, {}),
        ({}, {"account": account(1e5, 1e5, held("ZZZ", 5))}, {}),
    ),
    (
        DenialCode.SHARE_PER_SYMBOL,
        ({}, {"account": account(equity=-5.0)}, {}),
        (SELL, {"account": account(equity=None, AAA=10)}, {}),
    ),
    (
        DenialCode.SHARE_PER_SYMBOL,  # a sold put and its underlying are one symbol
        (SELL_PUT, {**OPTION, "account": account(1e5, 1e5, AAA=10.01)}, OPTIONS),
        (SELL_PUT, {**OPTION, "account": account(1e5, 1e5, AAA=10)}, OPTIONS),
    ),
    (
        DenialCode.NOTIONAL_PER_SYMBOL,
        ({}, {"account": account(AAA=15)}, {"max_symbol_notional": 2_499.99}),
        ({}, {"account": account(AAA=15)}, {"max_symbol_notional": 2_500}),
    ),
    (
        DenialCode.NOTIONAL_PER_SYMBOL,
        ({}, {"stated_notional": 1_050}, {"max_symbol_notional": 1_049.99}),
        ({}, {"stated_notional": 1_050}, {"max_symbol_notional": 1_050}),
    ),
    (
        DenialCode.NOTIONAL_PER_SYMBOL,
        ({}, {"reservations": [reserve(0, traded=PUT, symbol="AAA", exposure=9_000)]},
         {"max_symbol_notional": 9_999.99}),
        ({}, {"reservations": [reserve(0, traded=PUT, symbol="AAA", exposure=9_000)]}, {"max_symbol_notional": 10_000}),
    ),
    (
        DenialCode.SHARE_PER_SECTOR,
        ({}, {"account": account(BBB=490.01), "sectors": TECH}, {}),
        ({}, {"account": account(BBB=490), "sectors": TECH}, {}),
    ),
    (
        DenialCode.SHARE_PER_SECTOR,
        ({}, {"account": account(BBB=490.01), "sectors": TECH}, {}),
        ({}, {"account": account(CCC=490.01), "sectors": TECH}, {}),
    ),
    (
        DenialCode.SHARE_PER_SECTOR,
        ({}, {"reservations": [reserve(490.01, traded="BBB")], "sectors": TECH}, {}),
        ({}, {"reservations": [reserve(490, traded="BBB")], "sectors": TECH}, {}),
    ),
    (
        DenialCode.SHARE_PER_SECTOR,  # a position whose sector is not known may be of this one
        ({}, {"account": account(BBB=490.01), "sectors": {"AAA": "tech"}}, {}),
        ({}, {"account": account(BBB=490.01), "sectors": {"AAA": "tech", "BBB": "oil"}}, {}),
    ),
    (
        DenialCode.SHARE_PER_SECTOR,  # an order whose sector is not known may be of any
        ({}, {"account": account(BBB=200, CCC=490.01), "sectors": {"BBB": "tech", "CCC": "oil"}}, {}),
        ({}, {"account": account(BBB=200, CCC=490), "sectors": {"BBB": "tech", "CCC": "oil"}}, {}),
    ),
    (
        DenialCode.SHARE_PER_SECTOR,
        ({}, {"account": account(BBB=990)}, {"max_sector_share": 0.99}),
        ({}, {"account": account(BBB=990)}, {"max_sector_share": 1}),
    ),
    (
        DenialCode.GROSS_NOTIONAL,
        ({}, {"account": account(BBB=100), "reservations": [reserve(50, traded="CCC")]},
         {"max_gross_notional": 15_999.99}),
        ({}, {"account": account(BBB=100), "reservations": [reserve(50, traded="CCC")]},
         {"max_gross_notional": 16_000}),
    ),
    (
        DenialCode.GROSS_NOTIONAL,  # what is short counts as what is long does
        ({}, {"account": account(BBB=-100)}, {"max_gross_notional": 10_999.99}),
        ({}, {"account": account(BBB=-100)}, {"max_gross_notional": 11_000}),
    ),
    (
        DenialCode.GROSS_NOTIONAL,
        ({}, {"account": account(1e5, 1e5, held("ZZZ100918P00090000", -2, 1.0))}, {"max_gross_notional": 18_999.99}),
        ({}, {"account": account(1e5, 1e5, held("ZZZ100918P00090000", -2, 1.0))}, {"max_gross_notional": 19_000}),
    ),
    (
        DenialCode.GROSS_NOTIONAL,
        ({}, {"account": account(BBB=100)}, {"max_gross_notional": 1}),
        (SELL, {"account": account(AAA=100)}, {"max_gross_notional": 1}),
    ),
    (
        DenialCode.BUYING_POWER,
        ({}, {"account": account(cash=999.99)}, {}),
        ({}, {"account": account(cash=1_000)}, {}),
    ),
    (
        DenialCode.BUYING_POWER,
        ({}, {"account": account(cash=5_000), "reservations": [reserve(40.0001, traded="BBB")]}, {}),
        ({}, {"account": account(cash=5_000), "reservations": [reserve(40, traded="BBB")]}, {}),
    ),
    (
        DenialCode.BUYING_POWER,  # 10 shares of 100 with 5 bp and 0.01 a share are 1,000.60
        ({}, {"account": account(cash=1_000.59)}, {"slippage_bps": 5, "commission_per_share": 0.01}),
        ({}, {"account": account(cash=1_000.60)}, {"slippage_bps": 5, "commission_per_share": 0.01}),
    ),
    (
        DenialCode.BUYING_POWER,  # a short of 5 at 100 holds back 1,000
        ({}, {"account": account(cash=1_999, BBB=-5)}, {"allow_short": True}),
        ({}, {"account": account(cash=2_000, BBB=-5)}, {"allow_short": True}),
    ),
    (
        DenialCode.BUYING_POWER,  # a short put holds its strike back
        ({}, {"account": account(9_999.99, 1e5, held("ZZZ100918P00090000", -1, 1.0))}, {}),
        ({}, {"account": account(10_000, 1e5, held("ZZZ100918P00090000", -1, 1.0))}, {}),
    ),
    (
        DenialCode.BUYING_POWER,
        ({}, {"account": account(1e5, 1e5, held("ZZZ100918C00090000", -1, 1.0))}, {}),
        ({**SELL, "quantity": 5}, {"account": account(cash=0, AAA=5)}, {}),
    ),
]  # fmt: skip

LOSSES: list[Case] = [
    (
        DenialCode.DAILY_LOSS,
        ({}, {"account": account(equity=96_999.99)}, {}),
        ({}, {"account": account(equity=97_000)}, {}),
    ),
    (DenialCode.DAILY_LOSS, ({}, {"day_opening": None}, {}), ({}, {"day_opening": 1}, {})),
    (
        DenialCode.DAILY_LOSS,
        ({}, {"account": account(1e5, 90_000, AAA=10)}, {}),
        (SELL, {"account": account(1e5, 90_000, AAA=10)}, {}),
    ),
    (DenialCode.DRAWDOWN, ({}, {"high_water": 117_648}, {}), ({}, {"high_water": 117_647}, {})),
    (DenialCode.DRAWDOWN, ({}, {"high_water": None}, {}), ({}, {"high_water": 1}, {})),
    (
        DenialCode.DRAWDOWN,
        ({}, {"high_water": 200_000, "account": account(AAA=10)}, {}),
        (SELL, {"high_water": 200_000, "account": account(AAA=10)}, {}),
    ),
]  # fmt: skip
