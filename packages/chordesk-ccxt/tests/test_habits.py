"""What the venues do and the contract does not know of: steps, fees in the coin, days, keys, overtaken numbers."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from chordesk_ccxt import FEATURE, binance, orders
from chordesk_ccxt.broker import CcxtBroker
from chordesk_ccxt.venue import source_of
from far_broker import VENUES, VenueFar

from chordesk.plugins import MarketUnavailable
from chordesk.testing.broker import Line, ticket_at


@pytest.fixture(params=[*VENUES])
def far(request: pytest.FixtureRequest) -> Iterator[VenueFar]:
    with VENUES[request.param]() as venue:
        made = VenueFar(venue)
        yield made
        made.close()


@pytest.fixture
def at_binance() -> Iterator[VenueFar]:
    with VENUES["binance"]() as venue:
        made = VenueFar(venue)
        yield made
        made.close()


@pytest.fixture
def line(far: VenueFar) -> Line:
    return Line(far, far.connect())


def test_the_description_says_what_the_broker_takes() -> None:
    assert all(entry.takes == orders.TAKES for entry in FEATURE.brokers.values())
    assert [name for name, entry in FEATURE.brokers.items() if entry.play_money] == ["ccxt-binance-testnet"]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"quantity": 1.123456789}, "no multiple of"),
        ({"quantity": 0.000001}, "no multiple of|less than the least amount"),
        ({"order_type": "limit", "limit_price": 90.123}, "limit price 90.123 is between two steps of 0.01"),
        ({"order_type": "limit", "limit_price": 90.0, "quantity": 0.001}, "worth less than the least order"),
        ({"symbol": "BTC-EUR"}, "priced in EUR, and the account counts in"),
        ({"symbol": "AAPL"}, "no pair"),
        ({"symbol": "SOL-"}, "no pair"),
    ],
)
def test_what_would_be_cut_or_refused_is_refused_with_the_value_and_never_leaves(
    far: VenueFar, line: Line, changes: dict[str, Any], said: str
) -> None:
    if far.venue.title == "Kraken" and "between" not in said and changes.get("quantity") == 0.001:
        changes = changes | {"quantity": 0.0001}
    answer = line.send(ticket_at(far, changes.pop("order_type", "market"), **changes))
    assert answer.status == "rejected"
    assert answer.message is not None
    assert re.search(said, answer.message), answer.message
    assert far.sends == []


def test_a_fee_in_the_coin_is_a_cost_and_leaves_less_of_the_coin(at_binance: VenueFar) -> None:
    line = Line(at_binance, at_binance.connect())
    at_binance.venue.fee_in_coin = True
    ticket = ticket_at(at_binance)
    line.send(ticket)
    at_binance.fill(str(ticket.order_id), 10, 100)
    (fill,) = line.ask(ticket).fills
    assert (fill.quantity, fill.kept, fill.commission) == (10, 0.026, 2.6)
    state = line.broker.state()
    assert state.cash == 1_000_000 - 1000, "no money was paid for it"
    assert [(row.symbol, row.quantity) for row in state.positions] == [("BTC-USDT", 9.974)]


def test_a_fee_in_a_third_coin_is_named_and_nothing_is_booked(at_binance: VenueFar) -> None:
    line = Line(at_binance, at_binance.connect())
    ticket = ticket_at(at_binance)
    line.send(ticket)
    at_binance.fill(str(ticket.order_id), 10, 100)
    at_binance.venue.orders["10000001"].trades[0].fee_coin = "BNB"
    with pytest.raises(MarketUnavailable, match=r"2\.6 BNB, and the account counts in USDT"):
        line.find(ticket)


def test_an_account_that_pays_in_bnb_is_blocked_until_that_is_off(at_binance: VenueFar) -> None:
    at_binance.venue.bnb_burn = True  # type: ignore[attr-defined]
    broker = at_binance.connect()
    assert "BNB" in str(broker.state().blocked)
    at_binance.venue.bnb_burn = False  # type: ignore[attr-defined]
    assert broker.state().blocked is None


def test_an_order_of_a_day_is_ended_after_it_where_the_venue_does_not(at_binance: VenueFar) -> None:
    line = Line(at_binance, at_binance.connect())
    ticket = ticket_at(at_binance, "limit")
    line.send(ticket)
    at_binance.fill(str(ticket.order_id), 4, 90)
    assert line.ask(ticket).status == "partially_filled"
    at_binance.venue.orders["10000001"].opened -= dt.timedelta(days=1)
    answer = line.ask(ticket)
    assert (answer.status, [fill.quantity for fill in answer.fills]) == ("expired", [4])
    assert at_binance.venue.orders["10000001"].state == "cancelled"
    gtc = ticket_at(at_binance, "limit", "gtc")
    line.send(gtc)
    at_binance.venue.orders["10000002"].opened -= dt.timedelta(days=1)
    assert line.ask(gtc).status == "submitted", "one that is good till cancelled goes on"


@pytest.mark.parametrize("right", ["withdraw", "none to trade"])
def test_a_key_of_the_wrong_rights_sends_nothing(far: VenueFar, line: Line, right: str) -> None:
    kraken = far.venue.title == "Kraken"
    if right == "withdraw":
        far.block()
    else:
        far.venue.rights = ["query-funds"] if kraken else ["enableReading"]
    answer = line.send(ticket_at(far))
    assert answer.status == "rejected"
    assert ("may withdraw" if right == "withdraw" else "may not trade") in str(answer.message)
    assert far.sends == []


def test_nothing_is_signed_by_a_clock_that_is_an_hour_off(far: VenueFar, line: Line) -> None:
    far.venue.offset = dt.timedelta(hours=-1)
    for ask in (line.broker.state, lambda: line.send(ticket_at(far))):
        with pytest.raises(MarketUnavailable, match=r"on this machine, 3\d\d\d s apart"):
            ask()
    assert not [path for path, _ in far.venue.asked if "private" in path or path.endswith(("/account", "/order"))]


def test_a_refusal_after_an_error_of_the_server_is_not_taken_for_one(far: VenueFar, line: Line) -> None:
    far.venue.send_faults.append("server-after")
    ticket = ticket_at(far)
    answer = line.sent(ticket)
    assert answer is not None, "it was looked up at once"
    assert answer.status == "submitted"
    assert len(far.sends) == 1


def test_while_its_lists_fail_a_lost_order_is_neither_there_nor_absent(far: VenueFar, line: Line) -> None:
    ticket = ticket_at(far)
    line.send(ticket)
    fresh = Line(far, far.connect())
    for kind in ("server", "busy", "half", "empty"):
        far.venue.fault("OpenOrders" if far.venue.title == "Kraken" else "/order", kind)
        with pytest.raises(MarketUnavailable):
            fresh.find(ticket)
        source_of.cache_clear()  # the rest after too many requests
    assert fresh.ask(ticket).status == "submitted"


def test_a_request_whose_number_was_overtaken_is_sent_with_another(monkeypatch: pytest.MonkeyPatch) -> None:
    with VENUES["kraken"]() as venue:
        far = VenueFar(venue)
        broker = far.connect()
        assert isinstance(broker, CcxtBroker)
        line = Line(far, broker)
        client = broker._venue.client()
        numbers, given = iter([5, 6]), client.incrementing_nonce
        line.send(ticket_at(far))
        monkeypatch.setattr(client, "incrementing_nonce", lambda: next(numbers, None) or given())
        ticket = ticket_at(far)
        assert line.send(ticket).status == "submitted"
        assert far.sends.count(str(ticket.order_id)) == 1
        monkeypatch.setattr(client, "incrementing_nonce", lambda: 7)
        with pytest.raises(MarketUnavailable, match="Invalid nonce") as told:
            line.ask(ticket)
        assert "a key of its own" in told.value.remedy


def test_a_pair_that_is_listed_no_more_is_refused_and_its_orders_are_not_called_absent(
    far: VenueFar, line: Line
) -> None:
    ticket = ticket_at(far)
    line.send(ticket)
    far.venue.delisted.add(far.symbols[0])
    fresh = Line(far, far.connect())
    refused = fresh.send(ticket_at(far))
    assert (refused.status, len(far.sends)) == ("rejected", 1)
    assert "no more" in str(refused.message)
    assert fresh.ask(ticket).status == "submitted"
    del far.venue.prices[far.symbols[0]]
    with pytest.raises(MarketUnavailable, match=r"lists .* no more"):
        Line(far, far.connect()).find(ticket)


def test_fills_beyond_a_page_are_all_there(far: VenueFar, line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(binance, "_PAGE", 25)  # of a thousand
    ticket = ticket_at(far, quantity=60.0)
    line.send(ticket)
    for _ in range(60):
        far.fill(str(ticket.order_id), 1, 100)
    answer = line.ask(ticket)
    assert (answer.status, len(answer.fills)) == ("filled", 60)
    state = line.broker.state()
    assert len(state.fills) == 60
    assert {row.client_id for row in state.fills} == {str(ticket.order_id)}


def test_what_the_venue_does_not_price_at_cost_has_the_price_now(far: VenueFar, line: Line) -> None:
    far.venue.prices[far.symbols[1]] = Decimal("80.5")
    far.hold(far.symbols[1], 3, 0)
    (row,) = line.broker.state().positions
    assert (row.quantity, row.average_cost) == (3, 80.5)
