"""The account at Alpaca: its holdings, its owner, and its address."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from chordesk.models.errors import NotConfigured, SettingError
from chordesk.models.settings import Settings
from chordesk.tools.brokers import protocol
from chordesk.tools.brokers.alpaca import ADDRESSES, AlpacaBroker, BrokerSilent, stream_url
from chordesk.tools.brokers.alpaca_shapes import blocked_of
from tests.builders import uninstalled
from tests.fakes.alpaca import Alpaca
from tests.tools.brokers.alpaca_orders import CREDENTIALS, PUT, a_ticket, send
from tests.tools.orders.tape import Tape


def test_the_account_has_the_desks_own_ids(alpaca: Alpaca, broker: AlpacaBroker) -> None:
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


def test_an_assignment_is_reported_leg_by_leg(alpaca: Alpaca, broker: AlpacaBroker) -> None:
    day = dt.datetime.now(dt.UTC).date().isoformat()
    legs = {"OPASN": (PUT, "1", None), "OPTRD": ("AAPL", "100", "180")}
    for kind, (symbol, quantity, price) in legs.items():
        row = {"id": "20261218::1", "activity_type": kind, "date": day, "symbol": symbol, "qty": quantity}
        alpaca.activities += [{**row, "price": price, "status": status} for status in ("executed", "canceled")]
    first, second = broker.state().settlements
    assert (first.kind, first.symbol, first.quantity, first.price) == ("assigned", PUT, 1, 0)
    assert (second.kind, second.symbol, second.quantity, second.price) == ("delivered", "AAPL", 100, 180)
    assert first.id != second.id


def test_a_call_that_is_assigned_takes_its_shares_away(alpaca: Alpaca, broker: AlpacaBroker) -> None:
    day, call = dt.datetime.now(dt.UTC).date().isoformat(), PUT.replace("P00", "C00")
    for kind, symbol, quantity, price in (("OPASN", call, "1", None), ("OPTRD", "AAPL", "-100", "180")):
        row = {"id": "20261218::2", "activity_type": kind, "date": day, "symbol": symbol, "qty": quantity}
        alpaca.activities.append({**row, "price": price, "status": "executed"})
    found = [(leg.kind, leg.symbol, leg.quantity, leg.price) for leg in broker.state().settlements]
    assert found == [("assigned", call, 1, 0), ("delivered", "AAPL", -100, 180)]


def test_a_blocked_account_is_reported(alpaca: Alpaca, broker: AlpacaBroker) -> None:
    alpaca.blocked = True
    assert broker.state().blocked == "Alpaca reports of the account: trading_blocked"
    assert blocked_of(SimpleNamespace(status="CLOSED")) == "Alpaca reports of the account: status CLOSED"


def test_an_account_or_a_position_in_other_money_is_reported_by_name() -> None:
    coin = SimpleNamespace(symbol="BTCUSD", asset_class=SimpleNamespace(value="crypto"), exchange=None)
    told = blocked_of(SimpleNamespace(status="ACTIVE", currency="EUR"), [coin])
    pair = "BTCUSD is a pair of currencies (priced in USD), a cryptocurrency"
    assert told == f"Alpaca reports of the account: its cash is priced in EUR, {pair}"
    share = SimpleNamespace(symbol="AAPL", asset_class=SimpleNamespace(value="us_equity"), exchange=None)
    assert blocked_of(SimpleNamespace(status="ACTIVE", currency="USD"), [share]) is None


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


def test_each_account_has_its_own_host() -> None:
    assert dict(ADDRESSES) == {
        "alpaca-paper": "https://paper-api.alpaca.markets",
        "alpaca-live": "https://api.alpaca.markets",
    }
    assert stream_url(ADDRESSES["alpaca-live"]) == "wss://api.alpaca.markets/stream"
    assert stream_url("http://127.0.0.1:1") == "ws://127.0.0.1:1/stream"


def test_only_the_live_account_moves_real_money(alpaca: Alpaca) -> None:
    market = Tape({})
    for name, real in (("alpaca-paper", False), ("alpaca-live", True)):
        settings = Settings.model_validate({"broker": name})
        made = protocol.build_broker(settings, market, None, CREDENTIALS)  # type: ignore[arg-type]
        assert (made.name, settings.account, made.real_money) == (name, name, real)


def test_without_the_extra_it_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    uninstalled(monkeypatch)
    with pytest.raises(NotConfigured, match=r"needs the package alpaca-py, .*chordesk\[alpaca\]"):
        protocol.build_broker(Settings(broker="alpaca-paper"), Tape({}), None, CREDENTIALS)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["cash", "qty", "price", "cum_qty"])
def test_a_figure_that_is_missing_is_not_taken_for_nothing(alpaca: Alpaca, broker: AlpacaBroker, name: str) -> None:
    ticket = a_ticket()
    send(broker, ticket)
    alpaca.fill(str(ticket.order_id), 10, 101)
    assert broker.state().cash == 100_000 - 1_010
    alpaca.missing = name
    with pytest.raises(BrokerSilent, match="could not be read"):
        broker.state()
