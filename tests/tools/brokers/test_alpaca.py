"""The Alpaca broker: the real client against the stand-in on loopback."""

from __future__ import annotations

import datetime as dt
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest

from models.errors import DeskError, NotConfigured, SettingError
from models.order_tables import Preview
from models.orders import AccountView, BrokerAnswer, BrokerFill, OrderTicket
from models.settings import Settings
from tests.fakes.alpaca import KEY, SECRET, Alpaca
from tests.tools.orders.tape import Tape
from tools.brokers import factory
from tools.brokers.alpaca import AlpacaBroker
from tools.brokers.alpaca_shapes import unbroken
from tools.brokers.alpaca_wire import BrokerSilent, base_url, stream_url
from tools.brokers.protocol import Streaming

VIEW = AccountView(account="alpaca-paper", cash=0, equity=None, positions=[])
PREVIEW = Preview(order_id="x", payload="", payload_hash="", price=1, priced_at=dt.datetime.now(dt.UTC), notional=1)
PUT = "AAPL261218P00180000"
CREDENTIALS = {"ALPACA_API_KEY": KEY, "ALPACA_SECRET_KEY": SECRET}


def a_ticket(**changes: Any) -> OrderTicket:
    base = {
        "order_id": uuid.uuid4(),
        "account": "alpaca-paper",
        "symbol": "AAPL",
        "action": "open",
        "side": "buy",
        "quantity": 10,
        "placed_at": dt.datetime.now(dt.UTC),
        "order_type": "market",
    }
    return OrderTicket.model_validate({**base, **changes})


@pytest.fixture
def connect(alpaca: Alpaca) -> Iterator[Callable[..., AlpacaBroker]]:
    made: list[AlpacaBroker] = []

    def make(seconds: float = 5.0, url: str = alpaca.url, **environ: str) -> AlpacaBroker:
        settings = Settings(broker="alpaca-paper", alpaca_url=url, broker_seconds=seconds)
        market = Tape({"AAPL": 100.0})
        market.clock.at = dt.datetime.now(dt.UTC)
        broker = AlpacaBroker(settings, market.clock, {**CREDENTIALS, **environ}, retry_seconds=0.01)
        made.append(broker)
        return broker

    yield make
    alpaca.release()
    for broker in made:
        broker.close()


@pytest.fixture
def broker(connect: Callable[..., AlpacaBroker]) -> AlpacaBroker:
    return connect()


def send(broker: AlpacaBroker, ticket: OrderTicket) -> BrokerAnswer:
    return broker.submit(ticket, PREVIEW, VIEW)


def ask(broker: AlpacaBroker, ticket: OrderTicket) -> BrokerAnswer:
    answer = broker.lookup(ticket, PREVIEW, VIEW)
    assert answer is not None
    return answer


def figures(answer: BrokerAnswer) -> list[tuple[str | None, float, float]]:
    return [(fill.id, fill.quantity, fill.price) for fill in answer.fills]


def test_an_order_is_sent_under_the_desks_own_id(alpaca: Alpaca, broker: AlpacaBroker) -> None:
    ticket = a_ticket(order_type="limit", limit_price=99.5)
    answer = send(broker, ticket)
    (row,) = alpaca.orders.values()
    assert (answer.status, answer.broker_order_id, answer.fills) == ("submitted", row["id"], [])
    assert row["client_order_id"] == str(ticket.order_id)
    assert (row["symbol"], row["qty"], row["side"], row["type"], row["limit_price"], row["time_in_force"]) == (
        "AAPL",
        "10",
        "buy",
        "limit",
        "99.5",
        "day",
    )


@pytest.mark.parametrize(
    ("action", "side", "intent"),
    [
        ("open", "sell", "sell_to_open"),
        ("close", "buy", "buy_to_close"),
        ("open", "buy", "buy_to_open"),
        ("reduce", "sell", "sell_to_close"),
    ],
)
def test_a_single_leg_option_says_its_intent(
    alpaca: Alpaca, broker: AlpacaBroker, action: str, side: str, intent: str
) -> None:
    option = {"contract": PUT, "multiplier": 100, "quantity": 2, "order_type": "limit", "limit_price": 3.2}
    assert send(broker, a_ticket(action=action, side=side, **option)).status == "submitted"
    (row,) = alpaca.orders.values()
    assert (row["symbol"], row["position_intent"], row["asset_class"]) == (PUT, intent, "us_option")


