"""Alpaca's option chains: the real client against a loopback stand-in of both of its APIs."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from requests import ConnectionError as RequestsConnectionError
from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter

from chordesk.models.errors import MarketError, MarketUnavailable, NotConfigured, SettingError
from chordesk.models.market import Greeks
from chordesk.models.settings import Settings
from chordesk.tools.market import alpaca_chains
from chordesk.tools.market.alpaca_chains import build
from chordesk.tools.market.factory import require_chains
from tests.fakes.alpaca import Alpaca
from tests.fakes.alpaca_options import snapshot
from tests.tools.alpaca.conftest import APRIL, KEYS, MAY, Connect
from tests.tools.conftest import Call, MakeContext
from tests.tools.market.far_market import TODAY

PUT, CALL, LATE = "AAA240419P00095000", "AAA240419C00105000", "AAA240517P00090000"
AT = "2024-03-15T19:54:59.123456789Z"
OWN = {"delta": -0.21, "gamma": 0.012, "rho": -0.03, "theta": -0.05, "vega": 0.11}
CHAINS, CONTRACTS = "/v1beta1/options/snapshots", "/v2/options/contracts"


@pytest.fixture(autouse=True)
def listed(alpaca: Alpaca) -> None:
    """Two contracts of April and one of May on AAA."""
    bar = {"t": "2024-03-15T04:00:00Z", "o": 1, "h": 2, "l": 1, "c": 1.5, "v": 321, "n": 9, "vw": 1.4}
    trade = {"t": "2024-03-15T18:00:00Z", "x": "B", "p": 1.07, "s": 1, "c": "I"}
    alpaca.options.snapshots["AAA"] = {
        PUT: snapshot(1.0, 1.1, AT, greeks=OWN, impliedVolatility=0.35, dailyBar=bar, latestTrade=trade),
        CALL: snapshot(0, 0.4, AT, dailyBar={**bar, "t": "2024-03-12T04:00:00Z"}),
        LATE: snapshot(2.0, 2.2, AT),
    }
    alpaca.options.interest = {PUT: (1200, "2024-03-14"), CALL: (None, None), LATE: (5, "2024-03-13")}


def test_a_chain_has_quotes_greeks_and_open_interest(connect: Connect, alpaca: Alpaca) -> None:
    market = connect(yields=0.01)
    chain = market.chain("AAA", TODAY, dt.date(2024, 5, 1))
    assert (chain.symbol, chain.source, chain.spot, chain.dividend_yield) == ("AAA", "alpaca indicative", 100.0, 0.01)
    assert (chain.interest_day, chain.lacks, chain.unread) == (dt.date(2024, 3, 14), (), ())
    call, put = chain.rows
    assert put.contract.symbol == PUT
    assert (put.bid, put.ask, put.last, put.volume, put.open_interest, put.iv) == (1.0, 1.1, 1.07, 321, 1200, 0.35)
    assert put.greeks == Greeks(-0.21, 0.012, -0.05, 0.11, -0.03)
    assert (call.bid, call.ask, call.volume, call.open_interest, call.greeks) == (0.0, 0.4, None, None, None)
    assert dict(alpaca.options.asked)[f"{CHAINS}/AAA"]["feed"] == "indicative"
    assert [row.contract.symbol for row in market.chain("AAA", dt.date(2024, 5, 1), MAY).rows] == [LATE]


def test_an_answer_names_the_source_and_the_day_of_the_open_interest(
    connect: Connect, make_context: MakeContext, call: Call
) -> None:
    context = make_context(connect())
    answer = call(context, "option_chain_get", symbols=["AAA"], deltaMin=0.0, deltaMax=1.0)
    (chain,) = answer.payload["chains"]
    assert (chain["source"], chain["openInterestOf"]) == ("alpaca indicative", "2024-03-14")
    (row,) = answer.payload["contracts"]
    assert (row["contract"], row["greeks"], row["theta"], row["openInterest"]) == (PUT, "market", -0.05, 1200)
    found = call(context, "option_greeks_get", contracts=[PUT, LATE]).payload["contracts"]
    assert [(one["contract"], one["greeks"]) for one in found] == [(PUT, "market"), (LATE, "computed")]


def test_all_pages_of_a_chain_are_read(connect: Connect, alpaca: Alpaca) -> None:
    alpaca.options.page = 1
    chain = connect().chain("AAA", TODAY, MAY)
    assert {row.contract.symbol: row.open_interest for row in chain.rows} == {PUT: 1200, CALL: None, LATE: 5}
    assert chain.interest_day == dt.date(2024, 3, 13)


def test_pages_without_an_end_are_an_error(connect: Connect, alpaca: Alpaca, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alpaca_chains, "_PAGES", 3)
    alpaca.options.endless = True
    with pytest.raises(MarketUnavailable, match="its pages do not end: 3 so far"):
        connect().chain("AAA", TODAY, MAY)


def test_a_contract_is_priced_at_the_time_of_its_quote(connect: Connect) -> None:
    market = connect()
    quote = market.option_quote(PUT)
    assert (quote.price, quote.bid, quote.ask, quote.source) == (1.05, 1.0, 1.1, "alpaca indicative")
    assert quote.at == dt.datetime(2024, 3, 15, 19, 54, 59, 123456, tzinfo=dt.UTC)
    with pytest.raises(MarketError, match=f"unknown contract {CALL}: Alpaca has no price of it"):
        market.option_quote(CALL)
    with pytest.raises(MarketError, match="unknown contract AAA240419P00001000"):
        market.option_quote("AAA240419P00001000")


@pytest.mark.parametrize("symbol", ["BRK.B", "BRK-B"])
@pytest.mark.parametrize("name", ["BRK.B", "BRKB"])
def test_a_share_s_class_is_found_under_either_name(
    symbol: str, name: str, connect: Connect, alpaca: Alpaca, call: Call
) -> None:
    put = "BRKB240419P00095000"
    alpaca.options.snapshots[name] = {put: snapshot(1.0, 1.1, AT)}
    alpaca.options.interest = {put: (70, "2024-03-14")}
    market = connect()
    (row,) = market.chain(symbol, TODAY, MAY).rows
    assert (row.contract.underlying, row.open_interest) == ("BRKB", 70)
    (found,) = call(market, "option_greeks_get", contracts=[put]).payload["contracts"]
    assert (found["contract"], found["openInterest"]) == (put, 70)


@pytest.mark.parametrize(
    ("status", "text", "error", "reason"),
    [
        (401, '{"message": "unauthorized."}', NotConfigured, "Alpaca refuses the key"),
        (403, '{"message": "forbidden."}', NotConfigured, "the key may not read Alpaca's indicative options"),
        (422, '{"message": "invalid symbol: AAA"}', MarketError, "no options of AAA: .*HTTP 422"),
        (429, '{"message": "too many requests."}', MarketUnavailable, "limits our requests"),
        (500, "<html>", MarketUnavailable, "does not answer for AAA: no reason that could be read .HTTP 500"),
        (200, '{"snapshots": {"AAA2404', MarketUnavailable, "AAA"),
        (200, "[]", MarketUnavailable, "could not be read"),
        (200, "{}", MarketUnavailable, "could not be read"),
        (200, '{"snapshots": null, "next_page_token": null}', MarketUnavailable, "could not be read"),
        (200, "", MarketUnavailable, "could not be read"),
    ],
)
def test_a_wrong_answer_is_a_clear_error(
    status: int, text: str, error: type[Exception], reason: str, connect: Connect, alpaca: Alpaca
) -> None:
    alpaca.options.trouble[CHAINS] = (status, text)
    with pytest.raises(error, match=reason) as raised:
        connect().chain("AAA", TODAY, MAY)
    assert raised.type is error
    assert len(alpaca.options.asked) == 1  # nothing is sent again


def test_too_many_requests_rest_the_source(connect: Connect, alpaca: Alpaca) -> None:
    market = connect()
    alpaca.options.trouble[CHAINS] = (429, "{}")
    for symbol in ("AAA", "BBB"):
        with pytest.raises(MarketUnavailable, match="limits our requests"):
            market.chain(symbol, TODAY, MAY)
    assert len(alpaca.options.asked) == 1


def test_a_silent_source_is_given_up_within_its_limit(connect: Connect, alpaca: Alpaca) -> None:
    alpaca.options.trouble[CHAINS] = (200, "hang")
    with pytest.raises(MarketUnavailable, match=r"no whole answer within 0\.2 s|does not answer for AAA: ReadTimeout"):
        connect(seconds=0.2).chain("AAA", TODAY, MAY)


def test_open_interest_that_cannot_be_had_is_a_gap(connect: Connect, alpaca: Alpaca, call: Call) -> None:
    alpaca.options.trouble[CONTRACTS] = (500, '{"code": 1, "message": "try later"}')
    answer = call(connect(), "option_chain_get", symbols=["AAA"], deltaMin=0.0, deltaMax=1.0)
    (row,) = answer.payload["contracts"]
    assert (row["openInterest"], row["liquidity"]) == (None, "unknown")
    reasons = {gap["what"]: gap["reason"] for gap in answer.payload["missing"]}
    assert "try later (HTTP 500)" in reasons["openInterest"]


@pytest.mark.parametrize("missing", sorted(KEYS))
def test_a_missing_key_is_named(missing: str, connect: Connect, alpaca: Alpaca, tmp_path: Path) -> None:
    environ = {**KEYS, missing: ""}
    with pytest.raises(NotConfigured, match=f"not available: configure {missing} for option chains"):
        connect(environ=environ).chain("AAA", TODAY, MAY)
    with pytest.raises(SettingError, match=missing):
        require_chains(Settings(home=tmp_path, market="yahoo", option_chains="alpaca"), environ)
    require_chains(Settings(home=tmp_path, market="yahoo"), {})
    assert not alpaca.options.asked


def test_a_wrong_key_is_refused_without_being_shown(connect: Connect) -> None:
    of_orders = {"ALPACA_API_KEY": "k", "ALPACA_SECRET_KEY": "s"}
    with pytest.raises(NotConfigured, match="ALPACA_DATA_API_KEY and ALPACA_DATA_SECRET_KEY"):
        connect(environ=of_orders).chain("AAA", TODAY, MAY)
    environ = {**KEYS, "ALPACA_DATA_SECRET_KEY": "not-the-secret"}
    with pytest.raises(NotConfigured, match="Alpaca refuses the key") as raised:
        connect(environ=environ).chain("AAA", TODAY, MAY)
    assert "not-the-secret" not in f"{raised.value} {raised.value.remedy}"


def test_data_keys_go_to_alpaca_alone(connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def send(_: HTTPAdapter, request: PreparedRequest, **_options: Any) -> Response:
        asked.append(urlsplit(str(request.url)).hostname)
        raise RequestsConnectionError

    monkeypatch.setattr(HTTPAdapter, "send", send)
    wire = build(Settings(home=tmp_path, market="yahoo", option_chains="alpaca"), connect(), KEYS)._wire
    for question in (wire.chain, wire.contracts):
        with pytest.raises(MarketUnavailable):
            question("AAA", TODAY, MAY)
    assert set(asked) == {"data.alpaca.markets", "paper-api.alpaca.markets"}


def test_there_are_no_chains_of_a_past_day(connect: Connect, alpaca: Alpaca) -> None:
    market = connect()
    market.clock.day = TODAY
    for question in (lambda: market.chain("AAA", TODAY, MAY), lambda: market.option_quote(PUT)):
        with pytest.raises(NotConfigured, match="of now, none of a past day"):
            question()
    assert not alpaca.options.asked


@pytest.mark.parametrize(
    "odd",
    [
        None,
        [],
        {"latestQuote": None, "greeks": {"delta": "x"}},
        {"latestQuote": {"bp": "NaN", "ap": "inf"}, "impliedVolatility": -0.0, "greeks": OWN},
        {"latestQuote": {"bp": True, "ap": {}}, "dailyBar": {"v": "many"}, "latestTrade": []},
    ],
)
def test_an_odd_snapshot_is_a_contract_without_figures(odd: Any) -> None:
    row = json.loads(json.dumps(alpaca_chains.row_of(PUT, odd)))
    found = alpaca_chains.chain_row(row, None, TODAY)
    assert found is not None
    assert (found.bid, found.ask, found.last, found.volume, found.iv, found.greeks) == (None,) * 6
    assert alpaca_chains.price_of(row) is None


def test_names_that_are_no_contracts_are_unread_and_a_share_without_options_has_none(
    connect: Connect, alpaca: Alpaca, call: Call
) -> None:
    assert connect().chain("ZZZ", TODAY, MAY).rows == ()
    answer = call(connect(), "option_chain_get", symbols=["ZZZ"])
    assert not answer.has_data
    assert answer.payload["missing"][0]["reason"] == "no contract expires in 14 to 45 days"
    alpaca.options.snapshots["AAA"]["AAA1240419P00095000"] = snapshot(1, 2, AT)
    chain = connect().chain("AAA", TODAY, APRIL)
    assert (chain.unread, len(chain.rows)) == (("AAA1240419P00095000",), 2)
