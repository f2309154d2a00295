"""Headlines of a share in the order in which they may say something of it; repeats are one, the rest is counted."""

from __future__ import annotations

import datetime as dt

import pytest

from chordesk.models.market import Headline
from chordesk.tools.market.relevance import kind_of, ranked

NOON = dt.datetime(2025, 3, 24, 12, tzinfo=dt.UTC)
TOLD = (  # the newest first
    "Meridian Growth Fund Q1 2025 commentary",
    "12 dividend stocks to hold forever",
    "Stock market today: Dow Jones slips before the Fed",
    "Is it time to buy Chevron?",
    "Chevron (CVX) opens an office",
    "Oil giants gather in Houston",
    "Citi downgrades Chevron on weak refining",
    "Citi downgrades Chevron on weak refining margins",
    "Chevron sued over a spill in Louisiana",
)


def rows(*told: str) -> list[Headline]:
    return [
        Headline(symbol="CVX", headline=text, source="wire", published_at=NOON - dt.timedelta(hours=at))
        for at, text in enumerate(told)
    ]


def test_news_of_the_company_comes_before_lists_and_commentary_however_new_these_are() -> None:
    found = ranked(rows(*TOLD)[::-1], "CVX", "Chevron Corporation", 4)
    assert [row.headline for row in found.shown] == [TOLD[6], TOLD[8], TOLD[4], TOLD[3]]
    assert found.kinds == ("rating", "legal", "other", "list")
    assert found.repeats == (1, 0, 0, 0)
    assert dict(found.rest) == {"fund commentary": 1, "list": 1, "market wrap": 1, "other": 1}
    assert len(found.shown) + sum(found.repeats) + found.rest.total() == len(TOLD), "each is shown, folded or counted"


def test_a_symbol_that_is_a_word_names_nothing_by_itself() -> None:
    told = ("Why it pays to wait", "Agilent (A) lifts its outlook", "A big day for oil")
    found = ranked(rows(*told), "A", None, 3)
    assert found.shown[0].headline == told[1]
    assert ranked(rows(*told), "PAYS", "Pays Inc", 1).shown[0].headline == told[0]


@pytest.mark.parametrize(
    ("headline", "kind"),
    [
        ("ACME cuts its guidance for the year", "results"),
        ("ACME to buy Widget Co for $3 billion", "deal"),
        ("ACME's chief executive resigns", "management"),
        ("Regulators investigate ACME", "legal"),
        ("7 best AI stocks to watch", "list"),
        ("Hedge fund trims its stake in ACME", "fund commentary"),
        ("ACME smiles", "other"),
    ],
)
def test_a_headline_has_a_kind(headline: str, kind: str) -> None:
    assert kind_of(headline)[0] == kind
