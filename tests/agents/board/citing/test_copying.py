"""The copy score on the specification's own headline, on others, and on short ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.agents.board.citing.copying import compare, copy_score, terms
from tests.agents.board.kit import AUDIT, DIVERGENCE, FUNDING, HEAT, TEMPORAL

PADDING = (
    "I have weighed this for a long while, as the desk knows, and it comes to what follows. ",
    " So much for it all.",
)
LIGHT_EDIT = (
    "BTC funding rate is at -0.015% over on HyperLiquid with shorts paying. It was negative in 6 of the last 8 "
    "intervals: the market is tilted down and getting costly."
)
SYNONYMS = (
    "Bitcoin funding rate at -0.015% on HyperLiquid: shorts pay up. Below zero in 6 of 8 intervals. The market tilts "
    "bearish though costly to keep short bets."
)
PARAPHRASE = (
    "Those who bet on a fall of BTC have paid for it in 6 of 8 settlements; a crowd that pays to be bearish tends to "
    "cover, so I expect pressure from shorts to fade."
)
DISAGREEMENT = (
    "Six of eight is too few to call it: paid funding persists for weeks in a falling market, and I doubt that the "
    "crowd is wrong."
)
REORDERED = (
    "Market leaning bearish but getting expensive to hold shorts. Negative 6 of last 8 intervals. BTC funding rate "
    "-0.015% on HyperLiquid (shorts paying)."
)


@pytest.mark.parametrize(
    ("claim", "score"),
    [
        (FUNDING, 1.0),
        (FUNDING.join(PADDING), 1.0),
        (REORDERED, 1.0),
        (LIGHT_EDIT, 0.69),
        (SYNONYMS, 0.44),
        (PARAPHRASE, 0.19),
        (DISAGREEMENT, 0.12),
        ("", 0.0),
        ("0.015 6 8", 0.0),
    ],
)
def test_the_measured_scores_of_one_headline(claim: str, score: float) -> None:
    assert copy_score(claim, FUNDING) == pytest.approx(score, abs=0.006)


@pytest.mark.parametrize("other", [DIVERGENCE, HEAT, AUDIT, TEMPORAL])
def test_headlines_of_other_signals_are_far(other: str) -> None:
    assert max(copy_score(other, FUNDING), copy_score(FUNDING, other)) < 0.09


@pytest.mark.parametrize("headline", [FUNDING, HEAT, AUDIT, TEMPORAL, DIVERGENCE])
def test_a_copy_is_found_whatever_its_dress(headline: str) -> None:
    assert compare(headline.upper(), headline).quoted
    assert compare(headline.join(PADDING), headline).quoted
    assert compare(headline.replace(" ", "\u200b \u2009"), headline).quoted
    assert compare("".join(chr(ord(one) + 0xFEE0) if one.isalpha() else one for one in headline), headline).quoted
    sentences = [one for one in headline.split(". ") if one]
    assert compare(". ".join(reversed(sentences)), headline).quoted


def test_a_short_headline_can_be_named_and_not_repeated() -> None:
    headline = "AAPL: RSI-14 28.1, oversold."
    assert terms(headline) == ("aapl", "rsi", "oversold")
    named = compare(
        "With RSI at 28.1 AAPL is oversold, and three of four such lows were followed by a rebound", headline
    )
    assert named.score >= 0.6
    assert not named.quoted
    assert compare(headline, headline).quoted


@given(st.text(max_size=200), st.text(max_size=200))
def test_a_score_is_a_share_and_a_text_is_a_copy_of_itself(one: str, other: str) -> None:
    assert 0 <= copy_score(one, other) <= 1
    assert copy_score(one, one) == (1.0 if terms(one) else 0.0)


@given(st.lists(st.sampled_from(sorted(set(terms(FUNDING + HEAT)))), min_size=3, max_size=20), st.text(max_size=60))
def test_padding_never_lowers_a_score(headline: list[str], padding: str) -> None:
    claim = " ".join(headline[: len(headline) // 2 + 1])
    whole = " ".join(headline)
    assert copy_score(f"{padding} | {claim} | {padding}", whole) >= copy_score(claim, whole)
