"""Mandates: signed by a person, verified by each process that would send an order, and never stretched."""

from __future__ import annotations

import base64
import datetime as dt
import json
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlmodel import Session, select

from chordesk.models.database.store import Store
from chordesk.models.errors import SettingError, UsageError
from chordesk.models.orders import DenialCode, Denied, MandateTerms, signed_bytes
from chordesk.models.settings import Settings
from chordesk.models.settings.sources import load_settings
from chordesk.models.states import OrderState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Fill, Mandate, Order, Preview
from chordesk.models.tables.runs import Run, Verdict
from chordesk.tasks.cli import arming
from chordesk.tools.orders import halting
from chordesk.tools.orders.audit import log_path
from chordesk.tools.orders.mandates import PAYLOAD_KEY, MandateUsage, check, hold_of, in_force, usage_of
from chordesk.tools.orders.previews import terms_of
from tests.builders import a_run
from tests.databases import make_database
from tests.tasks.views.chain import a_chain

LIVE = "alpaca-live"


class Person:
    """Person with a key, and a desk with its public half."""

    def __init__(self, home: Path) -> None:
        self.key = arming.signing_key(home / "person" / "mandate.key")
        self.settings = Settings(home=home, mandate_public_key=arming.public_text(self.key))
        make_database(self.settings.database)
        self.store = Store(self.settings.database)

    def arm(self, **changes: Any) -> MandateTerms:
        wanted: dict[str, Any] = {
            "key": self.key, "broker": LIVE, "max_notional": Decimal(10_000), "max_orders": 3,
            "symbols": ["acme", "IBM"], "hours": 8.0, "by": "ann@desk",
        }  # fmt: skip
        return arming.arm(self.store, self.settings, **{**wanted, **changes})

    def standing(self) -> MandateTerms | Denied:
        with self.store.read() as session:
            return in_force(session, self.settings, LIVE)

    def denied(self) -> str:
        """Why no mandate holds; what was measured."""
        found = self.standing()
        assert isinstance(found, Denied)
        assert found.code is DenialCode.NO_MANDATE
        return found.measured

    def alter(self, **columns: Any) -> None:
        with self.store.session() as session:
            row = session.exec(select(Mandate)).one()
            for name, value in columns.items():
                setattr(row, name, value)
            session.add(row)


@pytest.fixture
def person(tmp_path: Path) -> Iterator[Person]:
    made = Person(tmp_path)
    yield made
    made.store.close()


def test_a_mandate_holds_as_it_was_armed(person: Person) -> None:
    terms = person.arm()
    assert person.standing() == terms
    assert (terms.version, terms.symbols, terms.armed_by) == (1, ("ACME", "IBM"), "ann@desk")
    assert terms.expires_at - terms.armed_at == dt.timedelta(hours=8)


def test_without_one_nothing_holds(person: Person) -> None:
    assert person.denied() == "none"
    person.arm(broker="another")
    assert person.denied() == "none"


def test_the_newest_replaces_the_one_before(person: Person) -> None:
    person.arm()
    assert person.arm(max_orders=1).version == 2
    found = person.standing()
    assert isinstance(found, MandateTerms)
    assert (found.version, found.max_orders) == (2, 1)


def test_disarmed_is_over_at_once_and_for_good(person: Person) -> None:
    person.arm()
    person.arm()
    assert halting.disarm(person.store, person.settings, LIVE, "bob@desk") == [1, 2]
    assert person.denied() == "disarmed"
    assert halting.disarm(person.store, person.settings, None, "bob@desk") == []


def test_a_log_that_cannot_be_written_keeps_no_mandate_alive(person: Person) -> None:
    person.arm()
    log_path(person.settings).unlink()
    log_path(person.settings).mkdir()
    with pytest.raises(Exception, match="cannot be written"):
        halting.disarm(person.store, person.settings, LIVE, "bob@desk")
    assert person.denied() == "disarmed"
    with pytest.raises(Exception, match="cannot be written"):
        person.arm()
    assert person.denied() == "disarmed"


def test_arming_and_disarming_are_on_record(person: Person) -> None:
    person.arm()
    halting.disarm(person.store, person.settings, LIVE, "bob@desk")
    rows = [json.loads(line) for line in log_path(person.settings).read_text().splitlines()]
    assert [(row["kind"], row["facts"].get("by", row["facts"].get("armed_by"))) for row in rows[1:]] == [
        ("armed", "ann@desk"),
        ("disarmed", "bob@desk"),
    ]


def at_hours(person: Person, begin: float, end: float) -> None:
    """Put a mandate in force from and to so many hours from now, well signed."""
    terms = person.arm()
    now = utcnow()
    moved = terms.model_copy(
        update={"armed_at": now + dt.timedelta(hours=begin), "expires_at": now + dt.timedelta(hours=end)}
    )
    document = moved.document()
    signature = base64.b64encode(person.key.sign(signed_bytes(document))).decode()
    person.alter(document=document, signature=signature)


