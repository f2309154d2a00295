"""The kill switch through the service: halt, flatten and resume, their record, and callers that must not reach it.

The tests share a desk, and each leaves it trading.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import httpx
import pytest

from chordesk.models.tables.columns import new_id
from chordesk.models.tables.orders import Submitter
from chordesk.tasks.named_tokens import Scope, scope_of
from chordesk.tools.brokers.protocol import build_broker
from chordesk.tools.ledger import ensure_account
from chordesk.tools.market.factory import build_market
from chordesk.tools.orders.accounts import FencingLease
from chordesk.tools.orders.audit import log_path
from chordesk.tools.orders.audit_reading import check_logs
from tests.tasks.cli.orders.test_halt import all_was_done, flag, place_orders, states
from tests.tasks.web.kit import Service, service
from tests.tasks.web.test_security import problem
from tests.tools.orders.desk import DEFAULTS, Desk, action

ANN = {"by": "Ann Lee"}
FLATTEN = {"flatten": True, "confirm": "flatten paper"}


@dataclass(frozen=True, slots=True)
class Floor:
    """A desk that trades at once below a notional and asks above it, and its service. There is no worker."""

    service: Service
    desk: Desk
    client: httpx.Client

    def lines(self, kind: str) -> list[dict[str, object]]:
        lines = [json.loads(line) for line in log_path(self.desk.settings).read_text().splitlines()]
        return [line["facts"] for line in lines if line["kind"] == kind]


@contextlib.contextmanager
def trading_floor() -> Iterator[Floor]:
    """A desk that was halted once and trades again."""
    with service(TRADER_LIVE="1", DESK_APPROVAL="above:1") as running, running.client() as client:
        settings = running.processes.settings.model_copy(update={**DEFAULTS, "approval": "above:1"})
        market, store = build_market(settings), running.store
        broker = build_broker(settings, market, store)
        assert client.post("/halt", json=ANN).status_code == client.post("/resume", json=ANN).status_code == 200
        yield Floor(running, Desk(store, settings, market, broker, FencingLease(store, "paper", "the test")), client)


@pytest.fixture(scope="module")
def floor() -> Iterator[Floor]:
    with trading_floor() as shared:
        yield shared


def test_a_halt_with_flatten_ends_all_and_is_on_record(floor: Floor) -> None:
    place_orders(floor.desk)
    halted = floor.client.post("/halt", json={**ANN, "why": "fire", **FLATTEN})
    assert halted.status_code == 202, halted.text
    found = halted.json()
    assert (found["complete"], found["open_orders"], found["problems"]) == (False, [], [])
    (account,) = found["accounts"]
    assert (account["account"], len(account["denied"])) == ("paper", 1)
    (closed,) = found["closing_orders"]
    assert (closed["symbol"], closed["side"], closed["state"]) == ("AAPL", "sell", "submitted")
    assert all_was_done(floor.desk)
    assert (floor.desk.settings.home / "HALT").read_text().startswith("fire (Ann Lee via the API, ")
    assert floor.lines("halt")[-1] == {"account": "paper", "why": "fire", "by": "Ann Lee via the API"}
    assert floor.lines("approved")[-1]["by"] == "Ann Lee via the API"
    assert floor.client.post("/resume", json=ANN).status_code == 200


@pytest.mark.parametrize(
    "confirm", [None, "flatten", "paper", "Flatten paper", "flatten paper ", "flatten alpaca-live"]
)
def test_a_flatten_without_its_confirmation_halts_and_closes_nothing(floor: Floor, confirm: str | None) -> None:
    held, body = floor.desk.positions(), {**ANN, "flatten": True, "confirm": confirm}
    refused = floor.client.post("/halt", json=body)
    assert problem(refused, 409) == "usage_error"
    assert refused.json()["remedy"] == "send confirm='flatten paper', or halt without flatten"
    assert (flag(floor.desk), floor.desk.positions()) == ("active", held)
    assert not (floor.desk.settings.home / "HALT").exists()


def test_a_flatten_that_is_sent_twice_closes_once(floor: Floor) -> None:
    assert floor.desk.process(floor.desk.decide(action("XOM")), approval="auto")[0].state == "submitted"
    floor.desk.next_session()
    headers = {"Idempotency-Key": new_id()}
    with ThreadPoolExecutor(2) as threads:
        first, again = threads.map(
            lambda _: floor.client.post("/halt", json={**ANN, **FLATTEN}, headers=headers), range(2)
        )
    assert first.status_code == again.status_code == 202
    assert first.json() == again.json()
    closing = [order for order in floor.desk.orders() if (order.symbol, order.side) == ("XOM", "sell")]
    assert len(closing) == 1
    assert floor.client.post("/resume", json=ANN).status_code == 200


def test_a_resume_lets_its_account_trade_again(floor: Floor) -> None:
    assert floor.client.post("/halt", json=ANN).status_code == 200
    other = floor.client.post("/resume", json={**ANN, "account": "other"})  # of a page that another desk served
    assert (problem(other, 409), flag(floor.desk)) == ("usage_error", "halted")
    reduced = floor.client.post("/resume", json={**ANN, "reduce_only": True, "account": "paper"})
    assert (reduced.status_code, reduced.json()["state"]) == (200, "reducing")
    resumed = floor.client.post("/resume", json={**ANN, "why": "the fire is out"})
    assert resumed.json() == {"account": "paper", "state": "active", "still_halted": []}
    assert not (floor.desk.settings.home / "HALT").exists()
    assert flag(floor.desk) == "active"
    last = floor.lines("resume")[-1]
    assert (last["by"], last["why"], last["state"]) == ("Ann Lee via the API", "the fire is out", "active")
    assert all(chain.whole for chain in check_logs(floor.desk.store, floor.desk.settings))


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"by": ""},
        {"by": "a\nb"},
        {"by": "ann", "why": ""},
        {"by": "ann", "why": "\x1b[2J"},
        {"by": "ann", "flatten": "yes", "reduce_only": "yes"},
        {"by": "ann", "flatten": None, "reduce_only": None},
        {"by": "ann", "account": ["paper"]},
        [],
        None,
    ],
)
def test_a_wrong_body_changes_nothing(floor: Floor, body: object) -> None:
    headers = {"Content-Type": "application/json"}
    for path in ("/halt", "/resume"):
        assert problem(floor.client.post(path, content=json.dumps(body), headers=headers), 422) == "wrong_request"
    assert flag(floor.desk) == "active"


def test_another_account_is_halted_and_named_also_without_redis() -> None:
    """On a desk of its own, which loses its Redis."""
    with trading_floor() as floor:
        assert floor.desk.run(action("KO"))[0].state == "approval_pending"
        with floor.desk.store.session() as session:
            ensure_account(session, "alpaca-paper", 100_000)
            session.add(Submitter(account="alpaca-paper", token=3, owner="trade@elsewhere"))
        floor.service.processes.end("redis")
        halted = floor.client.post("/halt", json=ANN)
        assert halted.status_code == 200, halted.text
        assert {row["account"] for row in halted.json()["accounts"]} == {"paper", "alpaca-paper"}
        assert states(floor.desk)["KO"] == "denied"
        resumed = floor.client.post("/resume", json=ANN)
        assert (resumed.status_code, resumed.json()["still_halted"]) == (200, ["alpaca-paper"])


def test_a_position_is_closed_by_an_order_of_its_own_once_it_is_held(floor: Floor) -> None:
    floor.desk.hold("GE", 5, 15.0)
    none = floor.client.post("/positions/ZZZ/close", json=ANN)
    assert "holds no ZZZ" in none.json()["detail"], none.text
    closed = floor.client.post("/positions/ge/close", json={**ANN, "why": "enough"})
    assert closed.status_code == 201, closed.text
    assert (closed.json()["kind"], closed.json()["model"]) == ("close", "Ann Lee via the API")
    again = floor.client.post("/positions/GE/close", json=ANN)
    assert "closes GE already" in again.json()["detail"], again.text
    assert scope_of("POST", "/positions/GE/close") == Scope.DECIDE, "whoever may only start runs sells nothing"


def test_of_two_closes_at_once_one_is_refused(floor: Floor) -> None:
    floor.desk.hold("CVX", 5, 60.0)
    with ThreadPoolExecutor(2) as threads:
        both = list(threads.map(lambda _: floor.client.post("/positions/CVX/close", json=ANN), range(2)))
    (refused,) = [one for one in both if one.status_code != 201]
    assert "closes CVX already" in refused.json()["detail"], refused.text
