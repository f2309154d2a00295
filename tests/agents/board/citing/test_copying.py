"""The copy score on the specification's own headline, on others, and on short ones."""

from __future__ import annotations

import pytest

from chordesk.agents.board.citations import compare, terms
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