@pytest.mark.parametrize(
    ("begin", "end", "measured"),
    [
        (-8, 0.01, None),
        (0.02, 8, None),  # a clock that is a little behind
        (-8, -0.001, "expired"),
        (0.05, 8, "not begun"),
    ],
)
def test_its_time_is_its_time(person: Person, begin: float, end: float, measured: str | None) -> None:
    at_hours(person, begin, end)
    if measured is None:
        assert isinstance(person.standing(), MandateTerms)
    else:
        assert person.denied() == measured


@pytest.mark.parametrize(
    ("was", "now"),
    [('"max_orders":3', '"max_orders":9'), ('"10000"', '"90000"'), ('["ACME","IBM"]', '["*"]'), ("+00:00", "+01:00")],
)
def test_an_altered_document_is_none(person: Person, was: str, now: str) -> None:
    document = person.arm().document()
    assert was in document
    person.alter(document=document.replace(was, now))
    assert person.denied() == "bad signature"


def test_only_its_own_signature_of_a_mandate_counts(person: Person) -> None:
    """The key may sign other things; only what was signed as a mandate is one."""
    document = person.arm().document()
    bare = base64.b64encode(person.key.sign(document.encode())).decode()
    other = base64.b64encode(Ed25519PrivateKey.generate().sign(signed_bytes(document))).decode()
    for signature in ("", "not base64!", "AAAA", bare, other):
        person.alter(signature=signature)
        assert person.denied() == "bad signature"


@pytest.mark.parametrize(
    ("broker", "moved"), [(LIVE, {"version": 7}), ("alpaca-paper", {"broker": LIVE})], ids=["version", "broker"]
)
def test_a_document_cannot_be_put_into_another_row(person: Person, broker: str, moved: dict[str, Any]) -> None:
    person.arm(broker=broker)
    person.alter(**moved)
    assert person.denied() == "another's document"


def test_without_the_public_key_nothing_can_be_verified(person: Person) -> None:
    person.arm()
    with person.store.read() as session:
        found = in_force(session, Settings(home=person.settings.home), LIVE)
    assert isinstance(found, Denied)
    assert found.measured == "no public key"


@pytest.mark.parametrize("value", ["short", "AAAA", "ü" * 44])
def test_a_public_key_that_is_none_is_refused_by_name(value: str, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="DESK_MANDATE_PUBLIC_KEY"):
        load_settings({"DESK_HOME": str(tmp_path), "DESK_MANDATE_PUBLIC_KEY": value}, tmp_path)


@pytest.mark.parametrize("wrong", ["nothing", "forged", "altered", "ended", "disarmed"])
def test_a_preview_is_made_under_a_mandate_that_holds_and_no_other(person: Person, wrong: str) -> None:
    """As submitting asks for it: there is one way to find the mandate in force."""
    if wrong == "ended":
        at_hours(person, -8, -0.001)
    else:
        person.arm(**({"key": Ed25519PrivateKey.generate()} if wrong == "forged" else {}))
    if wrong == "altered":
        person.alter(signature=base64.b64encode(b"x" * 64).decode())
    if wrong == "disarmed":
        halting.disarm(person.store, person.settings, LIVE, "bob@desk")
    with person.store.read() as session:
        found = terms_of(session, person.settings, "tape", LIVE).mandate
    assert found == (1 if wrong == "nothing" else None)


# An order under a mandate


class Book:
    """Orders of the live account, previewed under a mandate."""

    def __init__(self, person: Person, session: Session) -> None:
        self.person, self.session = person, session
        self.chain = a_chain(session)
        self.run = session.get_one(Run, self.chain.run_id)
        self.numbers = 100

    def order(self, notional: float, version: int | None = 1, symbol: str = "ACME", **values: Any) -> Order:
        run = a_run(self.session, account=LIVE)
        self.numbers += 1
        other = self.session.get_one(Order, self.chain.order_id)
        defaults = {
            "id": str(uuid.uuid4()), "run_id": run.id, "decision_id": other.decision_id, "symbol": symbol,
            "verdict_id": other.verdict_id, "ordinal": self.numbers, "account": LIVE, "action": "open", "side": "buy",
            "quantity": 1.0, "state": OrderState.APPROVED, "market_at": other.market_at,
        }  # fmt: skip
        order = Order(**{**defaults, **values})
        self.session.add(order)
        self.session.flush()
        payload = json.dumps({PAYLOAD_KEY: version})
        self.session.add(
            Preview(
                order_id=order.id, payload=payload, payload_hash="ab" * 32, price=notional, notional=notional,
                priced_at=other.market_at,
            )
        )  # fmt: skip
        self.session.flush()
        return order

    def sent(self, notional: float, version: int = 1, **values: Any) -> Order:
        return self.order(notional, version, fence=1, **{"state": OrderState.FILLED, **values})

    def check(self, order: Order, price: float | None = None) -> Denied | None:
        """price: the one found at submission; the preview's if none is named."""
        preview = self.session.exec(select(Preview).where(Preview.order_id == order.id)).one()
        return check(self.session, self.person.settings, order, preview, preview.price if price is None else price)


