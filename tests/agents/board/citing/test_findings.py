"""Copies and honest claims on headlines as the desk's own tools write them: short, and mostly figures."""

from __future__ import annotations

import datetime as dt
import time

import pytest

from chordesk.agents.board.board import Board
from chordesk.agents.board.citations import JudgedCitation, judge
from chordesk.models.tables.board import Signal
from tests.agents.board.kit import cite, position, question, signal

FINDINGS = (
    signal(
        "momentum",
        "HAL: +1.2% in 20 sessions, rank 167 of 492; +2.9% in 60, rank 115 of 484",
        direction="bullish",
        confidence=0.0426,
        subjects=("HAL",),
        data={
            "symbol": "HAL", "short": 20, "momentum20": 0.0117, "rank20": 167, "of20": 492, "long": 60,
            "momentum60": 0.0286, "rank60": 115, "of60": 484, "percentile": 0.7129, "session": "2010-08-12",
        },
    ),
    signal(
        "reversal",
        "HAL: -9.0% in 5 sessions, rank 456 of 486; a reversal would go the other way",
        direction="bullish",
        confidence=0.0876,
        subjects=("HAL",),
        data={"symbol": "HAL", "sessions": 5, "return5": -0.0902, "rank": 456, "of": 486, "percentile": 0.0619},
    ),
    signal(
        "volatility",
        "XOM: realised volatility 23.3% a year over 20 sessions, above 87% of its 219 own windows, rank 365 of 454; "
        "deepest fall -10.4% in 60 sessions",
        confidence=0.7442,
        subjects=("XOM",),
        data={
            "symbol": "XOM", "sessions": 20, "volatility": 0.2331, "percentile": 0.8721, "windows": 219, "rank": 365,
            "of": 454, "drawdownSessions": 60, "drawdown": -0.1039, "missing": ["AAPL"],
        },
    ),
    signal(
        "factors",
        "4 symbols of questions and holdings have a mean correlation of 0.69 over 60 sessions (the universe 0.60): as "
        "many as 1.3 independent ones",
        confidence=0.2165,
        data={"names": 4, "correlation": 0.6899, "sessions": 60, "universeCorrelation": 0.6043, "effectiveBets": 1.3},
    ),
    signal(
        "screen",
        "HAL: put forward by 2 of 4 lenses of the screen with hits: technical, catalyst",
        direction="bullish",
        confidence=0.6,
        subjects=("HAL",),
        data={"symbol": "HAL", "lensCount": 2, "lensesWithHits": 4, "lenses": "technical, catalyst"},
    ),
)  # fmt: skip
QUESTIONS = tuple(
    question(label, text=f"Will {symbol} beat the universe's median over the next 10 sessions?", subjects=(symbol,))
    for label, symbol in (("Q1", "HAL"), ("Q2", "XOM"))
)
BOARD = Board(QUESTIONS, FINDINGS, 1, dt.date(2010, 8, 12))


def decided(one: Signal, claim: str) -> JudgedCitation:
    """Return the decision on a claim, by a forecast of 0.57."""
    label = "Q2" if one.subjects == ("XOM",) else "Q1"
    (found,) = judge(position([cite(one.label, claim)], label=label, probability=0.57), BOARD)
    return found


def reordered(headline: str) -> str:
    parts = headline.replace(":", ";").replace(",", ";").split(";")
    return "; ".join(reversed(parts))


@pytest.mark.parametrize("one", FINDINGS, ids=lambda one: str(one.tool))
@pytest.mark.parametrize(
    "dress",
    [
        str,
        str.upper,
        "I have thought about it and hold that {} and so it goes for me, whatever happens next.".format,
        "As the tool of the desk has it: {}".format,
        reordered,
        lambda text: text.replace("rank", "ranked").replace("sessions", "trading sessions").replace("symbols", "names"),
    ],
    ids=["verbatim", "upper", "padded", "introduced", "reordered", "edited"],
)
def test_every_dress_of_a_headline_is_a_copy(one: Signal, dress: object) -> None:
    assert callable(dress)
    found = decided(one, dress(one.headline))
    assert found.quoted
    assert not found.counts
    assert (found.copied or 0) >= 0.6


