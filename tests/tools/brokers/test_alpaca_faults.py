"""The Alpaca broker's handling of refusals, and of answers that never come."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable

import pytest

from chordesk.models.errors import DeskError
from chordesk.tools.brokers.alpaca import AlpacaBroker, AlpacaWire, BrokerSilent
from chordesk.tools.market.alpaca_http import Credentials
from tests.fakes.alpaca import Alpaca
from tests.patience import PATIENCE
from tests.tools.brokers.alpaca_orders import a_ticket, ask, figures, send


@pytest.mark.parametrize("refusal", ["403", "422", "401"])
def test_a_definite_no_is_a_rejection(alpaca: Alpaca, broker: AlpacaBroker, refusal: str) -> None:
    alpaca.faults = [refusal]
    answer = send(broker, a_ticket())
    assert (answer.status, answer.broker_order_id) == ("rejected", None)
    assert f"HTTP {refusal}" in (answer.message or "")
    assert (len(alpaca.sends), alpaca.taken()) == (1, {})


def test_the_client_sends_again_after_429_and_is_taken_once(alpaca: Alpaca, broker: AlpacaBroker) -> None:
    alpaca.faults, alpaca.fills = ["429", "429"], "all"
    ticket = a_ticket()
    assert send(broker, ticket).status == "filled"
    assert (len(alpaca.sends), alpaca.taken()) == (3, {str(ticket.order_id): 1})


def test_nothing_but_429_is_a_definite_no(alpaca: Alpaca, broker: AlpacaBroker) -> None:
    alpaca.faults = ["429"] * 4
    answer = send(broker, a_ticket())
    assert (answer.status, alpaca.taken()) == ("rejected", {})


AFTER = (["504-after"], ["504-after", "429"], ["500-after"], ["garbage-after"], ["504-after", "504", "504", "504"])


@pytest.mark.parametrize("faults", AFTER)
def test_a_lost_answer_is_looked_up(alpaca: Alpaca, broker: AlpacaBroker, faults: list[str]) -> None:
    alpaca.faults, alpaca.fills = list(faults), "all"
    ticket = a_ticket()
    answer = send(broker, ticket)
    assert (answer.status, figures(answer)) == ("filled", [("10", 10, 100)])
    assert alpaca.taken() == {str(ticket.order_id): 1}


@pytest.mark.parametrize("faults", [["504"] * 4, ["500"], ["504", "429", "429", "429"]])
def test_an_order_with_an_unknown_outcome_is_no_rejection(
    alpaca: Alpaca, broker: AlpacaBroker, faults: list[str]
) -> None:
    alpaca.faults = list(faults)
    sent = len(faults)
    with pytest.raises(BrokerSilent, match="knows no order"):
        send(broker, a_ticket())
    assert (len(alpaca.sends), alpaca.taken()) == (sent, {})


@pytest.mark.parametrize(("fault", "there"), [("hang-after", True), ("hang", False)])
def test_a_send_that_hangs_ends_by_its_limit_and_is_looked_up(
    alpaca: Alpaca, connect: Callable[..., AlpacaBroker], fault: str, there: bool
) -> None:
    alpaca.faults = [fault]
    broker, ticket = connect(seconds=3), a_ticket()
    if there:
        assert send(broker, ticket).status == "submitted"
    else:
        with pytest.raises(BrokerSilent, match="ReadTimeout"):
            send(broker, ticket)
    assert alpaca.sends == [str(ticket.order_id)]
    assert alpaca.taken() == ({str(ticket.order_id): 1} if there else {})


def test_a_question_that_is_refused_is_no_rejection_of_the_order(alpaca: Alpaca, broker: AlpacaBroker) -> None:
    alpaca.fills, alpaca.closed = "all", "403"
    ticket = a_ticket()
    with pytest.raises(DeskError, match="HTTP 403"):
        send(broker, ticket)
    alpaca.closed = ""
    assert ask(broker, ticket).status == "filled"
    assert alpaca.taken() == {str(ticket.order_id): 1}


def test_a_second_send_of_an_id_finds_the_first_order(alpaca: Alpaca, broker: AlpacaBroker) -> None:
    alpaca.fills = "part"
    ticket = a_ticket()
    first = send(broker, ticket)
    assert send(broker, ticket) == first
    assert first.status == "partially_filled"
    assert alpaca.taken() == {str(ticket.order_id): 1}


def test_a_broker_that_is_away_leaves_the_outcome_open(alpaca: Alpaca, connect: Callable[..., AlpacaBroker]) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    broker = connect(url=url)
    for question in (lambda: send(broker, a_ticket()), lambda: ask(broker, a_ticket()), broker.state):
        with pytest.raises(BrokerSilent, match="ConnectionError"):
            question()
    assert alpaca.sends == []


@pytest.mark.parametrize(
    ("name", "value"), [("symbol", "MSFT"), ("side", "sell"), ("qty", "11"), ("qty", None), ("client_order_id", "x")]
)
def test_an_answer_about_another_order_is_none(
    alpaca: Alpaca, broker: AlpacaBroker, name: str, value: str | None
) -> None:
    ticket = a_ticket()
    assert send(broker, ticket).status == "submitted"
    (row,) = alpaca.orders.values()
    mine, row[name] = row[name], value
    alpaca.astray = row["id"]
    for question in (lambda: ask(broker, ticket), lambda: broker.cancel(ticket)):
        with pytest.raises(BrokerSilent, match=f"another order.*{name} differ|could not be read"):
            question()
    assert row["status"] == "accepted", "another's order is not cancelled"
    row[name] = mine
    assert ask(broker, ticket).status == "submitted"


def test_a_list_of_fills_that_does_not_move_on_ends(alpaca: Alpaca, broker: AlpacaBroker) -> None:
    ticket = a_ticket(quantity=200)
    send(broker, ticket)
    for _ in range(120):
        alpaca.fill(str(ticket.order_id), 1, 100)
    assert len(ask(broker, ticket).fills) == 120
    alpaca.stuck = True
    asked = len(alpaca.asked)
    with pytest.raises(BrokerSilent, match="do not end"):
        ask(broker, ticket)
    assert len(alpaca.asked) - asked == 3, "the order, the first page, and the first page again"


def test_an_answer_that_trickles_in_ends_by_the_limit() -> None:
    released = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as far:

        def trickle() -> None:
            near, _ = far.accept()
            with near:
                near.recv(65536)
                near.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n")
                while not released.wait(0.1):
                    near.sendall(b" ")

        thread = threading.Thread(target=trickle, daemon=True)
        thread.start()
        wire = AlpacaWire(f"http://127.0.0.1:{far.getsockname()[1]}", Credentials("k", "s"), 0.5, 0.01)
        asking = threading.Thread(target=lambda: raised.append(_silent(wire)), daemon=True)
        raised: list[str] = []
        asking.start()
        asking.join(PATIENCE)  # it would go on for hours
        released.set()
        thread.join(PATIENCE)
    assert raised == ["no answer from Alpaca: ReadTimeout"]


def _silent(wire: AlpacaWire) -> str:
    with pytest.raises(BrokerSilent) as silent:
        wire.account()
    return str(silent.value.args[0])
