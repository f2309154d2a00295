"""What the desk relies on at a broker, as tests that every broker passes.

A subclass of `BrokerContract` gives the far side of the broker's wire, a stand-in of the venue on loopback:

    class TestAcme(BrokerContract):
        @pytest.fixture
        def far(self):
            with Acme() as stand_in:  # a Far
                yield stand_in

No test reaches anything but loopback, and none needs an account at the venue.
"""

from __future__ import annotations

import datetime as dt
import logging
import socket
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, ClassVar, Literal, cast

import pytest

from chordesk.models.errors import DeskError, SettingError
from chordesk.models.features import BrokerEntry
from chordesk.models.order_terms import TIMES_IN_FORCE
from chordesk.models.orders import AccountView, BrokerAnswer, BrokerFill, BrokerState, OrderTicket
from chordesk.models.settings import Settings
from chordesk.models.settings.schema import BROKERS
from chordesk.models.tables.orders import Preview
from chordesk.tools.brokers.protocol import Broker, Streaming, build_broker
from chordesk.tools.decimals import exact
from chordesk.tools.market.protocol import MarketData

PATIENCE = 60.0  # seconds that a test waits for what must come; none waits where all is well
WORKING = ("submitted", "partially_filled")
ENDED = ("filled", "cancelled", "expired", "rejected")
Fault = Literal["lost-before", "lost-after", "hang", "late", "refused"]


@dataclass(frozen=True, slots=True)
class FarOrder:
    """An order as the far side took it, in the desk's words. symbol: of an option its contract, as OCC has it."""

    symbol: str
    side: str
    quantity: float
    order_type: str
    time_in_force: str
    limit_price: float | None = None
    stop_price: float | None = None
    trail_percent: float | None = None


class Clock:
    """The clock of `built`: real time, within a session."""

    day = None

    def now(self) -> dt.datetime:
        return dt.datetime.now(dt.UTC)

    def is_open(self) -> bool:
        return True


class ClockAlone:
    """A market of which a broker needs the clock alone."""

    name = "clock"
    clock = Clock()


def built(name: str, environ: Mapping[str, str]) -> Broker:
    """Return the broker as the desk builds it, with the keys and the address of `environ`."""
    return build_broker(Settings(broker=name), cast("MarketData", ClockAlone()), cast("Any", None), environ)


