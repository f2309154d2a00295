"""Each test of the brokers' contract can fail: a broker with one fault each, beside the toy package's that passes."""

from __future__ import annotations

import datetime as dt
import inspect
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from chordesk_toy import broker
from chordesk_toy.broker import ToyBroker, Unanswered
from toy_exchange import Exchange

from chordesk.models.errors import DeskError
from chordesk.models.orders import AccountView, BrokerAnswer, BrokerFill, BrokerState, OrderTicket
from chordesk.models.settings.schema import BROKERS
from chordesk.models.tables.orders import Preview
from chordesk.testing import broker as contract
from chordesk.testing.broker import BrokerContract, Line

_answer, _fill, _ask = broker._answer, broker._fill, ToyBroker._ask


def submit(change: Callable[[ToyBroker, OrderTicket, Callable[[OrderTicket], BrokerAnswer]], Any]) -> Any:
    """A broker whose `submit` is `change`, given the right one."""

    class Faulty(ToyBroker):
        def submit(self, ticket: OrderTicket, preview: Preview, account: AccountView) -> BrokerAnswer:
            found: BrokerAnswer = change(self, ticket, lambda one: ToyBroker.submit(self, one, preview, account))
            return found

    return {"ToyBroker": Faulty}


def state(**changes: Any) -> Any:
    class Faulty(ToyBroker):
        def state(self) -> BrokerState:
            found = super().state()
            own = {name: change(getattr(found, name)) for name, change in changes.items()}
            return found.model_copy(update=own)

    return {"ToyBroker": Faulty}


def answer(**changes: Any) -> Any:
    """Every answer changed."""

    def faulty(ticket: OrderTicket, row: Any) -> BrokerAnswer:
        found = _answer(ticket, row)
        return found.model_copy(update={name: change(getattr(found, name)) for name, change in changes.items()})

    return {"_answer": faulty}


def again(self: ToyBroker, ticket: OrderTicket, send: Callable[[OrderTicket], BrokerAnswer]) -> BrokerAnswer:
    try:
        return send(ticket)
    except Unanswered:
        return send(ticket)


def of_shares(self: ToyBroker, ticket: OrderTicket, send: Callable[[OrderTicket], BrokerAnswer]) -> BrokerAnswer:
    return send(ticket.model_copy(update={"contract": None}))


def no_by_silence(self: ToyBroker, ticket: OrderTicket, send: Callable[[OrderTicket], BrokerAnswer]) -> BrokerAnswer:
    try:
        return send(ticket)
    except Unanswered as error:
        return broker._rejected(str(error))


def silence_by_no(self: ToyBroker, ticket: OrderTicket, send: Callable[[OrderTicket], BrokerAnswer]) -> BrokerAnswer:
    found = send(ticket)
    if found.status == "rejected":
        raise Unanswered("no order came of it")
    return found


def under_another_id(self: ToyBroker, ticket: OrderTicket, send: Any) -> BrokerAnswer:
    status, row = self._ask("POST", "/orders", broker._wanted(ticket))
    if status == 409:
        status, row = self._ask("POST", "/orders", {**broker._wanted(ticket), "id": str(uuid.uuid4())})
    return _answer(ticket, {**row, "id": str(ticket.order_id)})


def unchecked(self: ToyBroker, ticket: OrderTicket, send: Any) -> BrokerAnswer:
    return _answer(ticket, self._ask("POST", "/orders", broker._wanted(ticket))[1])


def without_limit(self: ToyBroker, ticket: OrderTicket, send: Callable[[OrderTicket], BrokerAnswer]) -> BrokerAnswer:
    return send(ticket.model_copy(update={"limit_price": None}))


class Patient(ToyBroker):
    """No time limit."""

    def _ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        broker.SECONDS = 30.0
        return super()._ask(method, path, body)


class Remembers(ToyBroker):
    """What it did not know once it never knows."""

    def __init__(self, *given: str) -> None:
        super().__init__(*given)
        self.unknown: set[str] = set()

    def lookup(self, ticket: OrderTicket, preview: Preview, account: AccountView) -> BrokerAnswer | None:
        found = None if str(ticket.order_id) in self.unknown else super().lookup(ticket, preview, account)
        if found is None:
            self.unknown.add(str(ticket.order_id))
        return found


