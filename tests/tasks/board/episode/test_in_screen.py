"""Rounds of voices between the verdicts of a screen and its trader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from chordesk.agents.board.voices import VOICES
from chordesk.models.tables.board import Episode, Forecast, Question, SignalCitation
from chordesk.models.tables.runs import Step
from tests.fakes.responses import Reply
from tests.tasks.board.episode.kit import Floor, VoiceModel, all_at, floor
from tests.tasks.views.chain import parts
from tests.tasks.workflows.scripted import Scripted, action

BOUGHT, LEFT = "IBM", "KO"
SCREEN = ("screen", "--universe", "IBM,KO,GE,F", "--lens", "technical")


class DeskModel:
    """Voices that forecast 0.7, and a desk that rates one symbol BUY and another PASS."""

    def __init__(self) -> None:
        self.voices = VoiceModel(all_at(0.7))
        self.desk = Scripted()
        self.reset()

    def reset(self) -> None:
        self.desk.reset()
        self.desk.hits = {"technical": [BOUGHT, LEFT]}
        self.desk.stances = {(LEFT, "quick"): "REJECT"}
        self.desk.actions = [action(BOUGHT)]

    def __call__(self, body: dict[str, Any]) -> Reply:
        texts = [part["text"] for item in body["input"] if item["type"] == "message" for part in item["content"]]
        is_voice = any(text.startswith("Role: voice_") for text in texts)
        return self.voices(body) if is_voice else self.desk(body)


@pytest.fixture(scope="module")
def model() -> DeskModel:
    return DeskModel()


@pytest.fixture(scope="module")
def made(model: DeskModel) -> Iterator[Floor]:
    with floor(model, DESK_COOLDOWN_HOURS="0") as found:
        yield found


def test_voices_forecast_the_bought_symbol_before_the_trader_decides(made: Floor, model: DeskModel) -> None:
    model.reset()
    found = made.json(*SCREEN, DESK_ROUNDS="2")
    assert found["state"] == "done", found["notes"]
    assert {row["symbol"]: row["verdict"] for row in found["candidates"]} == {BOUGHT: "BUY", LEFT: "PASS"}
    run_id = found["run_id"]
    steps = made.rows(Step, run_id)
    kinds = Counter(step.kind for step in steps)
    assert (kinds["brief"], kinds["board"], kinds["round"], kinds["voice"], kinds["tally"]) == (1, 1, 2, 12, 1)
    ended = {step.kind: step.finished_at for step in steps if step.kind in ("tally", "decide", "brief")}
    assert ended["brief"] < ended["tally"] < ended["decide"]
    assert {row.voice for row in made.rows(Forecast, run_id)} == set(VOICES)
    board = model.desk.subjects["trader"]["board"]
    assert set(board) == {BOUGHT}
    assert (board[BOUGHT]["probability"], board[BOUGHT]["baseline"], board[BOUGHT]["voices"]) == (0.7, 0.5, 6)
    assert board[BOUGHT]["signals"][0]["voices"] == 6
    assert made.rows(Episode, run_id)[0].content in found["episode"]["content"]


def test_the_lineage_of_an_order_goes_on_to_forecast_citation_and_signal(made: Floor, model: DeskModel) -> None:
    model.reset()
    found = made.json(*SCREEN, DESK_ROUNDS="1")
    (row,) = [one for one in found["actions"] if one["symbol"] == BOUGHT]
    shown = made.json("orders", "show", row["order_id"])
    assert {one["voice"] for one in parts(shown["chain"], "forecast")} == set(VOICES)
    citations = {row.label: row for row in made.rows(SignalCitation, found["run_id"])}
    for one in parts(shown["chain"], "forecast"):
        (cited,) = one["citations"]
        assert cited["counts"]
        assert (cited["signal_id"], cited["stance"]) == (citations[cited["label"]].signal_id, "build")
        assert None not in (one["turn_id"], one["thread_id"], one["at"])
    text = made.text("orders", "show", row["order_id"])
    assert "forecast weaver, round 1: 70.0% against 50.0%" in text
    assert "forecast weaver, round 1" in made.text("runs", "show", found["run_id"], "--lineage", BOUGHT)
    traded = made.json("trade", found["run_id"])
    assert traded["state"] == "done"
    assert set(model.desk.subjects["trader"]["board"]) == {BOUGHT}, "a later trade has the board of its source"


def test_a_board_alone_makes_no_order(made: Floor, model: DeskModel) -> None:
    """Voices may be sure of a symbol; without a verdict that is BUY nothing is ordered of it."""
    model.reset()
    model.desk.actions = [action(BOUGHT), action(LEFT)]
    found = made.json(*SCREEN, DESK_ROUNDS="1")
    states = {row["symbol"]: row["state"] for row in found["actions"]}
    assert states[BOUGHT] == "previewed"
    assert states[LEFT] in (None, "denied")
    with made.store.read() as session:
        assert session.get(Question, made.rows(Forecast, found["run_id"])[0].question_id) is not None
