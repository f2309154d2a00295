"""The settings and files of docs/markets.md, each as it is printed there: on the stand-in of Yahoo, and as own data."""

from __future__ import annotations

import re
import shlex
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest

from chordesk.models.errors import UsageError
from chordesk.models.exchanges import EXCHANGES, currency_of
from chordesk.models.settings.sources import load_settings
from chordesk.tools.market.clock import exchange_hours
from chordesk.tools.market.factory import build_market
from chordesk.tools.market.files.data_folder import check_folder
from chordesk.tools.market.universe import resolve_universe
from chordesk.tools.market.yahoo.market import build_yahoo
from chordesk.tools.questions.asking import base_day, relative_questions
from tests.fakes.yahoo import FarYahoo
from tests.tools.conftest import Call, MakeContext
from tests.tools.market.far_market import StillClock

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

PAGE = (Path(__file__).parents[4] / "docs" / "markets.md").read_text(encoding="utf-8")
LINES = re.findall(r"(DESK_EXCHANGE=.*?DESK_UNIVERSE=.*?)`", PAGE)
EXPORTS = re.findall(r"export (.*DESK_EXCHANGE=.*)\nexport (DESK_UNIVERSE=.*)\n", PAGE)
SETS = [*LINES, *(" ".join(one) for one in EXPORTS)]
EVENING = "2024-03-15T23:59:59+00:00"
BARS = 260


def environment(text: str) -> dict[str, str]:
    return dict(one.split("=", 1) for one in shlex.split(text) if not one.startswith("DESK_HOME"))


def test_the_page_has_what_it_promises() -> None:
    places = re.findall(r"^\| (.+?) \| `DESK_EXCHANGE", PAGE, re.MULTILINE)
    assert places == [
        "London", "Tokyo", "Hong Kong", "Frankfurt", "Toronto", "Mumbai", "Sydney", "São Paulo", "crypto",
    ]  # fmt: skip
    counts = [len(environment(" ".join(one))["DESK_UNIVERSE"].split(",")) for one in EXPORTS]
    assert counts == [20, 10]


@pytest.mark.parametrize("text", SETS, ids=[environment(text)["DESK_EXCHANGE"] + str(len(text)) for text in SETS])
def test_each_set_of_settings_screens_its_symbols(
    text: str, tmp_path: Path, call: Call, far: FarYahoo, make_context: MakeContext
) -> None:
    """Whatever the tools of a screen ask: the universe, prices in the listing's own currency, figures of a year, and
    the question on each symbol, which closes at a close of that exchange."""
    settings = load_settings({"DESK_MARKET": "yahoo", **environment(text), "DESK_HOME": str(tmp_path)}, tmp_path)
    own, symbols = EXCHANGES[settings.exchange], settings.universe.split(",")
    hours = exchange_hours(own.code)
    days = hours.until(hours.last_closed(StillClock(own.code, EVENING).now()), BARS)
    draws = np.random.default_rng(7)
    for symbol in symbols:
        closes = np.exp(np.cumsum(draws.normal(0.001, 0.02, BARS))) * 5_000
        far.charts[symbol] = [(day, *(float(close),) * 4, 1_000_000) for day, close in zip(days, closes, strict=True)]
        unit = {"GBP": "GBp"}.get(currency_of(symbol), currency_of(symbol))
        kind = "EQUITY" if own.suffixes else "CRYPTOCURRENCY"
        far.listed[symbol] = {"currency": unit, "exchangeTimezoneName": own.zone, "instrumentType": kind}
        far.infos[symbol] = {"currency": unit, "shortName": f"{symbol} plc", "exchangeTimezoneName": own.zone}
    market = build_yahoo(tmp_path, StillClock(own.code, EVENING), far.session())
    assert resolve_universe(settings.universe, market) == symbols
    answer = call(market, "signals_get", symbols=symbols)
    assert ([row["symbol"] for row in answer.payload["signals"]], answer.payload["missing"]) == (symbols, [])
    for row in answer.payload["signals"]:
        moves = np.diff(np.log([bar[4] for bar in far.charts[row["symbol"]]][-21:]))
        assert row["volatility20"] == pytest.approx(moves.std(ddof=1) * own.days_a_year**0.5, abs=1e-4)
    parts = 100 if own.code == "XLON" else 1
    assert market.quote(symbols[0]).price == pytest.approx(far.charts[symbols[0]][-1][4] / parts)
    assert {market.listing(symbol).currency for symbol in symbols} == {currency_of(symbol) for symbol in symbols}
    asked = relative_questions(market, symbols, settings.universe, 10)
    assert {row.closes_at for row in asked} == {hours.close_of(hours.after(base_day(market.clock), 10))}
    context = make_context(market, exchange=own.code, universe=settings.universe)
    moved = call(context, "sp500_movers", direction="up", limit=50).payload
    down = call(context, "sp500_movers", direction="down", limit=50).payload
    assert sorted(row["symbol"] for row in moved["movers"] + down["movers"]) == sorted(symbols)
    with pytest.raises(UsageError, match="symbols of 2 exchanges"):
        resolve_universe(f"{settings.universe},AAPL", market)


def test_the_files_that_are_printed_are_a_market(tmp_path: Path) -> None:
    block = re.search(r"```\n(own/bars.*?)```", PAGE, re.DOTALL)
    assert block is not None
    file = tmp_path
    for line in block[1].splitlines():
        name, _, text = line.rpartition("  ")
        if name.strip():
            file = tmp_path / name.strip()
            file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as opened:
            opened.write(f"{text.strip()}\n")
    assert check_folder(tmp_path / "own", "auto", 20).problems.of("error") == []
    (command,) = re.findall(r"^(DESK_MARKET=files.*) desk up$", PAGE, re.MULTILINE)
    chosen = {**environment(command), "DESK_DATA": str(tmp_path / "own"), "DESK_HOME": str(tmp_path)}
    market = build_market(load_settings(chosen, tmp_path))
    assert market.quote("AZN.L").price == pytest.approx(104.2)
    crypto = build_market(load_settings({**chosen, "DESK_EXCHANGE": "crypto"}, tmp_path))
    assert (crypto.quote("BTC-USD").price, crypto.listing("BTC-USD").least_amount) == (71_396.6, Decimal("0.0001"))
