"""Prices of models: those listed, those of one's own, and what is wrong with a text of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from chordesk.models.errors import SettingError
from chordesk.models.model_prices import LISTED, Price, price_by_name, prices
from chordesk.models.settings.sources import load_settings


def test_own_prices_are_over_those_listed() -> None:
    found = prices("gpt-5.5=1/0.1/2; a/b:c=d = 0/0/0.5")
    assert found == {**LISTED, "gpt-5.5": Price(1, 0.1, 2), "a/b:c=d": Price(0, 0, 0.5)}


def test_cached_tokens_are_among_the_input() -> None:
    assert Price(5.0, 0.5, 30.0).of(1_000_000, 400_000, 100_000) == pytest.approx(3.0 + 0.2 + 3.0)
    assert Price(5.0, 0.5, 30.0).of(10, 20, 0) == pytest.approx(10 * 0.5 / 1e6), "more cached than read"


@pytest.mark.parametrize(
    ("model", "priced"),
    [
        ("gpt-6.1-sol", "gpt-6.1-sol"),
        ("openai/gpt-6.1-sol", "gpt-6.1-sol"),
        ("anthropic/claude-haiku-4-5-20251001", "claude-haiku-4-5"),
        ("gpt-5.5-2026-04-23", "gpt-5.5"),
        ("azure/gpt-5.5", None),
        ("openrouter/openai/gpt-5.5", None),
        ("gpt-5.5-20000", None),
        ("gpt-6.2-sol", None),
    ],
)
def test_the_maker_and_the_day_of_a_model_do_not_hide_its_price(model: str, priced: str | None) -> None:
    assert price_by_name(model, LISTED) == (LISTED[priced] if priced else None)
    own = Price(7, 8, 9)
    assert price_by_name(model, prices(f"{model}=7/8/9")) == own, "one's own price of the whole name comes first"


@pytest.mark.parametrize(
    "wrong", ["gpt-5.5", "gpt-5.5=", "=1/2/3", "x=1/2", "x=1/2/3/4", "x=1/a/3", "x=1/-2/3", "x=1/nan/3"]
)
def test_a_price_that_cannot_be_read_is_named(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(SettingError, match="DESK_PRICES") as error:
        load_settings({"DESK_HOME": str(tmp_path), "DESK_PRICES": f"y=1/1/1;{wrong}"}, tmp_path)
    assert repr(wrong) in str(error.value)
    assert "MODEL=INPUT/CACHED/OUTPUT" in str(error.value)
