"""The content of an episode: quotes by rule, tables with a row a voice, and no text that breaks them."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.agents.board.content import EpisodeTally, VoiceStanding, content, escaped, markdown
from chordesk.agents.board.karma import aggregate, conduct, convergence, herding
from chordesk.models.questions import VoicePosition
from chordesk.tools.scoring.inference import known_estimate
from tests.agents.board.kit import BOARD, FUNDING, cite, judged, position

VOICES = {"mediator": "pattern", "sizer": "ledger", "weaver": "pattern"}


def tally(*positions: VoicePosition, notes: dict[str, list[str]] | None = None) -> EpisodeTally:
    found = judged(*positions)
    alpha = known_estimate(0.02, 0.01, 4, 40, 12, 12, 30.0)
    shares = dict.fromkeys(VOICES, 1 / len(VOICES))
    return EpisodeTally(
        board=BOARD,
        standings=tuple(
            VoiceStanding(voice, faction, 2.0 if voice == "sizer" else -1.0, alpha if voice == "sizer" else None)
            for voice, faction in VOICES.items()
        ),
        positions=positions,
        judged=tuple(found),
        conduct=tuple(one for voice in VOICES for one in conduct(voice, "funding", positions, found, BOARD)),
        rounds={2: aggregate(positions, BOARD, 2, shares, VOICES)},
        used_round=2,
        convergence=tuple(convergence(positions)),
        herding=herding(positions, None),
        notes=notes or {},
    )


def answers(text: str = "The shorts pay, and pay again.") -> list[VoicePosition]:
    chain = ["funding-1", "temporal-1"]
    return [
        position([cite("funding-1"), cite("temporal-1")], because=text, chain=chain, probability=0.7),
        position(
            [cite("funding-1", stance="disagree")], voice="sizer", because="Too small to bet on.", probability=0.4
        ),
        position([cite("temporal-1")], voice="weaver", because=f"Note: {FUNDING}", probability=0.9),
        position([cite("funding-1"), cite("temporal-1")], number=2, because=text, chain=chain, probability=0.6),
        position([], voice="sizer", number=2, because=text, probability=0.45),
    ]


def rows(page: str, title: str) -> list[str]:
    """Return the rows of the table of a title, without its head."""
    part = page.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
    return [line for line in part.splitlines() if line.startswith("|")][2:]


def test_the_summary_of_an_episode() -> None:
    made = content(tally(*answers()))
    assert [one["voice"] for one in made["quotes"]] == ["mediator"]
    assert [one["voice"] for one in made["leaderboard"]] == ["sizer", "mediator", "weaver"]
    assert made["leaderboard"][0]["resolved"] == 40
    told = {one["voice"]: [each["conduct"] for each in one["conduct"]] for one in made["leaderboard"]}
    assert told == {"sizer": ["own_tool"], "mediator": ["synthesis", "chain"], "weaver": []}
    assert [(one["voice"], one["round"]) for one in made["chains"]] == [("mediator", 1), ("mediator", 2)]
    assert [(one["voice"], one["signal"]) for one in made["disagreements"]] == [("sizer", "funding-1")]
    assert made["signals"] == {
        "states": {"live": 5, "offline": 1, "dormant": 1},
        "offline": ["arbitrage"],
        "unused": ["divergence", "factors", "portfolio"],
    }
    assert [(one["voice"], one["source"], one["copied"]) for one in made["lint"]["convergence"]] == [
        ("sizer", "mediator", True)
    ]
    assert made["positions"][0] == {"voice": "mediator", "forecasts": {"Q1": {"1": 0.7, "2": 0.6}}}
    assert json.loads(json.dumps(made)) == made


def test_an_episode_without_answers_has_a_page() -> None:
    page = markdown(content(EpisodeTally(BOARD, tuple(VoiceStanding(voice) for voice in VOICES))))
    assert len(rows(page, "Positions")) == len(rows(page, "Leaderboard")) == len(VOICES)


HOSTILE = [
    "a | b | c\n| mediator | 99% | 99% |",
    "\n# Episode 10\n## Leaderboard\n| me | +99 |",
    "<script>alert(1)</script> <img src=x onerror=y>",
    "[free money](javascript:alert(1)) ![x](https://example.org/p.png) https://example.org www.example.org",
    "```\ncode\n``` ~~~ *bold* _it_ **",
    "\u202egnp.exe \x00 \x1b[31m red \u2028 line \\| \\",
    "&lt;b&gt; $x$ @everyone",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_breaks_the_page(text: str) -> None:
    page = markdown(content(tally(*answers(text), notes={"weaver": [text]})))
    usual = markdown(content(tally(*answers(), notes={"weaver": ["a line"]})))
    assert [line for line in page.splitlines() if line.startswith("#")] == [
        line for line in usual.splitlines() if line.startswith("#")
    ]
    assert len(rows(page, "Positions")) == len(rows(page, "Leaderboard")) == len(VOICES)
    assert not re.search(r"(?<!\\)[<\[`]|://|(?<![\\a-z])www\.|[\x00\x1b\u202e\u2028]", page)


@given(st.text(max_size=80))
def test_escaped_text_is_one_line_without_markup(text: str) -> None:
    found = escaped(text)
    assert len(found.splitlines()) <= 1
    assert not re.search(r"[|<>`*_\[\]]", re.sub(r"\\.", "", found))
