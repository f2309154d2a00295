"""Cases of an order's instrument."""

from __future__ import annotations

import datetime as dt
from typing import cast

from chordesk.models.answers import Instrument
from chordesk.models.market import OptionContract, parse_contract
from chordesk.models.orders import DenialCode
from tests.tools.risk.cases import FAR, OPTION, OPTIONS, SELL, SELL_PUT, SHORT, SHORT_PUT, Case
from tests.tools.risk.figures import CALL, PUT, account, held, reserve

LATER = "AAA101218C00090000"
EXPIRY, DAY = cast(OptionContract, parse_contract(PUT)).expiry, dt.timedelta(days=1)

INSTRUMENTS: list[Case] = [
    *(
        (
            DenialCode.ACROSS_EARNINGS,
            (SELL_PUT, {**OPTION, "across_earnings": False, "earnings": day}, OPTIONS),
            (SELL_PUT, {**OPTION, **inside}, OPTIONS),
        )
        for day in (None, EXPIRY, EXPIRY - DAY)
        for inside in ({"across_earnings": False, "earnings": EXPIRY + DAY}, {"across_earnings": True, "earnings": day})
    ),
    (DenialCode.NOT_LISTED, ({}, {"listed": False}, {}), ({}, {"listed": True}, {})),
    (
        DenialCode.NOT_LISTED,
        ({}, {"listed": None, "account": account(AAA=10)}, {}),
        (SELL, {"listed": None, "account": account(AAA=10)}, {}),
    ),
    (
        DenialCode.NOT_LISTED,
        ({}, {"listed": False, "account": account(AAA=10)}, {}),
        (SELL, {"listed": False, "account": account(AAA=10)}, {}),
    ),
    (DenialCode.LONG_ONLY, (SELL, {"account": account(AAA=9)}, {}), (SELL, {"account": account(AAA=10)}, {})),
    (
        DenialCode.LONG_ONLY,
        (SELL, {"account": account(AAA=14), "reservations": [reserve(5, "sell")]}, {}),
        (SELL, {"account": account(AAA=14), "reservations": [reserve(4, "sell")]}, {}),
    ),
    (DenialCode.LONG_ONLY, (SELL, {"reservations": [reserve(10)]}, {}), (SHORT, {}, {"allow_short": True})),
    (
        DenialCode.MALFORMED,
        (SHORT, {"account": account(AAA=1)}, {"allow_short": True}),
        (SHORT, {"account": account(AAA=0)}, {"allow_short": True}),
    ),
    (
        DenialCode.MALFORMED,
        ({"action": "close"}, {"account": account(AAA=-9)}, {"allow_short": True}),
        ({"action": "close"}, {"account": account(AAA=-10)}, {"allow_short": True}),
    ),
    (
        DenialCode.MALFORMED,
        ({**SELL_PUT, "action": "close"}, OPTION, OPTIONS),
        ({**SELL_PUT, "action": "add"}, OPTION, OPTIONS),
    ),
    (DenialCode.STOCKS_ONLY, ({}, {"instrument": Instrument.OPTION}, {}), ({}, {"instrument": Instrument.ETF}, {})),
    (DenialCode.STOCKS_ONLY, ({}, {"instrument": None}, {}), ({}, {"instrument": Instrument.EQUITY}, {})),
    (DenialCode.STOCKS_ONLY, ({}, {}, {**OPTIONS, "options_mode": "options-only"}), (SELL_PUT, OPTION, OPTIONS)),
    (DenialCode.STOCKS_ONLY, (SELL_PUT, OPTION, {}), (SELL_PUT, OPTION, {**OPTIONS, "options_mode": "options-only"})),
    (
        DenialCode.STOCKS_ONLY,
        ({}, {"account": account(AAA=10)}, {**OPTIONS, "options_mode": "options-only"}),
        (SELL, {"account": account(AAA=10)}, {**OPTIONS, "options_mode": "options-only"}),
    ),
    (DenialCode.OPTION_CONTRACT, ({}, OPTION, OPTIONS), (SELL_PUT, OPTION, OPTIONS)),
    (DenialCode.OPTION_CONTRACT, ({**SELL_PUT, "contract": "AAA"}, OPTION, OPTIONS), (SELL_PUT, OPTION, OPTIONS)),
    (
        DenialCode.OPTION_CONTRACT,
        ({**SELL_PUT, "contract": PUT.replace("AAA", "BBB")}, OPTION, OPTIONS),
        ({**SELL_PUT, "symbol": "BBB", "contract": PUT.replace("AAA", "BBB")}, OPTION, OPTIONS),
    ),
    (
        DenialCode.OPTION_CONTRACT,  # the day of NOW in New York
        ({**SELL_PUT, "contract": "AAA100812P00090000"}, OPTION, OPTIONS),
        ({**SELL_PUT, "contract": "AAA100813P00090000"}, OPTION, OPTIONS),
    ),
    (
        DenialCode.ORDER_TYPE,
        ({**SELL_PUT, "order_type": "market", "limit_price": None}, OPTION, OPTIONS),
        ({**SELL_PUT, "order_type": "limit", "limit_price": 2.0}, OPTION, OPTIONS),
    ),
    (
        DenialCode.ORDER_TYPE,
        ({**SELL_PUT, "order_type": "market", "limit_price": None}, OPTION, OPTIONS),
        ({"order_type": "market"}, {}, OPTIONS),
    ),
    (
        DenialCode.ORDER_TYPE,
        ({**SELL_PUT, "order_type": "market", "limit_price": None, "action": "add"}, SHORT_PUT, OPTIONS),
        (
            {**SELL_PUT, "order_type": "market", "limit_price": None, "action": "close", "side": "buy"},
            SHORT_PUT,
            OPTIONS,
        ),
    ),
    (DenialCode.CASH_SECURED, ({**SELL_PUT, "contract": CALL}, OPTION, OPTIONS), (SELL_PUT, OPTION, OPTIONS)),
    (
        DenialCode.CASH_SECURED,  # a call is sold against 100 shares
        ({**SELL_PUT, "contract": CALL}, {**OPTION, "account": account(1e5, 1e5, AAA=99)}, FAR),
        ({**SELL_PUT, "contract": CALL}, {**OPTION, "account": account(1e5, 1e5, AAA=100)}, FAR),
    ),
    (
        DenialCode.CASH_SECURED,  # that another call does not bind already
        ({**SELL_PUT, "contract": CALL, "action": "add"},
         {**OPTION, "account": account(1e5, 1e5, held(CALL, -1, 2.0), AAA=199)}, FAR),
        ({**SELL_PUT, "contract": CALL, "action": "add"},
         {**OPTION, "account": account(1e5, 1e5, held(CALL, -1, 2.0), AAA=200)}, FAR),
    ),
    (
        DenialCode.CASH_SECURED,  # nor another order
        ({**SELL_PUT, "contract": CALL},
         {**OPTION, "account": account(1e5, 1e5, AAA=109), "reservations": [reserve(10, "sell")]}, FAR),
        ({**SELL_PUT, "contract": CALL},
         {**OPTION, "account": account(1e5, 1e5, AAA=110), "reservations": [reserve(10, "sell")]}, FAR),
    ),
    (
        DenialCode.LONG_ONLY,  # shares that cover a written call are not free
        (SELL, {"account": account(1e5, 1e5, held(CALL, -1, 2.0), AAA=109)}, {"allow_short": True}),
        (SELL, {"account": account(1e5, 1e5, held(CALL, -1, 2.0), AAA=110)}, {"allow_short": True}),
    ),
    (
        DenialCode.LONG_ONLY,  # unless a bought call that lives as long covers it
        (SELL, {"account": account(1e5, 1e5, held(CALL, -1, 2.0), AAA=100)}, {}),
        (SELL, {"account": account(1e5, 1e5, held(CALL, -1, 2.0), held(LATER, 1, 2.0), AAA=100)}, {}),
    ),
    (
        DenialCode.CASH_SECURED,  # a put is bought only to give a sold one back
        ({**SELL_PUT, "side": "buy"}, OPTION, OPTIONS),
        ({**SELL_PUT, "side": "buy", "action": "close"}, SHORT_PUT, OPTIONS),
    ),
    (
        DenialCode.CASH_SECURED,
        (SELL_PUT, {**OPTION, "account": account(cash=8_999.99)}, OPTIONS),
        (SELL_PUT, {**OPTION, "account": account(cash=9_000)}, OPTIONS),
    ),
    (
        DenialCode.CASH_SECURED,  # a put that is short already holds its strike back
        ({**SELL_PUT, "action": "add"}, SHORT_PUT | {"account": account(17_999.99, 1e6, held(PUT, -1, 2.0))}, FAR),
        ({**SELL_PUT, "action": "add"}, SHORT_PUT | {"account": account(18_000, 1e6, held(PUT, -1, 2.0))}, FAR),
    ),
    (
        DenialCode.CASH_SECURED,
        (SELL_PUT, {**OPTION, "account": account(1e5, 1e5, held(CALL, -1, 2.0))}, FAR),
        (SELL_PUT, {**OPTION, "account": account(1e5, 1e5, held(CALL, 1, 2.0))}, FAR),
    ),
    (
        DenialCode.CASH_SECURED,
        (SELL_PUT, {**OPTION, "account": account(cash=10_000), "reservations": [reserve(10.01, traded="BBB")]},
         OPTIONS),
        (SELL_PUT, {**OPTION, "account": account(cash=10_000), "reservations": [reserve(10, traded="BBB")]}, OPTIONS),
    ),
]  # fmt: skip