def test_fills_come_in_parts_and_are_told_in_full_each_time(alpaca: Alpaca, broker: AlpacaBroker) -> None:
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


def test_an_end_is_told_only_with_all_fills(alpaca: Alpaca, broker: AlpacaBroker) -> None:
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


def test_many_fills_are_read_page_by_page(alpaca: Alpaca, broker: AlpacaBroker) -> None:
    ticket = a_ticket(quantity=230)
    send(broker, ticket)
    for _ in range(230):
        alpaca.fill(str(ticket.order_id), 1, 100)
    answer = ask(broker, ticket)
    assert (answer.status, len(answer.fills)) == ("filled", 230)


def test_an_order_that_was_never_sent_is_not_known(broker: AlpacaBroker) -> None:
    assert broker.lookup(a_ticket(), PREVIEW, VIEW) is None
    assert broker.cancel(a_ticket()) is None


def test_a_lookup_may_be_repeated_and_what_it_says_last_counts(alpaca: Alpaca, broker: AlpacaBroker) -> None:
    alpaca.lookups = ["504", "429"]
    assert broker.lookup(a_ticket(), PREVIEW, VIEW) is None
    alpaca.lookups = ["504"] * 4
    with pytest.raises(BrokerSilent, match="HTTP 504"):
        broker.lookup(a_ticket(), PREVIEW, VIEW)


