"""Whole episodes through real workers, by the rulebook on the replay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
from sqlmodel import select

from chordesk.agents.board.voices import VOICES
from chordesk.models.states import RunState
from chordesk.models.tables.board import (
    EpisodeQuestion,
    Forecast,
    KarmaEntry,
    Question,
    Signal,
    SignalCitation,
)
from chordesk.models.tables.runs import Step
from chordesk.tools.board.harvesters import HARVESTERS
from tests.tasks.board.episode.kit import SYMBOLS, Floor, floor

EARLIER, LATER = "2010-07-28", "2010-08-12"  # ten sessions lie between them


@pytest.fixture(scope="module")
def rulebook() -> Iterator[Floor]:
    with floor() as made:
        yield made


def test_an_episode_resolves_harvests_forecasts_in_two_rounds_and_tallies(rulebook: Floor) -> None:
    found = rulebook.json("episode", *SYMBOLS)
    run_id = found["run_id"]
    assert (found["kind"], found["state"]) == ("episode", RunState.DONE)
    steps = rulebook.rows(Step, run_id)
    assert Counter(step.kind for step in steps) == {
        "brief": 1, "harvest": len(HARVESTERS), "board": 1, "voice": 12, "round": 2, "tally": 1, "finish": 1,
    }  # fmt: skip
    assert {(step.state, step.attempt, step.sends) for step in steps} == {("done", 1, 1)}
    assert {row.tool for row in rulebook.rows(Signal, run_id)} == set(HARVESTERS)
    asked = rulebook.rows(EpisodeQuestion, run_id)
    assert sorted(row.label for row in asked) == ["Q1", "Q2", "Q3", "Q4"]
    forecasts = rulebook.rows(Forecast, run_id)
    assert {row.voice for row in forecasts} == set(VOICES)
    assert all(row.change for row in forecasts)
    assert Counter(row.round for row in forecasts)[1] == Counter(row.round for row in forecasts)[2] > 0
    citations = rulebook.rows(SignalCitation, run_id)
    assert len(citations) == sum(len(row.citations) for row in forecasts)
    assert all(row.counts for row in citations), [row.reason for row in citations if not row.counts]
    tally = found["episode"]
    assert tally["content"].startswith("# Episode ")
    assert (tally["rounds"], tally["used_round"]) == (2, 1)
    published = {one["question"]: one["aggregate"]["probability"] for one in tally["summary"]["questions"]}
    assert {row.label: row.blind for row in asked} == published, "what is published of a board is what its record has"
    assert all(row.informed is not None for row in asked)
    assert {row["voice"] for row in tally["summary"]["leaderboard"]} == set(VOICES)
    assert rulebook.json("runs", "show", run_id)["episode"] == tally


def test_an_episode_earns_nothing_before_its_questions_resolve_and_tells_the_conduct(rulebook: Floor) -> None:
    first, second = (rulebook.json("episode", "AAPL", "KO", "--rounds", "1") for _ in range(2))
    assert second["episode"]["number"] == first["episode"]["number"] + 1
    with rulebook.store.read() as session:
        assert session.exec(select(KarmaEntry)).all() == []
    shown = second["episode"]["summary"]["leaderboard"]
    assert {row["skill"] for row in shown} == {0.0}
    assert any(row["conduct"] for row in shown)


def test_without_symbols_the_largest_moves_are_asked_about_and_after_a_screen_its_candidates(rulebook: Floor) -> None:
    small = {"DESK_UNIVERSE": "AAPL,IBM,HPQ,KO,GE,F"}
    moved = rulebook.json("episode", "--rounds", "1", **small)
    assert "symbols: largest moves of AAPL,IBM,HPQ,KO,GE,F over 21 sessions, either way" in moved["notes"]
    assert asked(rulebook, moved["run_id"])[0] == "HPQ", "it fell by 15 %"
    screen = rulebook.json("screen", "--universe", "AAPL,IBM,GE,F,XOM,JPM,WMT,KO", "--lens", "technical", "--max", "3")
    after = rulebook.json("episode", "--rounds", "1", **small)
    ranked = [row["symbol"] for row in screen["candidates"] if row["origin"] == "screen"]
    assert ranked
    assert f"symbols: candidates of screen {screen['run_id']}" in after["notes"]
    assert set(ranked) <= set(asked(rulebook, after["run_id"]))


def asked(made: Floor, run_id: str) -> list[str]:
    """The symbols of an episode's questions, by label."""
    with made.store.read() as session:
        found = select(Question.subjects, EpisodeQuestion.label).join(
            EpisodeQuestion,
            EpisodeQuestion.question_id == Question.id,  # type: ignore[arg-type]
        )
        rows = session.exec(found.where(EpisodeQuestion.run_id == run_id)).all()
    return [subjects[0] for subjects, label in sorted(rows, key=lambda row: (len(row[1]), row[1]))]


def test_a_later_episode_resolves_what_is_due_and_books_the_skill_of_each_voice_once(rulebook: Floor) -> None:
    earlier = rulebook.json("episode", *SYMBOLS, DESK_REPLAY_DATE=EARLIER)["run_id"]
    rulebook.json("episode", "AAPL", "--rounds", "1", DESK_REPLAY_DATE=LATER)
    with rulebook.store.read() as session:
        ids = session.exec(select(EpisodeQuestion.question_id).where(EpisodeQuestion.run_id == earlier)).all()
        questions = session.exec(select(Question).where(Question.id.in_(ids))).all()  # type: ignore[attr-defined]
        entries = session.exec(select(KarmaEntry)).all()
    assert {(row.state, row.outcome in (0.0, 0.5, 1.0)) for row in questions} == {("resolved", True)}
    assert all(row.evidence["source"] for row in questions if row.evidence)
    booked = Counter((row.voice, row.question_id) for row in entries)
    assert {(voice, row.id) for voice in VOICES for row in questions} <= booked.keys()
    assert set(booked.values()) == {1}
    published = rulebook.json("scores")["published"]
    assert published["brier"]["n"] >= len(questions), "what was published is what is scored"
    again = rulebook.json("episode", "AAPL", "--rounds", "1", DESK_REPLAY_DATE=LATER)
    with rulebook.store.read() as session:
        assert len(session.exec(select(KarmaEntry)).all()) == len(entries)
    resolved = [row for row in again["episode"]["summary"]["leaderboard"] if row["resolved"]]
    assert {row["voice"] for row in resolved} == set(VOICES)
