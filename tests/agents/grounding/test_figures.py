"""Figures of a text: their values, units, signs and precision, and what is no figure."""

from __future__ import annotations

import pytest

from chordesk.agents.grounding.figures import MOST_FIGURES, read


@pytest.mark.parametrize(
    ("text", "value", "unit", "step", "sign"),
    [
        ("it is 27.3% now", 27.3, "percent", 0.1, 0),
        ("27 per cent", 27, "percent", 1, 0),
        ("down -3%", 3, "percent", 1, -1),
        ("a move of \u22123.25 %", 3.25, "percent", 0.01, -1),
        ("minus 4%", 4, "percent", 1, -1),
        ("2.5 percentage points", 2.5, "percent", 0.1, 0),
        ("25 bps", 25, "bps", 1, 0),
        ("25bps", 25, "bps", 1, 0),
        ("1.2x its mean", 1.2, "times", 0.1, 0),
        ("1.20 times", 1.2, "times", 0.01, 0),
        ("$1.2B of sales", 1.2e9, "money", 1e8, 0),
        ("3.4 million shares", 3.4e6, "plain", 1e5, 0),
        ("1,234.5 in all", 1234.5, "plain", 0.1, 0),
        ("$132.28", 132.28, "money", 0.01, 0),
        ("12 cents", 12, "cents", 1, 0),
        ("912 pence", 912, "cents", 1, 0),
        ("at GBP 91.50", 91.5, "money", 0.01, 0),
        ("HKD 412.20", 412.2, "money", 0.01, 0),
        ("HK$412.2", 412.2, "money", 0.1, 0),
        ("91.50 CAD", 91.5, "money", 0.01, 0),
        ("3,010 yen", 3010, "money", 1, 0),
        ("₹1,250.5", 1250.5, "money", 0.1, 0),
        ("₩70,100", 70100, "money", 1, 0),
        ("R$12.5", 12.5, "money", 0.1, 0),
        ("in 21 days", 21, "days", 1, 0),
        ("in 3 weeks", 21, "days", 7, 0),
        ("three touches", 3, "plain", 1, 0),
        ("twelve headlines", 12, "plain", 1, 0),
        ("about 1,200 names", 1200, "plain", 100, 0),
        ("at 1,200 names", 1200, "plain", 1, 0),
        ("fullwidth \uff13\uff15\uff05", 35, "percent", 1, 0),
        ("arabic \u0663\u0664", 34, "plain", 1, 0),
        ("a 52-week high of 210", 210, "plain", 1, 0),
        ("RSI-14 69.7", 69.7, "plain", 0.1, 0),
        ("S3 at 132.28", 132.28, "plain", 0.01, 0),
    ],
)
def test_a_figure_is_read_with_its_unit_and_precision(
    text: str, value: float, unit: str, step: float, sign: int
) -> None:
    (one,) = read(text).figures
    assert one.value == pytest.approx(value)
    assert [one.unit, one.sign] == [unit, sign]
    assert one.step == pytest.approx(step)
    assert text[one.start : one.end] == one.text


@pytest.mark.parametrize(
    "text",
    [
        "RSI-14 and ATR(14) and MACD (12, 26, 9) and SMA200 and SMA 50 and EMA12",
        "the S&P 500 and the Russell 2000",
        "the last 10-K, an 8-K, a 10-Q and Form 4",
        "a 20-day mean, a 52-week range and the 30-delta put",
        "Q3, H1, FY2026 and Q2'26",
        "levels S1, F61.8, E127.2 and C2, and the swing L091120",
        "AAPL261218P00180000",
        "at 15:55 or 4 pm",
        "the 3rd and the 21st",
        "1. First point\n2. Second point\n(3) Third point",
        "see https://example.com/2026/11",
        "24/7 and one of these",
    ],
)
def test_names_and_parameters_are_no_figures(text: str) -> None:
    assert [one.text for one in read(text).figures] == []


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("on 2026-04-17", (2026, 4, 17)),
        ("on 17 April", (None, 4, 17)),
        ("on Apr 17, 2026", (2026, 4, 17)),
        ("on April 17th", (None, 4, 17)),
        ("in April 2026", (2026, 4, None)),
        ("since 2010", (2010, None, None)),
    ],
)
def test_a_date_is_read_as_far_as_it_is_given(text: str, parts: tuple[int | None, ...]) -> None:
    (one,) = read(text).figures
    assert one.unit == "date"
    assert one.date == parts


def test_both_ends_of_a_range_are_figures_of_one_unit() -> None:
    found = [(one.value, one.unit, one.sign) for one in read("30-40, 2-3%, $130 to 140, 5\u20136 days").figures]
    assert found == [
        *((30, "plain", 0), (40, "plain", 0), (2, "percent", 0), (3, "percent", 0)),
        *((130, "money", 0), (140, "money", 0), (5, "days", 0), (6, "days", 0)),
    ]


def test_figures_beyond_the_bound_are_counted_and_not_kept() -> None:
    reading = read("7.5 " * (MOST_FIGURES + 20))
    assert (len(reading.figures), reading.more) == (MOST_FIGURES, 20)