def measured(found: Denied | None) -> tuple[str, str]:
    assert found is not None
    assert found.code is DenialCode.MANDATE_EXCEEDED
    return found.measured, found.limit


@pytest.fixture
def armed(person: Person) -> Iterator[Book]:
    person.arm()
    with person.store.session() as session:
        yield Book(person, session)


def test_without_a_mandate_no_order_goes(person: Person) -> None:
    with person.store.session() as session:
        book = Book(person, session)
        found = book.check(book.order(1.0))
    assert found is not None
    assert found.code is DenialCode.NO_MANDATE


@pytest.mark.parametrize(
    ("rating", "caution", "action", "goes"),
    [
        ("BUY", False, "open", True), ("CAUTION", False, "open", False), ("CAUTION", True, "open", True),
        ("CAUTION", False, "close", True),
    ],
)  # fmt: skip
def test_what_rests_on_a_caution_goes_under_a_mandate_that_says_so(
    person: Person, rating: str, caution: bool, action: str, goes: bool
) -> None:
    person.arm(caution=caution)
    with person.store.session() as session:
        order = Book(person, session).order(10.0, action=action)
        session.get_one(Verdict, order.verdict_id).rating = rating
        session.flush()
        assert (hold_of(session, person.settings, order) is None) is goes


def test_the_money_is_counted_over_all_orders(armed: Book) -> None:
    armed.sent(9_000.0)
    assert armed.check(armed.order(1_000.0)) is None
    found = armed.check(armed.order(1_000.01))
    assert measured(found) == ("notional 10,000.01 in all", "at most 10,000.00")


@pytest.mark.parametrize("price", [9_000.0, 10_000.0, 10_000.01])
def test_the_price_found_when_it_is_sent_counts_if_it_is_higher(armed: Book, price: float) -> None:
    found = armed.check(armed.order(10_000.0), price)
    if price <= 10_000:
        assert found is None
    else:
        assert measured(found) == ("notional 10,000.01 in all", "at most 10,000.00")


def test_the_price_paid_for_earlier_orders_counts_if_it_is_more(armed: Book) -> None:
    for price in (9_000.0, 8_000.0):
        sent = armed.sent(4_000.0, quantity=0.5)
        armed.session.add(
            Fill(
                id=sent.id, order_id=sent.id, account=LIVE, symbol="ACME", side="buy", quantity=0.5, price=price,
                commission=0.0, filled_at=sent.market_at,
            )
        )  # fmt: skip
    armed.session.flush()
    assert usage_of(armed.session, LIVE, 1) == MandateUsage(2, Decimal(8_500))
    assert armed.check(armed.order(1_500.0)) is None
    assert measured(armed.check(armed.order(1_500.01)))[0] == "notional 10,000.01 in all"


@pytest.mark.parametrize(("contracts", "allowed"), [(1.0, True), (2.0, False)])
def test_a_sold_put_counts_what_it_may_have_to_buy(armed: Book, contracts: float, allowed: bool) -> None:
    put = armed.order(200.0, contract="ACME100918P00090000", side="sell", quantity=contracts, multiplier=100)
    found = armed.check(put)
    assert (found is None) is allowed
    if not allowed:
        assert measured(found) == ("notional 18,000.00 in all", "at most 10,000.00")


def test_the_orders_are_counted_whatever_became_of_them(armed: Book) -> None:
    armed.sent(1.0, state=OrderState.REJECTED)
    armed.sent(1.0, state=OrderState.UNKNOWN)
    order = armed.order(1.0)
    assert armed.check(order) is None
    armed.sent(1.0, state=OrderState.CANCELLED)
    assert measured(armed.check(order)) == ("order 4", "at most 3")


def test_a_symbol_that_is_not_named_does_not_go(armed: Book) -> None:
    assert armed.check(armed.order(1.0, symbol="IBM")) is None
    assert measured(armed.check(armed.order(1.0, symbol="GE"))) == ("GE", "one of ACME, IBM")


def test_orders_not_sent_or_sent_elsewhere_count_for_nothing(armed: Book) -> None:
    armed.order(10_000.0)  # approved only
    armed.sent(10_000.0, version=9)
    armed.sent(10_000.0, account="paper")
    assert usage_of(armed.session, LIVE, 1).orders == 0
    assert armed.check(armed.order(10_000.0)) is None


def test_all_symbols_when_all_were_named(person: Person) -> None:
    person.arm(symbols=["*"])
    with person.store.session() as session:
        book = Book(person, session)
        assert book.check(book.order(1.0, symbol="GE")) is None


@pytest.mark.parametrize("symbols", [[], [""], ["ACME", "*"], ["no symbol"]])
def test_symbols_that_are_none_are_refused(person: Person, symbols: list[str]) -> None:
    with pytest.raises(UsageError, match="symbol"):
        person.arm(symbols=symbols)
    assert person.denied() == "none"