class Far(ABC):
    """The far side of a broker, as the tests drive it. Order ids are the desk's, as text. A method that this class has
    and the venue has not may stay: its test is skipped."""

    name: str  # the broker, as in DESK_BROKER
    entry: BrokerEntry  # its description
    sends: Sequence[str] = ()  # the order id of each request to place an order that came in, taken or not
    keys: Mapping[str, str] = {}  # the variables with the keys that the far side knows, by name
    symbols: tuple[str, str] = ("AAPL", "MSFT")  # two shares that it trades
    price: float = 100.0  # of each of them
    wire: ClassVar[bool] = True  # requests can be lost; False of a broker that lives in the process
    several: ClassVar[bool] = True  # several processes may be connected at once

    @abstractmethod
    def connect(self, keys: Mapping[str, str] | None = None, seconds: float | None = None) -> Broker:
        """Return a new broker, as a process of its own makes it. keys: in place of the right ones. seconds: the limit
        of each request, where a test waits for it."""

    @abstractmethod
    def order(self, order_id: str) -> FarOrder | None:
        """Return an order that was taken, None for one that was not."""

    def next_send(self, fault: Fault) -> None:
        """What happens to the next order that is sent: lost-before: not taken, and no answer that can be used.
        lost-after: taken, and none either. hang: never answered and not taken. late: never answered, and taken when
        `arrive` is called. refused: a definite no."""
        pytest.skip(f"no send of this broker is {fault}")

    def arrive(self) -> None:  # noqa: B027 - of a far side that has late orders
        """Take the orders that are late."""

    @abstractmethod
    def fill(self, order_id: str, quantity: float, price: float) -> dt.datetime:
        """Fill some of an order, and return the time at which the venue did."""

    @abstractmethod
    def end(self, order_id: str, how: Literal["cancelled", "expired"]) -> None:
        """End an order without the desk's request."""

    @abstractmethod
    def hold(self, symbol: str, quantity: float, cost: float) -> None:
        """Put a position into the account, negative for a short one."""

    def late_fills(self, late: bool) -> None:
        """From now on the list of fills lags behind the orders, until it is called with False."""
        pytest.skip("its orders and fills come together")

    def cancels_wait(self) -> None:
        """A cancellation is taken from now on, and does not come."""
        pytest.skip("a cancellation is done at once")

    def strange_order(self) -> str:
        """Place an order that is not the desk's, and return its id as the account's list has it."""
        pytest.skip("nobody else uses the account")

    def astray(self, order_id: str) -> None:
        """Each question about an order is answered with this one."""
        pytest.skip("an answer cannot be of another order")

    def missing_figure(self) -> None:
        """The account's cash is missing from its answers from now on."""
        pytest.skip("no figure can be missing")

    def block(self) -> None:
        """The venue takes no orders on the account."""
        pytest.skip("the account cannot be blocked")

    def currency(self, code: str) -> None:
        """The account is kept in this currency."""
        pytest.skip("the account has one currency")

    def away(self) -> None:
        """The far side answers nothing from now on."""
        pytest.skip("the far side is this process")

    def now(self) -> dt.datetime:
        """The venue's time, with its zone."""
        return dt.datetime.now(dt.UTC)

    def view(self) -> AccountView:
        """Return the desk's books, which are handed to the broker with an order."""
        return AccountView(account=self.name, cash=1_000_000, equity=None, positions=[])

    def sending(self, ticket: OrderTicket) -> None:  # noqa: B027 - few need it
        """Called before an order is sent. For a broker with the desk's own rows, which are written then."""

    def booked(self, ticket: OrderTicket, answer: BrokerAnswer) -> None:  # noqa: B027 - few need it
        """Called with each answer, as the desk books it."""


@dataclass(slots=True)
class Line:
    """One process's connection, used as the desk uses it."""

    far: Far
    broker: Broker

    def send(self, ticket: OrderTicket) -> BrokerAnswer:
        self.far.sending(ticket)
        return self._booked(ticket, self.broker.submit(ticket, preview_of(self.far, ticket), self.far.view()))

    def sent(self, ticket: OrderTicket) -> BrokerAnswer | None:
        """Send it; None where the answer is lost, which a DeskError says and no other error."""
        try:
            return self.send(ticket)
        except DeskError:
            return None

    def ask(self, ticket: OrderTicket) -> BrokerAnswer:
        answer = self.find(ticket)
        assert answer is not None, f"the broker does not know order {ticket.order_id}"
        return answer

    def find(self, ticket: OrderTicket) -> BrokerAnswer | None:
        answer = self.broker.lookup(ticket, preview_of(self.far, ticket), self.far.view())
        return None if answer is None else self._booked(ticket, answer)

    def cancel(self, ticket: OrderTicket) -> BrokerAnswer | None:
        answer = self.broker.cancel(ticket)
        return None if answer is None else self._booked(ticket, answer)

    def _booked(self, ticket: OrderTicket, answer: BrokerAnswer) -> BrokerAnswer:
        self.far.booked(ticket, answer)
        return answer


def ticket_at(far: Far, order_type: str = "market", time_in_force: str = "day", **changes: Any) -> OrderTicket:
    """Return an order of 10 shares: one that buys, or a stop that protects shares."""
    stops = "stop" in order_type
    below, above = far.price * 0.9, far.price * 1.1
    prices: dict[str, dict[str, float]] = {
        "market": {},
        "limit": {"limit_price": below},
        "stop": {"stop_price": below},
        "stop_limit": {"stop_price": below, "limit_price": far.price * 0.85},
        "trailing_stop": {"trail_percent": 5.0},
    }
    base: dict[str, Any] = {
        "order_id": uuid.uuid4(),
        "account": far.name,
        "symbol": far.symbols[0],
        "action": "close" if stops else "open",
        "side": "sell" if stops else "buy",
        "quantity": 10.0,
        "placed_at": far.now(),
        "order_type": order_type,
        "time_in_force": time_in_force,
        **prices[order_type],
    }
    if changes.get("side") == "sell" and "limit_price" in base and not stops:
        base["limit_price"] = above
    return OrderTicket.model_validate({**base, **changes})