def test_fills_count_as_far_as_they_follow_each_other() -> None:
    at = dt.datetime.now(dt.UTC)

    def fills(**told: float) -> dict[Decimal, BrokerFill]:
        """Quantity by the total it led to."""
        rows = {Decimal(total.removeprefix("to_")): quantity for total, quantity in told.items()}
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
def test_an_order_whose_fate_nobody_can_tell_is_no_rejection(
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
    broker, ticket = connect(seconds=0.5), a_ticket()
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
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
    broker = connect(url=url)
    for question in (lambda: send(broker, a_ticket()), lambda: ask(broker, a_ticket()), broker.state):
        with pytest.raises(BrokerSilent, match="ConnectionError"):
            question()
    assert alpaca.sends == []


def test_the_account_is_told_with_the_desks_own_ids(alpaca: Alpaca, broker: AlpacaBroker) -> None:
    done, open_, put = a_ticket(), a_ticket(symbol="MSFT"), a_ticket(contract=PUT, side="sell", quantity=1)
    for ticket in (done, open_, put):
        send(broker, ticket)
    alpaca.fill(str(done.order_id), 10, 101)
    alpaca.fill(str(open_.order_id), 3, 50)
    alpaca.fill(str(put.order_id), 1, 2)
    state = broker.state()
    assert (state.account, state.cash, state.blocked) == ("alpaca-paper", 100_000 - 1_010 - 150 + 200, None)
    assert {row.symbol: row.quantity for row in state.positions} == {"AAPL": 10, "MSFT": 3, PUT: -1}
    assert [(row.client_id, row.quantity, row.filled) for row in state.open_orders] == [(str(open_.order_id), 10, 3)]
    assert {(row.client_id, row.fill.quantity, row.fill.price) for row in state.fills} == {
        (str(done.order_id), 10, 101),
        (str(open_.order_id), 3, 50),
        (str(put.order_id), 1, 2),
    }


def test_an_assignment_is_told_leg_by_leg(alpaca: Alpaca, broker: AlpacaBroker) -> None:
    day = dt.datetime.now(dt.UTC).date().isoformat()
    legs = {"OPASN": (PUT, "1", None), "OPTRD": ("AAPL", "100", "180")}
    for kind, (symbol, quantity, price) in legs.items():
        row = {"id": "20261218::1", "activity_type": kind, "date": day, "symbol": symbol, "qty": quantity}
        alpaca.activities.append({**row, "price": price, "status": "executed"})
    first, second = broker.state().settlements
    assert (first.kind, first.symbol, first.quantity, first.price) == ("assigned", PUT, 1, 0)
    assert (second.kind, second.symbol, second.quantity, second.price) == ("delivered", "AAPL", 100, 180)
    assert first.id != second.id


def test_a_blocked_account_says_so(alpaca: Alpaca, broker: AlpacaBroker) -> None:
    alpaca.blocked = True
    assert broker.state().blocked == "Alpaca says of the account: trading_blocked"


class Heard:
    """What the stream said, and a way to wait for it."""

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
    heard = Heard()
    broker.listen(heard)
    wait_until(lambda: alpaca.listening() == 1)
    ticket = a_ticket()
    send(broker, ticket)
    heard.wait(1)
    alpaca.fill(str(ticket.order_id), 4, 100)
    alpaca.fill(str(ticket.order_id), 6, 101)
    heard.wait(3)
    assert set(heard.ids) == {str(ticket.order_id)}
    alpaca.asked.clear()
    streamed = ask(broker, ticket)
    assert alpaca.asked == ["GET /v2/orders:by_client_order_id"]  # nothing had to be polled for
    polled = ask(connect(), ticket)
    assert "GET /v2/account/activities" in alpaca.asked
    assert figures(streamed) == figures(polled) == [("4", 4, 100), ("10", 6, 101)]


def test_what_a_cut_stream_missed_is_polled_for(alpaca: Alpaca, broker: AlpacaBroker) -> None:
    heard = Heard()
    broker.listen(heard)
    wait_until(lambda: alpaca.listening() == 1)
    ticket = a_ticket()
    send(broker, ticket)
    alpaca.fill(str(ticket.order_id), 4, 100)
    heard.wait(2)
    alpaca.cut()
    wait_until(lambda: alpaca.listening() == 0)
    alpaca.fill(str(ticket.order_id), 2, 102)
    assert figures(ask(broker, ticket)) == [("4", 4, 100), ("6", 2, 102)]
    wait_until(lambda: alpaca.listening() == 1)  # the client came back by itself
    alpaca.fill(str(ticket.order_id), 4, 103)
    heard.wait(3)
    whole = ask(broker, ticket)
    assert (whole.status, figures(whole)) == ("filled", [("4", 4, 100), ("6", 2, 102), ("10", 4, 103)])


@pytest.mark.parametrize("name", sorted(CREDENTIALS))
def test_credentials_come_from_the_environment_and_are_never_shown(
    alpaca: Alpaca, connect: Callable[..., AlpacaBroker], name: str
) -> None:
    with pytest.raises(SettingError, match=f"needs {name} in the process environment"):
        connect(**{name: ""})
    broker = connect(**{name: "not-the-one"})
    answer = send(broker, a_ticket())
    assert (answer.status, alpaca.sends) == ("rejected", [])
    assert "not-the-one" not in f"{answer} {broker._credentials!r}"


@pytest.mark.parametrize(
    ("broker", "url"),
    [
        ("alpaca-paper", "https://api.alpaca.markets"),
        ("alpaca-live", "https://paper-api.alpaca.markets"),
        ("alpaca-paper", "https://example.com"),
        ("alpaca-paper", "http://127.0.0.1.example.com"),
        ("alpaca-paper", "http://127.0.0.1@example.com"),
    ],
)
def test_no_address_but_its_own_and_loopback(broker: Any, url: str) -> None:
    with pytest.raises(SettingError, match="DESK_ALPACA_URL"):
        base_url(Settings(broker=broker, alpaca_url=url))


def test_each_account_has_its_own_host() -> None:
    paper, live = (base_url(Settings(broker=name)) for name in ("alpaca-paper", "alpaca-live"))
    assert (paper, live) == ("https://paper-api.alpaca.markets", "https://api.alpaca.markets")
    assert stream_url(live) == "wss://api.alpaca.markets/stream"
    assert stream_url("http://127.0.0.1:1") == "ws://127.0.0.1:1/stream"


def test_only_the_live_account_moves_real_money(alpaca: Alpaca) -> None:
    market = Tape({})
    for name, real in (("alpaca-paper", False), ("alpaca-live", True)):
        settings = Settings.model_validate({"broker": name, "alpaca_url": alpaca.url})
        made = factory.build_broker(settings, market, None, CREDENTIALS)  # type: ignore[arg-type]
        assert (made.name, settings.account, made.real_money) == (name, name, real)


def test_without_the_extra_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}", name="alpaca")

    monkeypatch.setattr(factory.importlib, "import_module", absent)
    with pytest.raises(NotConfigured, match=r"chordesk\[alpaca\]"):
        factory.build_broker(Settings(broker="alpaca-paper"), Tape({}), None, CREDENTIALS)  # type: ignore[arg-type]
