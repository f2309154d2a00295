"""The Alpaca broker's orders: the real client against the stand-in on loopback."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Callable
from decimal import Decimal

import pytest

from chordesk.models.orders import BrokerFill
from chordesk.tools.brokers.alpaca import AlpacaBroker, BrokerSilent
from chordesk.tools.brokers.alpaca_shapes import unbroken
from chordesk.tools.brokers.protocol import Streaming
from tests.fakes.alpaca import Alpaca
from tests.patience import PATIENCE
from tests.stack import wait_for
from tests.tools.brokers.alpaca_orders import PREVIEW, PUT, VIEW, a_ticket, ask, figures, send


@pytest.mark.parametrize(
    ("terms", "wire"),
    [
        ({"order_type": "stop", "stop_price": 92.5}, {"type": "stop", "stop_price": 92.5}),
        (
            {"order_type": "stop_limit", "stop_price": 92.5, "limit_price": 92.0},
            {"type": "stop_limit", "stop_price": 92.5, "limit_price": 92.0},
        ),
        # Where a trail starts is the broker's to find.
        (
            {"order_type": "trailing_stop", "trail_percent": 5.0, "stop_price": 95.0},
            {"type": "trailing_stop", "trail_percent": 5.0},
        ),
        ({"order_type": "limit", "limit_price": 99.0}, {"type": "limit", "limit_price": 99.0}),
        ({"order_type": "market"}, {"type": "market"}),
    ],
)
@pytest.mark.parametrize("tif", ["day", "gtc"])
def test_each_type_is_sent_with_its_own_prices(
    alpaca: Alpaca, broker: AlpacaBroker, terms: dict[str, object], wire: dict[str, object], tif: str
) -> None:
    ticket = a_ticket(side="sell", action="close", time_in_force=tif, **terms)
    assert send(broker, ticket).status == "submitted"
    (body,) = alpaca.bodies
    ours = {"symbol": "AAPL", "qty": 10, "side": "sell", "time_in_force": tif, "client_order_id": str(ticket.order_id)}
    assert body == {**ours, **wire}
    assert ask(broker, ticket).status == "submitted"


@pytest.mark.parametrize("tif", ["ioc", "opg", "cls"])
def test_a_market_order_is_sent_with_its_time_in_force(alpaca: Alpaca, broker: AlpacaBroker, tif: str) -> None:
    assert send(broker, a_ticket(time_in_force=tif)).status == "submitted"
    assert [body["time_in_force"] for body in alpaca.bodies] == [tif]


@pytest.mark.parametrize(
    ("action", "side", "intent"),
    [
        ("open", "sell", "sell_to_open"),
        ("close", "buy", "buy_to_close"),
        ("open", "buy", "buy_to_open"),
        ("reduce", "sell", "sell_to_close"),
    ],
)
def test_a_single_leg_option_states_its_intent(
    alpaca: Alpaca, broker: AlpacaBroker, action: str, side: str, intent: str
) -> None:
    option = {"contract": PUT, "multiplier": 100, "quantity": 2, "order_type": "limit", "limit_price": 3.2}
    assert send(broker, a_ticket(action=action, side=side, **option)).status == "submitted"
    (row,) = alpaca.orders.values()
    assert (row["symbol"], row["position_intent"], row["asset_class"]) == (PUT, intent, "us_option")


def test_fills_come_in_parts_and_are_returned_in_full_each_time(alpaca: Alpaca, broker: AlpacaBroker) -> None:
    ticket = a_ticket()
    send(broker, ticket)
    alpaca.fill(str(ticket.order_id), 4, 100)
    part = ask(broker, ticket)
    assert (part.status, figures(part)) == ("partially_filled", [("4", 4, 100)])
    alpaca.fill(str(ticket.order_id), 6, 101)
    whole = ask(broker, ticket)
    assert (whole.status, figures(whole)) == ("filled", [("4", 4, 100), ("10", 6, 101)])


@pytest.mark.parametrize(
    ("ended", "status"),
    [("canceled", "cancelled"), ("expired", "expired"), ("rejected", "rejected"), ("replaced", "cancelled")],
)
def test_an_order_may_end_without_a_fill(alpaca: Alpaca, broker: AlpacaBroker, ended: str, status: str) -> None:
    ticket = a_ticket()
    send(broker, ticket)
    alpaca.end(str(ticket.order_id), ended)
    assert ask(broker, ticket).status == status


def test_an_end_is_returned_only_with_all_fills(alpaca: Alpaca, broker: AlpacaBroker) -> None:
    ticket = a_ticket()
    send(broker, ticket)
    alpaca.fill(str(ticket.order_id), 4, 100)
    alpaca.end(str(ticket.order_id), "canceled")
    alpaca.hidden = True
    waiting = ask(broker, ticket)
    assert (waiting.status, waiting.fills) == ("submitted", [])
    assert waiting.message is not None
    assert "4 filled; its list of fills has 0" in waiting.message
    alpaca.hidden = False
    ended = ask(broker, ticket)
    assert (ended.status, figures(ended)) == ("cancelled", [("4", 4, 100)])


def test_an_order_that_was_never_sent_is_not_known(broker: AlpacaBroker) -> None:
    assert broker.lookup(a_ticket(), PREVIEW, VIEW) is None
    assert broker.cancel(a_ticket()) is None


def test_a_lookup_may_be_repeated_and_its_last_answer_counts(alpaca: Alpaca, broker: AlpacaBroker) -> None:
    alpaca.lookups = ["504", "429"]
    assert broker.lookup(a_ticket(), PREVIEW, VIEW) is None
    alpaca.lookups = ["504"] * 4
    with pytest.raises(BrokerSilent, match="HTTP 504"):
        broker.lookup(a_ticket(), PREVIEW, VIEW)


def test_fills_count_as_far_as_they_follow_each_other() -> None:
    at = dt.datetime.now(dt.UTC)

    def fills(**totals: float) -> dict[Decimal, BrokerFill]:
        """Quantity by the total it led to."""
        rows = {Decimal(total.removeprefix("to_")): quantity for total, quantity in totals.items()}
        return {total: BrokerFill(quantity=each, price=1, commission=0, at=at) for total, each in rows.items()}

    assert [fill.quantity for fill in unbroken(fills(to_10=6, to_4=4))] == [4, 6]
    assert [fill.quantity for fill in unbroken(fills(to_4=4, to_10=3))] == [4]
    assert unbroken(fills(to_10=4)) == []


def test_a_cancel_ends_what_is_open_and_leaves_what_has_ended(alpaca: Alpaca, broker: AlpacaBroker) -> None:
    ticket = a_ticket()
    send(broker, ticket)
    alpaca.fill(str(ticket.order_id), 4, 100)
    answer = broker.cancel(ticket)
    assert answer is not None
    assert (answer.status, figures(answer)) == ("cancelled", [("4", 4, 100)])
    assert broker.cancel(ticket) == answer


class Updates:
    """Listener that keeps the stream's updates, and waits for them."""

    def __init__(self) -> None:
        self.ids: list[str] = []
        self._more = threading.Condition()

    def __call__(self, client_id: str) -> None:
        with self._more:
            self.ids.append(client_id)
            self._more.notify_all()

    def wait(self, count: int) -> None:
        with self._more:
            assert self._more.wait_for(lambda: len(self.ids) >= count, PATIENCE), (
                f"{len(self.ids)} of {count} updates came"
            )