class Quiet(ToyBroker):
    """Silence is taken for an order that is not there."""

    def lookup(self, ticket: OrderTicket, preview: Preview, account: AccountView) -> BrokerAnswer | None:
        try:
            return super().lookup(ticket, preview, account)
        except Unanswered:
            return None


class Own(ToyBroker):
    """It knows the orders of its own process alone."""

    def __init__(self, *given: str) -> None:
        super().__init__(*given)
        self.mine: set[str] = set()

    def submit(self, ticket: OrderTicket, preview: Preview, account: AccountView) -> BrokerAnswer:
        self.mine.add(str(ticket.order_id))
        return super().submit(ticket, preview, account)

    def lookup(self, ticket: OrderTicket, preview: Preview, account: AccountView) -> BrokerAnswer | None:
        return super().lookup(ticket, preview, account) if str(ticket.order_id) in self.mine else None


class Cancels(ToyBroker):
    """A request to cancel is an end."""

    def cancel(self, ticket: OrderTicket) -> BrokerAnswer | None:
        found = super().cancel(ticket)
        return found.model_copy(update={"status": "cancelled"}) if found else None


class Forgets(ToyBroker):
    """What was filled is gone with the cancellation."""

    def cancel(self, ticket: OrderTicket) -> BrokerAnswer | None:
        found = super().cancel(ticket)
        return found.model_copy(update={"fills": []}) if found else None


class Streams(ToyBroker):
    def listen(self, changed: Callable[[str], None]) -> None:
        changed("its own number")

    def close(self) -> None:
        """Nothing is open."""


class Shows(ToyBroker):
    def __repr__(self) -> str:
        return f"ToyBroker({self._place}, {self._key})"


class Tells(ToyBroker):
    def _ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        try:
            return super()._ask(method, path, body)
        except Unanswered as error:
            raise Unanswered(f"{error} with the key {self._key}") from None


class Renamed(ToyBroker):
    def __init__(self, name: str, *given: str) -> None:
        super().__init__(f"{name}-account", *given)


def of_any_order(ticket: OrderTicket, row: Any) -> BrokerAnswer:
    terms = ("symbol", "quantity")
    return _answer(ticket.model_copy(update={name: row[name] for name in terms}), {**row, "id": str(ticket.order_id)})


def at_once(ticket: OrderTicket, row: Any) -> BrokerAnswer:
    return _answer(ticket, row).model_copy(update={"status": broker.STATES[row["state"]]})


def numbered_anew(fill: Any) -> BrokerFill:
    return _fill({**fill, "number": str(uuid.uuid4())})


def without_zone(fill: Any) -> BrokerFill:
    eastern = dt.datetime.fromisoformat(fill["at"]) - dt.timedelta(hours=4)
    return _fill({**fill, "at": eastern.isoformat()})


def any_key(name: str, environ: Mapping[str, str]) -> dict[str, str]:
    return {"TOY_BROKER_KEY": environ.get("TOY_BROKER_KEY", "")}


