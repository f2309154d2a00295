"""The decision on each citation: labels, state, question, figures, copies, repetitions."""

from __future__ import annotations

import datetime as dt
import random

import pytest

from chordesk.agents.board.board_text import Board
from chordesk.agents.board.citations import JudgedCitation, judge
from chordesk.models.questions import CitedSignal
from chordesk.models.tables.board import Signal
from tests.agents.board.kit import BOARD, FUNDING, HEAT, cite, position, question, signal

PADDING = (
    "I have weighed this for a long while, as the desk knows, and it comes to what follows. ",
    " So much for it all.",
)
LIGHT_EDIT = (
    "BTC funding rate is at -0.015% over on HyperLiquid with shorts paying. It was negative in 6 of the last 8 "
    "intervals: the market is tilted down and getting costly."
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


def reason(citation: CitedSignal, label: str = "Q1") -> str | None:
    """Return why one citation does not count, None for one that does."""
    (found,) = judge(position([citation], label=label), BOARD)
    assert found.counts or found.reason
    return None if found.counts else found.reason


@pytest.mark.parametrize(
    ("citation", "label", "why"),
    [
        (cite("momentum-7", "as momentum has it"), "Q1", "no such signal on this board"),
        (cite("events-1", "no event is near"), "Q1", "the signal is dormant"),
        (cite("arbitrage-1", "the venue is down"), "Q1", "the signal is offline"),
        (cite("divergence-1"), "Q1", "the signal does not concern Q1"),
        (cite("funding-1"), "Q2", "the signal does not concern Q2"),
        (cite("funding-1"), "Q9", "its question is not on this board"),
        (cite("funding-1", " \n"), "Q1", "the claim names nothing of the signal"),
        (cite("funding-1", "green ideas sleep furiously"), "Q1", "the claim names nothing of the signal"),
        (cite("funding-1", "shorts pay 0.15% now"), "Q1", "not in the signal's data: 0.15%"),
        (cite("funding-1", "funding of +0.015%"), "Q1", "not in the signal's data: +0.015%"),
        (cite("funding-1", "negative in 7 of 8 intervals"), "Q1", "not in the signal's data: 7"),
        (cite("portfolio-1", "heat of 34% and 13% of cash"), "Q1", "not in the signal's data: 13%"),
    ],
)
def test_a_citation_that_does_not_count_has_its_reason(citation: CitedSignal, label: str, why: str) -> None:
    assert reason(citation, label) == why


def test_a_difference_of_two_figures_of_the_data_has_a_source() -> None:
    claim = "ETH stands at 62% on one venue against 54% on the other, 8 points more"
    assert reason(cite("divergence-1", claim), "Q2") is None


@pytest.mark.parametrize("claim", [FUNDING, FUNDING.join(PADDING), REORDERED, LIGHT_EDIT])
@pytest.mark.parametrize("stance", ["build", "disagree", "quote"])
def test_a_copy_is_void_whatever_its_stance(claim: str, stance: str) -> None:
    (found,) = judge(
        position([CitedSignal.model_validate({"signal": "funding-1", "stance": stance, "claim": claim})]), BOARD
    )
    assert not found.counts
    assert found.quoted
    assert (found.reason or "").startswith("copied:")
    assert (found.copied or 0) >= 0.6


@pytest.mark.parametrize("claim", [PARAPHRASE, DISAGREEMENT])
def test_a_claim_in_ones_own_language_counts_without_a_note(claim: str) -> None:
    (found,) = judge(position([cite("funding-1", claim, "disagree")]), BOARD)
    assert found.counts
    assert found.reason is None


def test_a_signal_counts_once_a_question() -> None:
    found = judge(position([cite("funding-1"), cite("funding-1", PARAPHRASE)]), BOARD)
    assert [one.counts for one in found].count(True) == 1
    assert [one.reason for one in found if not one.counts] == ["the signal is cited before on this question"]


def test_a_headline_in_parts_is_a_copy() -> None:
    half = FUNDING.index("Negative")
    found = judge(position([cite("funding-1", FUNDING[:half]), cite("funding-1", FUNDING[half:])]), BOARD)
    assert not any(one.counts for one in found)
    assert any(one.quoted for one in found)
    pieces = FUNDING.split()
    thirds = [" ".join(pieces[at : at + 8]) for at in range(0, len(pieces), 8)]
    found = judge(position([cite("funding-1", one) for one in thirds]), BOARD)
    assert not any(one.counts for one in found)
    assert any(one.quoted for one in found)


def test_one_sentence_has_to_name_each_signal_that_it_stands_for() -> None:
    nonsense = "As BTC combined with everything shows, the moon confirms it."
    found = judge(position([cite("funding-1", nonsense), cite("temporal-1", nonsense)]), BOARD)
    assert [one.reason for one in found] == ["the claim names nothing of the signal"] * 2
    synthesis = "BTC funding is against the shorts while the bounce loses volume."
    found = judge(position([cite("funding-1", synthesis), cite("temporal-1", synthesis)]), BOARD)
    assert all(one.counts for one in found)


def test_the_order_of_citations_changes_nothing() -> None:
    half = FUNDING.index("Negative")
    citations = [
        cite("funding-1"),
        cite("funding-1", PARAPHRASE, "disagree"),
        cite("funding-1", "shorts pay 9%"),
        cite("funding-1", FUNDING[:half]),
        cite("temporal-1"),
        cite("temporal-1", TEMPORAL_COPY),
        cite("portfolio-1", HEAT),
        cite("nothing-1", "nothing"),
    ]

    def decided(given: list[CitedSignal]) -> list[tuple[str, str, str, bool, str | None]]:
        return sorted(
            (one.cited.signal, one.cited.stance, one.cited.claim, one.counts, one.reason)
            for one in judge(position(given), BOARD)
        )

    first = decided(citations)
    draw = random.Random(7)
    for _ in range(30):
        draw.shuffle(citations)
        assert decided(citations) == first


TEMPORAL_COPY = "Weak bounce signal. BTC 4h momentum diverging from daily. Volume declining into bounce."


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
DESK_QUESTIONS = tuple(
    question(label, text=f"Will {symbol} beat the universe's median over the next 10 sessions?", subjects=(symbol,))
    for label, symbol in (("Q1", "HAL"), ("Q2", "XOM"))
)
DESK_BOARD = Board(DESK_QUESTIONS, FINDINGS, 1, dt.date(2010, 8, 12))


def decision_on(one: Signal, claim: str) -> JudgedCitation:
    """Return the decision on a claim, by a forecast of 0.57."""
    label = "Q2" if one.subjects == ("XOM",) else "Q1"
    (found,) = judge(position([cite(one.label, claim)], label=label, probability=0.57), DESK_BOARD)
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
    found = decision_on(one, dress(one.headline))
    assert found.quoted
    assert not found.counts
    assert (found.copied or 0) >= 0.6


@pytest.mark.parametrize(
    ("label", "claim"),
    [
        ("momentum-1", "HAL is drifting up, +1.2% in 20 sessions and +2.9% in 60, but rank 167 is the middle."),
        ("momentum-1", "Slow strength on both horizons supports YES."),
        ("momentum-1", "Ranked 167th of 492: noise rather than a trend over the next 10 sessions."),
        ("reversal-1", "A 9% drop in a week is the kind of move that often snaps back."),
        ("reversal-1", "Oversold after five bad days."),
        ("reversal-1", "I doubt the reversal: selling this heavy usually has a reason."),
        ("volatility-1", "XOM is unusually volatile for itself (87th percentile of its own windows): a wider range."),
        ("volatility-1", "Realised volatility of 23.3% is high for XOM but low against others (365 of 454): no lean."),
        ("factors-1", "With a mean correlation of 0.69 these four names are little more than one bet."),
        ("momentum-1", "Up 1% in 20 sessions, about 3% in 60: a small tilt."),
        ("screen-1", "Two lenses out of four agree on it, which is no majority; I stay at 57%."),
    ],
)  # fmt: skip
def test_an_honest_claim_on_a_short_headline_counts(label: str, claim: str) -> None:
    found = decision_on(DESK_BOARD.signals_by_label[label], claim)
    assert found.counts, found.reason
    assert not found.quoted


@pytest.mark.parametrize(
    ("label", "claim", "figure"),
    [
        ("momentum-1", "HAL gained 2.1% in 20 sessions", "2.1%"),
        ("momentum-1", "HAL lost -1.2% in 20 sessions", "-1.2%"),
        ("momentum-1", "rank 267 of 492", "267"),
        ("volatility-1", "volatility of 57%", "57%"),
        ("factors-1", "a correlation of 0.96", "0.96"),
        ("screen-1", "put forward on 2010-08-13", "2010-08-13"),
        ("volatility-1", "2 of its windows are wider", "2"),
        ("momentum-1", "rank 5" + ", 6, 7" * 20, "more than 24 figures"),
    ],
)
def test_an_invented_figure_is_found(label: str, claim: str, figure: str) -> None:
    """57% is the forecast, which the claim does not name."""
    found = decision_on(DESK_BOARD.signals_by_label[label], claim)
    assert not found.counts
    assert found.reason == f"not in the signal's data: {figure}"


def test_letters_that_only_look_alike_are_the_same() -> None:
    alike = str.maketrans("aeopcxyAX", "\u0430\u0435\u03bf\u0440\u0441\u0445\u0443\u0391\u0425")
    assert decision_on(FINDINGS[2], FINDINGS[2].headline.translate(alike)).quoted
