"""Fills that reach the Alpaca broker by its stream."""

from __future__ import annotations

import threading
from collections.abc import Callable

from chordesk.tools.brokers.alpaca import AlpacaBroker
from chordesk.tools.brokers.protocol import Streaming
from tests.fakes.alpaca import Alpaca
from tests.tools.brokers.alpaca_orders import a_ticket, ask, figures, send


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
            assert self._more.wait_for(lambda: len(self.ids) >= count, 20), f"{len(self.ids)} of {count} updates came"


def wait_until(true: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(400):
        if true():
            return
        pause.wait(0.05)
    raise AssertionError("it did not come about within 20 s")


def test_fills_are_streamed_and_are_the_same_as_polled_ones(
    alpaca: Alpaca, broker: AlpacaBroker, connect: Callable[..., AlpacaBroker]
) -> None:
    assert isinstance(broker, Streaming)
    updates = Updates()
    broker.listen(updates)
    wait_until(lambda: alpaca.listening() == 1)
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
    wait_until(lambda: alpaca.listening() == 1)
    ticket = a_ticket()
    send(broker, ticket)
    alpaca.fill(str(ticket.order_id), 4, 100)
    updates.wait(2)
    alpaca.cut()
    wait_until(lambda: alpaca.listening() == 0)
    alpaca.fill(str(ticket.order_id), 2, 102)
    assert figures(ask(broker, ticket)) == [("4", 4, 100), ("6", 2, 102)]
    wait_until(lambda: alpaca.listening() == 1)  # the client came back by itself
    alpaca.fill(str(ticket.order_id), 4, 103)
    updates.wait(3)
    whole = ask(broker, ticket)
    assert (whole.status, figures(whole)) == ("filled", [("4", 4, 100), ("6", 2, 102), ("10", 4, 103)])