def preview_of(far: Far, ticket: OrderTicket) -> Preview:
    at, notional = far.now(), ticket.quantity * far.price
    return Preview(
        order_id=str(ticket.order_id), payload="", payload_hash="", price=far.price, priced_at=at, notional=notional
    )


def figures(fills: Sequence[BrokerFill]) -> list[tuple[float, float]]:
    return [(fill.quantity, fill.price) for fill in fills]


def total(fills: Sequence[BrokerFill]) -> float:
    return float(sum((exact(fill.quantity) for fill in fills), Decimal(0)))


def within_patience(call: Callable[[], Any]) -> Any:
    """Return what a call returns, in a thread: one that never ends fails the test, and does not hang it."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(call())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert found, f"no end of it in {PATIENCE:g} s: each request needs a time limit"
    if isinstance(found[0], Exception):
        raise found[0]
    return found[0]


def _words(call: Callable[[], Any]) -> list[str]:
    try:
        return [repr(call())]
    except DeskError as error:
        return [repr(error), str(error), error.remedy]


class Updates:
    """What a stream calls: the order ids that changed."""

    def __init__(self) -> None:
        self.ids: set[str] = set()
        self.came = threading.Event()

    def __call__(self, order_id: str) -> None:
        self.ids.add(order_id)
        self.came.set()


def _on_loopback(address: Any) -> bool:
    return not isinstance(address, tuple) or str(address[0]) in ("127.0.0.1", "::1", "localhost")


class BrokerContract:
    """The tests. A subclass has the fixture `far`, and nothing else."""

    @pytest.fixture
    def far(self) -> Iterator[Far]:
        raise NotImplementedError("a subclass of BrokerContract has a fixture `far`, which yields a Far")

    @pytest.fixture(autouse=True)
    def _described(self, far: Far, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(BROKERS, far.name, far.entry)
        for name in far.entry.credentials:  # they come by `connect`, and by nothing else
            monkeypatch.delenv(name, raising=False)
            monkeypatch.delenv(f"{name}_FILE", raising=False)

    @pytest.fixture(autouse=True)
    def _reached(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Nothing but loopback is reached."""
        elsewhere: list[Any] = []
        connect = socket.socket.connect

        def guarded(self: socket.socket, address: Any) -> None:
            if not _on_loopback(address):
                elsewhere.append(address)
                raise OSError(f"a test reaches loopback alone, not {address}")
            connect(self, address)

        monkeypatch.setattr(socket.socket, "connect", guarded)
        yield
        assert not elsewhere, f"reached beside the far side: {elsewhere}"

    @pytest.fixture
    def line(self, far: Far) -> Iterator[Line]:
        broker = far.connect()
        yield Line(far, broker)
        if isinstance(broker, Streaming):
            broker.close()

    # Sends

    def test_it_is_what_its_description_says(self, far: Far, line: Line) -> None:
        assert line.broker.name == far.name == line.broker.state().account
        assert line.broker.real_money is not far.entry.play_money

    def test_each_order_that_it_takes_arrives_as_it_was_asked_for(self, far: Far, line: Line) -> None:
        far.hold(far.symbols[0], 1000, far.price)
        takes: Mapping[Any, Sequence[str]] = far.entry.takes or TIMES_IN_FORCE
        for order_type, times in takes.items():
            for time_in_force in times:
                ticket = ticket_at(far, order_type, time_in_force)
                answer = line.send(ticket)
                taken = {*WORKING, "filled", *(["cancelled"] if time_in_force == "ioc" else [])}
                assert answer.status in taken, f"{order_type} {time_in_force}: {answer.message}"
                assert answer.broker_order_id, "an order that was taken has the broker's own id"
                names = FarOrder.__dataclass_fields__
                wanted = FarOrder(**{name: getattr(ticket, name) for name in names})
                assert far.order(str(ticket.order_id)) == wanted
                if far.wire:
                    assert list(far.sends).count(str(ticket.order_id)) == 1

    def test_what_it_does_not_take_never_leaves(self, far: Far, line: Line) -> None:
        takes = far.entry.takes or TIMES_IN_FORCE
        strange = [
            ticket_at(far, order_type, time)
            for order_type, times in TIMES_IN_FORCE.items()
            for time in times
            if time not in takes.get(order_type, ())
        ]
        if not far.entry.options:
            contract = f"{far.symbols[0]}301220P00090000"
            strange.append(ticket_at(far, "limit", contract=contract, multiplier=100.0))
        for ticket in strange:
            answer = line.sent(ticket)
            assert answer is None or answer.status == "rejected", f"{ticket.order_type} {ticket.time_in_force}"
            assert far.order(str(ticket.order_id)) is None
        assert not set(far.sends) & {str(ticket.order_id) for ticket in strange}

    def test_an_order_of_an_option_arrives_as_its_contract(self, far: Far, line: Line) -> None:
        if not far.entry.options:
            pytest.skip("it takes no options")
        contract = f"{far.symbols[0]}301220P00090000"
        ticket = ticket_at(far, "limit", contract=contract, multiplier=100.0, quantity=2.0, limit_price=1.5)
        assert line.send(ticket).status in WORKING
        taken = far.order(str(ticket.order_id))
        assert taken == FarOrder(contract, "buy", 2.0, "limit", "day", limit_price=1.5), "2 contracts, not 2 shares"

    def test_a_definite_no_is_a_rejection_with_its_reason(self, far: Far, line: Line) -> None:
        far.next_send("refused")
        ticket = ticket_at(far)
        answer = line.send(ticket)
        assert (answer.status, answer.fills, answer.broker_order_id) == ("rejected", [], None)
        assert answer.message, "a rejection says why"
        assert far.order(str(ticket.order_id)) is None

    # Lost, doubled and late answers

    def test_a_lost_answer_leaves_one_order_and_it_is_found(self, far: Far, line: Line) -> None:
        far.next_send("lost-after")
        ticket = ticket_at(far)
        answer = line.sent(ticket)
        assert answer is None or answer.status in WORKING, f"it was taken, and the answer is {answer}"
        assert line.ask(ticket).status == "submitted"
        assert list(far.sends) == [str(ticket.order_id)], "an order is sent once, whatever became of the answer"

    def test_an_order_that_never_arrived_is_not_known_and_is_not_sent_again(self, far: Far, line: Line) -> None:
        far.next_send("lost-before")
        ticket = ticket_at(far)
        assert line.sent(ticket) is None, "nothing said no: the outcome is not known"
        assert line.find(ticket) is None
        assert line.cancel(ticket) is None
        assert list(far.sends) == [str(ticket.order_id)]
        assert far.order(str(ticket.order_id)) is None

    def test_a_send_without_an_answer_ends_by_its_limit(self, far: Far) -> None:
        line = Line(far, far.connect(seconds=0.5))
        far.next_send("hang")
        ticket = ticket_at(far)
        assert within_patience(lambda: line.sent(ticket)) is None, "nothing said no: the outcome is not known"
        assert list(far.sends) == [str(ticket.order_id)]

    def test_an_order_that_arrives_after_its_limit_is_found_then(self, far: Far) -> None:
        line = Line(far, far.connect(seconds=0.5))
        far.next_send("late")
        ticket = ticket_at(far)
        assert within_patience(lambda: line.sent(ticket)) is None
        with suppress(DeskError):  # as well: it cannot be known yet
            assert line.find(ticket) is None
        far.arrive()
        assert line.ask(ticket).status == "submitted"
        assert far.order(str(ticket.order_id)) is not None
        assert list(far.sends) == [str(ticket.order_id)]

    def test_a_second_send_of_an_order_finds_the_first(self, far: Far, line: Line) -> None:
        if not far.wire:
            pytest.skip("its orders are the desk's own rows")
        ticket = ticket_at(far)
        first = line.send(ticket)
        far.fill(str(ticket.order_id), 4, far.price)
        again = Line(far, far.connect()).sent(ticket)
        assert again is None or again.broker_order_id == first.broker_order_id
        found = line.ask(ticket)
        assert (found.broker_order_id, figures(found.fills)) == (first.broker_order_id, [(4, far.price)])
        working = [row.broker_order_id for row in line.broker.state().open_orders]
        assert working == [first.broker_order_id], "an order that is sent twice is there once"

    def test_no_call_invents_an_answer_while_the_far_side_is_away(self, far: Far, line: Line) -> None:
        ticket = ticket_at(far)
        line.send(ticket)
        far.away()
        for call in (lambda: line.send(ticket_at(far)), lambda: line.ask(ticket), lambda: line.cancel(ticket)):
            with pytest.raises(DeskError):
                within_patience(call)
        with pytest.raises(DeskError):
            within_patience(line.broker.state)

    def test_the_answer_of_another_order_is_no_answer(self, far: Far, line: Line) -> None:
        mine, other = ticket_at(far), ticket_at(far, symbol=far.symbols[1], quantity=3.0)
        line.send(mine)
        line.send(other)
        far.astray(str(other.order_id))
        with pytest.raises(DeskError):
            line.find(mine)
        with pytest.raises(DeskError):
            line.cancel(mine)
        assert line.ask(other).status == "submitted", "an order of another answer is not cancelled"

    # Fills and ends

    def test_each_answer_has_all_fills_so_far(self, far: Far, line: Line) -> None:
        ticket = ticket_at(far)
        line.send(ticket)
        assert line.ask(ticket).fills == []
        parts = [(2.0, far.price), (3.0, far.price + 1), (5.0, far.price - 0.5)]
        for at, (quantity, price) in enumerate(parts, 1):
            far.fill(str(ticket.order_id), quantity, price)
            for _ in range(2):
                answer = line.ask(ticket)
                assert figures(answer.fills) == parts[:at]
                assert answer.status == ("filled" if at == len(parts) else "partially_filled")

    def test_a_fill_has_its_id_and_its_time_on_every_connection(self, far: Far, line: Line) -> None:
        ticket = ticket_at(far)
        line.send(ticket)
        times = [far.fill(str(ticket.order_id), 4, far.price)]
        first = line.ask(ticket).fills
        times.append(far.fill(str(ticket.order_id), 6, far.price))
        for broker in (line.broker, far.connect()):
            found = Line(far, broker).ask(ticket).fills
            ids = [fill.id for fill in found]
            assert found[:1] == first, "a fill that was told never changes"
            assert len(set(ids)) == len(ids) or ids == [None, None], "the same figures twice are two fills"
            for fill, at in zip(found, times, strict=True):
                assert fill.at.tzinfo is not None, "a time has its zone"
                assert abs(fill.at - at) < dt.timedelta(seconds=1), "a fill's time is the venue's, in whichever zone"

    def test_a_stream_tells_of_the_fills_that_a_question_finds(self, far: Far, line: Line) -> None:
        if not isinstance(line.broker, Streaming):
            pytest.skip("it has no stream")
        updates = Updates()
        line.broker.listen(updates)
        ticket = ticket_at(far, quantity=200.0)
        line.send(ticket)
        far.fill(str(ticket.order_id), 4, far.price)
        for _ in range(100):  # before it listened, nothing was told: lookups find it all the same
            if updates.came.wait(PATIENCE / 100):
                break
            far.fill(str(ticket.order_id), 1, far.price)
        assert updates.ids == {str(ticket.order_id)}
        streamed, polled = line.ask(ticket).fills, Line(far, far.connect()).ask(ticket).fills
        assert [fill.id for fill in streamed] == [fill.id for fill in polled]
        assert figures(streamed) == figures(polled)
        for one, other in zip(streamed, polled, strict=True):
            assert abs(one.at - other.at) < dt.timedelta(seconds=1)

    def test_an_end_is_told_with_all_its_fills_and_not_before(self, far: Far, line: Line) -> None:
        filled, cancelled = ticket_at(far), ticket_at(far, symbol=far.symbols[1])
        line.send(filled)
        line.send(cancelled)
        far.late_fills(True)
        far.fill(str(filled.order_id), 10, far.price)
        far.fill(str(cancelled.order_id), 4, far.price)
        far.end(str(cancelled.order_id), "cancelled")
        for ticket in (filled, cancelled):
            assert line.ask(ticket).status in WORKING, "its fills are not all there yet"
        far.late_fills(False)
        for ticket, status, quantity in ((filled, "filled", 10), (cancelled, "cancelled", 4)):
            answer = line.ask(ticket)
            assert (answer.status, total(answer.fills)) == (status, quantity)

    @pytest.mark.parametrize("how", ["cancelled", "expired"])
    def test_an_end_that_nobody_asked_for_is_found_with_what_was_filled(
        self, far: Far, line: Line, how: Literal["cancelled", "expired"]
    ) -> None:
        ticket = ticket_at(far)
        line.send(ticket)
        far.fill(str(ticket.order_id), 4, far.price)
        line.ask(ticket)
        far.end(str(ticket.order_id), how)
        answer = line.ask(ticket)
        assert (answer.status, figures(answer.fills)) == (how, [(4, far.price)])

    # Cancellations

    def test_a_working_order_is_cancelled_with_what_was_filled(self, far: Far, line: Line) -> None:
        ticket = ticket_at(far, "limit")
        line.send(ticket)
        far.fill(str(ticket.order_id), 4, far.price * 0.9)
        line.ask(ticket)
        answer = line.cancel(ticket)
        assert answer is not None
        if answer.status in WORKING:
            answer = line.ask(ticket)
        assert (answer.status, total(answer.fills)) == ("cancelled", 4)
        assert [row.client_id for row in line.broker.state().open_orders] == []

    def test_a_cancellation_that_comes_too_late_finds_the_fill(self, far: Far, line: Line) -> None:
        ticket = ticket_at(far)
        line.send(ticket)
        far.fill(str(ticket.order_id), 10, far.price)
        if not far.wire:
            line.ask(ticket)  # what was not recorded never happened
        for _ in range(2):
            answer = line.cancel(ticket)
            assert answer is not None
            assert (answer.status, total(answer.fills)) == ("filled", 10)

    def test_a_cancellation_that_does_not_come_leaves_the_order_working(self, far: Far, line: Line) -> None:
        ticket = ticket_at(far)
        line.send(ticket)
        far.cancels_wait()
        answer = line.cancel(ticket)
        assert answer is not None
        assert answer.status in WORKING, "a request to cancel is no end"
        far.fill(str(ticket.order_id), 10, far.price)
        found = line.ask(ticket)
        assert (found.status, total(found.fills)) == ("filled", 10)

    # The account

    def test_the_account_follows_the_fills(self, far: Far, line: Line) -> None:
        before = line.broker.state()
        first, second = far.symbols
        bought, partly = ticket_at(far), ticket_at(far, symbol=second)
        for ticket, quantity in ((bought, 10), (partly, 3)):
            line.send(ticket)
            far.fill(str(ticket.order_id), quantity, far.price)
        fees = sum(
            (exact(fill.commission) for ticket in (bought, partly) for fill in line.ask(ticket).fills), Decimal(0)
        )
        state = line.broker.state()
        assert {row.symbol: row.quantity for row in state.positions if row.quantity} == {first: 10, second: 3}
        assert all(row.average_cost == pytest.approx(far.price, rel=0.01) for row in state.positions)
        assert exact(state.cash) == exact(before.cash) - 13 * exact(far.price) - fees
        assert [(row.client_id, row.quantity, row.filled) for row in state.open_orders] == [
            (str(partly.order_id), 10, 3)
        ]
        told = {(row.client_id, row.symbol, row.side, row.fill.quantity) for row in state.fills}
        assert told == {(str(bought.order_id), first, "buy", 10), (str(partly.order_id), second, "buy", 3)}

    def test_a_short_position_is_negative_and_a_long_one_is_not(self, far: Far, line: Line) -> None:
        far.hold(far.symbols[0], -7, far.price)
        far.hold(far.symbols[1], 5, far.price)
        state = line.broker.state()
        assert {row.symbol: row.quantity for row in state.positions} == {far.symbols[0]: -7, far.symbols[1]: 5}
        assert all(row.average_cost > 0 for row in state.positions)

    def test_an_order_that_is_not_the_desks_is_told(self, far: Far, line: Line) -> None:
        strange = far.strange_order()
        ticket = ticket_at(far)
        line.send(ticket)
        assert {row.client_id for row in line.broker.state().open_orders} == {strange, str(ticket.order_id)}

    def test_a_figure_that_is_missing_is_not_taken_for_nothing(self, far: Far, line: Line) -> None:
        far.missing_figure()
        with pytest.raises(DeskError):
            line.broker.state()

    def test_a_blocked_account_says_so(self, far: Far, line: Line) -> None:
        assert line.broker.state().blocked is None
        far.block()
        assert line.broker.state().blocked

    def test_money_of_another_currency_is_not_taken_for_the_desks(self, far: Far, line: Line) -> None:
        far.currency("EUR")
        try:
            state: BrokerState | None = line.broker.state()
        except DeskError:
            state = None
        told = state is None or state.currency == "EUR" or "EUR" in (state.blocked or "")
        assert told, "its cash would be counted as dollars"

    # Keys and processes

    def test_no_key_is_shown(
        self, far: Far, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
    ) -> None:
        if not far.keys:
            pytest.skip("it has no keys")
        wrong = {name: f"wrongQuetzal{at}" for at, name in enumerate(far.keys)}
        caplog.set_level(logging.DEBUG)
        texts = []
        for given in (None, wrong):
            line = Line(far, far.connect(keys=given))
            far.next_send("refused")
            far.next_send("lost-before")
            for _ in range(3):
                texts += _words(lambda: line.send(ticket_at(far)))  # noqa: B023 - called at once
            texts += _words(line.broker.state)
            texts.append(f"{line.broker!r} {line.broker}")
        shown = "\n".join((*texts, caplog.text, *capfd.readouterr()))
        secrets = [*far.keys.values(), *wrong.values()]
        assert [each for each in secrets if each in shown] == []

    def test_without_one_of_its_keys_it_is_not_built(self, far: Far) -> None:
        assert tuple(far.keys) == far.entry.credentials, "the description names the keys"
        for name in far.keys:
            with pytest.raises(SettingError, match=name):
                far.connect(keys={other: value for other, value in far.keys.items() if other != name})

    def test_two_processes_have_each_their_own_answers(self, far: Far) -> None:
        if not far.wire or not far.several:
            pytest.skip("one process alone is connected")
        lines = [Line(far, far.connect()) for _ in range(2)]
        tickets = [[ticket_at(far, symbol=symbol, quantity=2.0) for _ in range(4)] for symbol in far.symbols]
        answers: dict[str, BrokerAnswer] = {}

        def run(line: Line, mine: Sequence[OrderTicket]) -> None:
            for ticket in mine:
                answers[str(ticket.order_id)] = line.send(ticket)

        threads = [threading.Thread(target=run, args=pair, daemon=True) for pair in zip(lines, tickets, strict=True)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        every = [ticket for mine in tickets for ticket in mine]
        assert sorted(far.sends) == sorted(str(ticket.order_id) for ticket in every)
        for line, theirs in zip(lines, reversed(tickets), strict=True):
            for ticket in theirs:
                assert line.ask(ticket).broker_order_id == answers[str(ticket.order_id)].broker_order_id
        ended = lines[0].cancel(tickets[1][0])
        assert ended is not None, "any process may cancel"
        if ended.status in WORKING:
            ended = lines[1].ask(tickets[1][0])
        assert ended.status == "cancelled"
        assert len(lines[0].broker.state().open_orders) == len(every) - 1