def test_fills_are_streamed_and_are_the_same_as_polled_ones(
    alpaca: Alpaca, broker: AlpacaBroker, connect: Callable[..., AlpacaBroker]
) -> None:
    assert isinstance(broker, Streaming)
    updates = Updates()
    broker.listen(updates)
    wait_for(lambda: alpaca.listening() == 1, "its clients")
    ticket = a_ticket()
    send(broker, ticket)
    updates.wait(1)
    alpaca.fill(str(ticket.order_id), 4, 100)
    alpaca.fill(str(ticket.order_id), 6, 101)
    updates.wait(3)
    assert set(updates.ids) == {str(ticket.order_id)}
    alpaca.asked.clear()
    streamed = ask(broker, ticket)
    assert alpaca.asked == ["GET /v2/orders:by_client_order_id"]  # nothing had to be polled for
    polled = ask(connect(), ticket)
    assert "GET /v2/account/activities" in alpaca.asked
    assert figures(streamed) == figures(polled) == [("4", 4, 100), ("10", 6, 101)]


def test_updates_that_a_cut_stream_missed_are_polled_for(alpaca: Alpaca, broker: AlpacaBroker) -> None:
    updates = Updates()
    broker.listen(updates)
    wait_for(lambda: alpaca.listening() == 1, "its clients")
    ticket = a_ticket()
    send(broker, ticket)
    alpaca.fill(str(ticket.order_id), 4, 100)
    updates.wait(2)
    alpaca.cut()
    wait_for(lambda: alpaca.listening() == 0, "its clients")
    alpaca.fill(str(ticket.order_id), 2, 102)
    assert figures(ask(broker, ticket)) == [("4", 4, 100), ("6", 2, 102)]
    wait_for(lambda: alpaca.listening() == 1, "its clients")  # the client came back by itself
    alpaca.fill(str(ticket.order_id), 4, 103)
    updates.wait(3)
    whole = ask(broker, ticket)
    assert (whole.status, figures(whole)) == ("filled", [("4", 4, 100), ("6", 2, 102), ("10", 4, 103)])