Patches = Mapping[str, Any]
FAULTS: list[tuple[str, Patches]] = [
    ("test_it_is_what_its_description_says", {"ToyBroker": Renamed}),
    ("test_each_order_that_it_takes_arrives_as_it_was_asked_for", submit(without_limit)),
    ("test_what_it_does_not_take_never_leaves", submit(unchecked)),
    ("test_an_order_of_an_option_arrives_as_its_contract", submit(of_shares)),
    ("test_a_definite_no_is_a_rejection_with_its_reason", submit(silence_by_no)),
    ("test_a_lost_answer_leaves_one_order_and_it_is_found", submit(again)),
    ("test_a_lost_answer_leaves_one_order_and_it_is_found", submit(no_by_silence)),
    ("test_an_order_that_never_arrived_is_not_known_and_is_not_sent_again", submit(no_by_silence)),
    ("test_an_order_that_never_arrived_is_not_known_and_is_not_sent_again", submit(again)),
    ("test_a_send_without_an_answer_ends_by_its_limit", {"ToyBroker": Patient}),
    ("test_a_send_without_an_answer_ends_by_its_limit", submit(no_by_silence)),
    ("test_an_order_that_arrives_after_its_limit_is_found_then", {"ToyBroker": Remembers}),
    ("test_a_second_send_of_an_order_finds_the_first", submit(under_another_id)),
    ("test_no_call_invents_an_answer_while_the_far_side_is_away", {"ToyBroker": Quiet}),
    ("test_no_call_invents_an_answer_while_the_far_side_is_away", submit(no_by_silence)),
    ("test_the_answer_of_another_order_is_no_answer", {"_answer": of_any_order}),
    ("test_each_answer_has_all_fills_so_far", answer(fills=lambda fills: fills[-1:])),
    ("test_a_fill_has_its_id_and_its_time_on_every_connection", {"_fill": numbered_anew}),
    ("test_a_fill_has_its_id_and_its_time_on_every_connection", {"_fill": without_zone}),
    ("test_a_stream_tells_of_the_fills_that_a_question_finds", {"ToyBroker": Streams}),
    ("test_an_end_is_told_with_all_its_fills_and_not_before", {"_answer": at_once}),
    (
        "test_an_end_that_nobody_asked_for_is_found_with_what_was_filled",
        {"STATES": {**broker.STATES, "expired": "cancelled"}},
    ),
    ("test_a_working_order_is_cancelled_with_what_was_filled", {"ToyBroker": Forgets}),
    ("test_a_cancellation_that_comes_too_late_finds_the_fill", {"ToyBroker": Cancels}),
    ("test_a_cancellation_that_does_not_come_leaves_the_order_working", {"ToyBroker": Cancels}),
    ("test_the_account_follows_the_fills", state(fills=lambda rows: [])),
    ("test_the_account_follows_the_fills", state(cash=lambda cash: 100_000.0)),
    ("test_a_short_position_is_negative_and_a_long_one_is_not", {"_number": lambda value: abs(float(value))}),
    ("test_an_order_that_is_not_the_desks_is_told", state(open_orders=lambda rows: rows[1:])),
    ("test_a_figure_that_is_missing_is_not_taken_for_nothing", {"_number": lambda value: float(value or 0)}),
    ("test_a_blocked_account_says_so", state(blocked=lambda why: None)),
    ("test_money_of_another_currency_is_not_taken_for_the_desks", state(blocked=lambda why: None)),
    ("test_no_key_is_shown", {"ToyBroker": Shows}),
    ("test_no_key_is_shown", {"ToyBroker": Tells}),
    ("test_without_one_of_its_keys_it_is_not_built", {"broker_keys": any_key}),
    ("test_two_processes_have_each_their_own_answers", {"ToyBroker": Own}),
]


@pytest.mark.parametrize(("test", "patches"), FAULTS, ids=[f"{at}-{test}" for at, (test, _) in enumerate(FAULTS)])
def test_a_broker_with_one_fault_does_not_pass(
    test: str,
    patches: Patches,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(contract, "PATIENCE", 1.5)
    monkeypatch.setattr(broker, "SECONDS", broker.SECONDS)
    for name, fault in patches.items():
        monkeypatch.setattr(broker, name, fault)
    with Exchange() as far:
        if "of_an_option" in test:
            far.entry = replace(far.entry, options=True)
        monkeypatch.setitem(BROKERS, far.name, far.entry)
        method = getattr(BrokerContract(), test)
        known: dict[str, Any] = {"far": far, "caplog": caplog, "capfd": capfd, "how": "expired"}
        wanted = inspect.signature(method).parameters
        if "line" in wanted:
            known["line"] = Line(far, far.connect())
        with pytest.raises((AssertionError, pytest.fail.Exception, DeskError)):
            method(**{name: known[name] for name in wanted})


def test_every_test_of_the_contract_has_such_a_fault() -> None:
    assert {test for test, _ in FAULTS} == {name for name in vars(BrokerContract) if name.startswith("test_")}
