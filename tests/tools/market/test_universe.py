from __future__ import annotations

from pathlib import Path

import pytest

from chordesk.models.answers import spelled
from chordesk.models.errors import UsageError
from chordesk.tools.market.replay.market import ReplayMarket
from chordesk.tools.market.universe import resolve_universe
from tests.tools.market.far_market import FarMarket


def test_a_name_symbols_or_a_file(market: ReplayMarket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("names.txt").write_text("\ufeff# mine\naapl  # fruit\n\nMSFT\nAAPL\n", encoding="utf-8")
    Path("my names").write_text("GE\n")
    Path("A").write_text("GE\n")
    for text, symbols in {
        " SP500 ": [listing.symbol for listing in market.universe("sp500")],
        "msft, aapl,,AAPL , brk.b": ["MSFT", "AAPL", "BRK.B"],
        str(tmp_path / "names.txt"): ["AAPL", "MSFT"],
        "my names": ["GE"],
        "A": ["A"],  # what reads as a symbol is one
        "./A": ["GE"],
    }.items():
        assert resolve_universe(text, market) == symbols, text
    assert resolve_universe("TSLA,NVDA", FarMarket()) == ["TSLA", "NVDA"], "an open market takes any symbol"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' names no symbol"),
        (" , ", "names no symbol"),
        ("AAPL,A$", "no symbol: A\\$"),
        ("AAPL,WAYTOOLONGNAMEOFASHARE", "no symbol: WAYTOOLONGNAME"),
        ("AAPL,..", "no symbol: \\.\\."),
        ("nowhere/names.txt", "'nowhere/names.txt' cannot be read: No such file"),
        ("names.txt", "cannot be read"),
    ],
)
def test_an_error_in_a_universe_is_named(market: ReplayMarket, text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        resolve_universe(text, market)
    assert "one symbol a line" in caught.value.remedy


def test_unknown_symbols_are_named_up_to_ten(market: ReplayMarket) -> None:
    with pytest.raises(UsageError, match="replay market does not carry NOPE, TSLA on 2010-08-12"):
        resolve_universe("AAPL,NOPE,TSLA", market)
    with pytest.raises(UsageError, match=r"X0, .*, X9 and 4 more on"):
        resolve_universe(",".join(f"X{number}" for number in range(14)), market)


@pytest.mark.parametrize(
    ("written", "one"),
    [
        ("BRK-B", "BRK.B"),
        ("brk/b", "BRK.B"),
        ("BRK B", "BRK.B"),
        ("BAC-L", "BAC-L"),
        ("VOD.L", "VOD.L"),
        ("BTC-USD", "BTC-USD"),
    ],
)
def test_a_class_of_shares_has_one_spelling_and_no_exchange(written: str, one: str) -> None:
    assert spelled(written) == one
