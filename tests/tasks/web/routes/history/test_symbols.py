"""Symbols over HTTP: across runs, their bars, and nothing later than the market's now."""

from __future__ import annotations

from datetime import date
from io import BytesIO

from PIL import Image

from tests.tasks.views.chain import parts
from tests.tasks.web.routes.history.conftest import Screened
from tests.tasks.web.test_security import problem


def symbol_of(screened: Screened) -> str:
    symbol: str = screened.get(f"/runs/{screened.run_id}/table")["rows"][0]["candidate"]["symbol"]
    return symbol


def test_symbols_are_listed_with_their_last_verdict(screened: Screened) -> None:
    rows = {row["symbol"]: row for row in screened.get("/symbols")}
    table = screened.get(f"/runs/{screened.run_id}/table")["rows"]
    assert {row["candidate"]["symbol"] for row in table} <= set(rows)
    symbol = table[0]["candidate"]["symbol"]
    assert rows[symbol]["rating"] == table[0]["verdict"]["rating"]
    assert rows[symbol]["runs"] >= 1
    assert [row["symbol"] for row in screened.get("/symbols", q=symbol.lower())] == [symbol]
    assert screened.get("/symbols", q="%") == []


def test_a_symbol_has_what_its_runs_made_of_it(screened: Screened) -> None:
    symbol = symbol_of(screened)
    found = screened.get(f"/symbols/{symbol.lower()}")
    lineage = screened.get(f"/runs/{screened.run_id}/lineage/{symbol}")
    assert (found["symbol"], found["account"], found["market"]) == (symbol, "paper", "replay")
    assert found["name"]
    assert {row["hit"]["lens"] for row in found["hits"]} == {row["lens"] for row in parts(lineage, "hit")}
    assert parts(lineage, "verdict")[0]["id"] in {row["verdict"]["id"] for row in found["verdicts"]}
    assert {row["role"] for row in parts(lineage, "report")} <= {row["role"] for row in found["reports"]}
    assert {row["id"] for row in parts(lineage, "order")} <= {row["id"] for row in found["orders"]}
    assert found["notes"][0]["line"]
    assert parts(lineage, "verdict")[0]["rating"] in found["memory"]
    assert len(screened.get(f"/symbols/{symbol}", limit=1)["reports"]) == 1
    unknown = screened.get("/symbols/NOPE")
    assert (unknown["name"], unknown["memory"], unknown["hits"]) == (None, None, [])


def test_bars_end_with_the_market_and_carry_the_indicators_asked_for(screened: Screened) -> None:
    found = screened.get("/symbols/KO/bars", sessions=60, indicator=["sma20", "macd", "rsi14"], run=screened.run_id)
    whole = screened.get(f"/runs/{screened.run_id}")
    assert len(found["bars"]) == 60
    assert found["bars"][-1]["at"] <= whole["market_now"][:10]
    assert set(found["indicators"]) == {"sma20", "macd", "macd_signal", "macd_histogram", "rsi14"}
    assert {len(line) for line in found["indicators"].values()} == {60}
    last = [bar["close"] for bar in found["bars"][-20:]]
    assert abs(found["indicators"]["sma20"][-1] - sum(last) / 20) < 0.001
    assert all(bar["low"] <= bar["close"] <= bar["high"] and bar["volume"] > 0 for bar in found["bars"])
    weeks = screened.get("/symbols/KO/bars", sessions=60, interval="week", run=screened.run_id)
    assert 10 <= len(weeks["bars"]) <= 13


def test_the_chart_has_the_levels_and_lines_that_models_are_shown(screened: Screened) -> None:
    wanted = ["levels", "trendlines", "relative"]
    found = screened.get("/symbols/KO/bars", sessions=126, indicator=wanted, run=screened.run_id)
    close, last = found["bars"][-1]["close"], len(found["bars"]) - 1
    assert found["levels"]
    for one in found["levels"]:
        assert one["low"] <= one["price"] <= one["high"]
        assert (one["price"] <= close) is (one["kind"] == "support"), one
    for one in found["lines"]:
        swing = found["bars"][one["start"]]
        assert one["start_price"] in (swing["high"], swing["low"])
        assert one["end"] == last
    assert found["indicators"]["relative"][0] == 100
    assert found["intraday"] is False
    assert screened.get("/symbols/KO/bars", sessions=126, run=screened.run_id)["levels"] == []


def test_bars_of_an_earlier_day_hold_nothing_later(screened: Screened) -> None:
    newest = screened.get("/symbols/KO/bars", sessions=40)["bars"]
    day = newest[-10]["at"]
    found = screened.get("/symbols/KO/bars", sessions=30, day=day)
    assert found["bars"][-1]["at"] <= day
    assert date.fromisoformat(found["as_of"][:10]) == date.fromisoformat(day)
    weekend = screened.client.get("/symbols/KO/bars", params={"day": "2010-08-14"})
    assert weekend.status_code >= 400
    assert "2010-08-14" in weekend.json()["detail"]


def test_a_picture_of_the_chart_is_drawn_for_people(screened: Screened) -> None:
    found = screened.client.get("/symbols/KO/picture", params={"run": screened.run_id})
    assert (found.status_code, found.headers["content-type"]) == (200, "image/png")
    assert Image.open(BytesIO(found.content)).size == (2400, 1600)
    lacking = screened.client.get("/symbols/NOPE/picture")
    assert lacking.status_code >= 400
    assert "NOPE" in lacking.json()["detail"]


def test_a_symbol_without_bars_has_the_reason(screened: Screened) -> None:
    found = screened.get("/symbols/NOPE/bars")
    assert found["bars"] == []
    assert "NOPE" in found["missing"][0]["reason"]
    assert screened.get("/symbols/KO/bars", interval="hour")["missing"][0]["what"] == "bars"
    wrong = screened.client.get("/symbols/KO/bars", params={"indicator": "tea"})
    assert problem(wrong, 422) == "wrong_request"