@pytest.mark.parametrize(
    ("label", "claim"),
    [
        ("momentum-1", "HAL is drifting up, +1.2% in 20 sessions and +2.9% in 60, but rank 167 is the middle."),
        ("momentum-1", "A rank of 115 of 484 over 60 sessions is mild strength."),
        ("momentum-1", "Slow strength on both horizons supports YES."),
        ("momentum-1", "Medium-term trend supports outperformance."),
        ("momentum-1", "20- and 60-day momentum are both positive."),
        ("momentum-1", "Ranked 167th of 492: noise rather than a trend over the next 10 sessions."),
        ("reversal-1", "A 9% drop in a week is the kind of move that often snaps back."),
        ("reversal-1", "HAL fell 9.0% in 5 sessions, near the bottom at 456 of 486, and such losers tend to recover."),
        ("reversal-1", "Oversold after five bad days."),
        ("reversal-1", "I doubt the reversal: selling this heavy usually has a reason."),
        ("volatility-1", "XOM is unusually volatile for itself (87th percentile of its own windows): a wider range."),
        ("volatility-1", "Realised volatility of 23.3% is high for XOM but low against others (365 of 454): no lean."),
        ("volatility-1", "A deepest fall of 10.4% in 60 sessions shows that the risk is on the downside."),
        ("factors-1", "With a mean correlation of 0.69 these four names are little more than one bet."),
        ("factors-1", "Effective bets of 1.3 out of 4: do not stake each as if it stood alone."),
        ("momentum-1", "Up 1% in 20 sessions, about 3% in 60: a small tilt."),
        ("screen-1", "Two lenses out of four agree on it, which is no majority; I stay at 57%."),
        ("screen-1", "Technical and catalyst lenses both like HAL, so I go above the baseline of 50%."),
    ],
)  # fmt: skip
def test_an_honest_claim_counts(label: str, claim: str) -> None:
    found = decided(BOARD.signals_by_label[label], claim)
    assert found.counts, found.reason
    assert not found.quoted


@pytest.mark.parametrize(
    ("label", "claim", "figure"),
    [
        ("momentum-1", "HAL gained 2.1% in 20 sessions", "2.1%"),
        ("momentum-1", "HAL lost -1.2% in 20 sessions", "-1.2%"),
        ("momentum-1", "rank 267 of 492", "267"),
        ("reversal-1", "a fall of 9.3% in 5 sessions", "9.3%"),
        ("volatility-1", "volatility of 57%", "57%"),
        ("volatility-1", "volatility of 50% a year", "50%"),
        ("factors-1", "a correlation of 0.96", "0.96"),
        ("screen-1", "put forward on 2010-08-13", "2010-08-13"),
        ("volatility-1", "2 of its windows are wider", "2"),
        ("momentum-1", "rank 5" + ", 6, 7" * 20, "more than 24 figures"),
    ],
)
def test_an_invented_figure_is_found(label: str, claim: str, figure: str) -> None:
    """57% and 50% are the forecast and the baseline, which the claim does not name."""
    found = decided(BOARD.signals_by_label[label], claim)
    assert not found.counts
    assert found.reason == f"not in the signal's data: {figure}"


@pytest.mark.parametrize("claim", ["I agree.", "yes", "lorem ipsum dolor sit amet", "banana", "\u200b\u2060", "!!"])
def test_a_claim_of_nothing_is_void(claim: str) -> None:
    assert decided(FINDINGS[0], claim).reason == "the claim names nothing of the signal"


def test_letters_that_only_look_alike_are_the_same() -> None:
    alike = str.maketrans("aeopcxyAX", "\u0430\u0435\u03bf\u0440\u0441\u0445\u0443\u0391\u0425")
    assert decided(FINDINGS[2], FINDINGS[2].headline.translate(alike)).quoted


HARD = ["1-2-3-4-5-" * 60, "1% 2% 3 points 4 of 5 " * 25, "9" * 600, "- " * 300, "(" * 600, "$1,000,000.00 " * 40]


@pytest.mark.parametrize("text", [*HARD, *(f"momentum, rank 167: {text[:95]}" for text in HARD)])
def test_no_claim_takes_long(text: str) -> None:
    """600 characters are the most of a claim that a board takes; 480 of them are an episode."""
    began = time.process_time()
    decided(FINDINGS[0], text[:600])
    assert time.process_time() - began < 0.25
