"""The drafter's answer: what of it becomes a lens's file, and what is sent back with a line."""

from __future__ import annotations

from typing import Any

import pytest

from chordesk.agents.drafting.drafter import complete_draft, draft_subject
from chordesk.agents.rulebook.cases import Case
from chordesk.agents.rulebook.policies import POLICIES
from chordesk.agents.turn_answers import AnswerError
from chordesk.models.settings import Settings
from chordesk.tools.lenses.figures import PRICE_FIGURES
from chordesk.tools.lenses.files import read_lens

GOOD = {
    "name": "calm-risers", "purpose": 'names that "rise" \u00e0 la calm', "by": "rule", "universe": "",
    "where": "momentum60 > 0.05", "score": "rank(momentum60)", "high": "", "figures": ["momentum60"], "hits": 4,
    "words": "Names that rise. A takeover is no hit.",
}  # fmt: skip


def subject(words: str = "Rises.", **more: Any) -> dict[str, Any]:
    return dict(draft_subject(Settings(), words, **{"figures": PRICE_FIGURES, **more}))


def test_an_answer_becomes_the_text_of_a_file() -> None:
    found = complete_draft(dict(GOOD), subject(), ())
    lens = read_lens(found["name"], found["text"])
    assert (lens.by, lens.where, lens.score, lens.figures, lens.hits) == (
        "rule", "momentum60 > 0.05", "rank(momentum60)", ("momentum60",), 4
    )  # fmt: skip
    assert (lens.purpose, lens.words) == (GOOD["purpose"], GOOD["words"])
    assert complete_draft(dict(GOOD), subject(name="mine"), ())["name"] == "mine"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"where": "momentum61 > 0"}, "momentum61"),
        ({"where": "dividendYield > 0.02"}, "the market has no dividendYield: choose among close"),
        ({"figures": ["dividendYield"]}, "the market has no dividendYield"),
        ({"universe": "beta < 1"}, "the market has no beta"),
        ({"where": "momentum60"}, "is a number"),
        ({"score": "momentum60 > 0"}, "is true or false"),
        ({"where": ""}, "has no rule"),
        ({"words": "One.\n+++\nwhere = 'gap > 0'\n+++\nTwo."}, "two front matters"),
        ({"words": " \n"}, "no words"),
        ({"words": "long " * 900}, "4,499 characters"),
        ({"words": "turned \u202e round"}, "U\\+202E"),
        ({"purpose": "a\x1b[2Jscreen"}, "U\\+001B"),
        ({"purpose": "x" * 300}, "purpose"),
        ({"name": "technical"}, "there is a lens technical already"),
        ({"name": "Not a name"}, "name that is not allowed"),
        ({"name": "../../etc"}, "name that is not allowed"),
    ],
)
def test_what_is_no_lens_is_sent_back_with_one_line(change: dict[str, Any], says: str) -> None:
    with pytest.raises(AnswerError, match=says) as raised:
        complete_draft({**GOOD, **change}, subject(), ())
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("words", "where"),
    [
        ("Calm names that RISE", "momentum60 > 0.05 and volatility20 < 0.35 and splitLike == 0"),
        ("oversold, on much volume", "rsi14 < 35 and volumeRatio > 1.5 and splitLike == 0"),
        ("pays a dividend", ""),  # the market has no such figure
        ("surprise me", ""),  # holds "rise" within a word
    ],
)
def test_rules_draft_what_they_know_of_the_words(words: str, where: str) -> None:
    given = subject(words, taken=["one", "calm-names-that"])
    made = POLICIES["drafter"](Case("drafter", given, frozenset(), []))
    assert isinstance(made, dict)
    found = complete_draft(made, given, ())
    assert (found["where"], found["by"]) == (where, "rule" if where else "model")
    assert found["name"] not in given["taken"]
    assert read_lens(found["name"], found["text"]).words == words
