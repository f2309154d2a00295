"""Episodes that are disturbed: tools that fail, voices that answer wrongly, stops; and compute that follows skill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from sqlmodel import select

from chordesk.agents.board.voices import VOICES
from chordesk.models.states import RUN_FINAL, AttemptEnd, RunState
from chordesk.models.tables.board import Episode, Forecast, Signal, SignalCitation
from chordesk.models.tables.runs import Attempt, Run, Step, Turn
from chordesk.tasks.board.episode.opening import open_episode
from chordesk.tools.board.harvesters import HARVESTERS
from tests.constants import constants
from tests.fakes.responses import Refusal, Text
from tests.stack import wait_for
from tests.tasks.board.episode.kit import SYMBOLS, Floor, Subject, VoiceModel, all_at, floor, forecast
from tests.tasks.worker.stopping.stop_kit import Desk as Waiting
from tests.tasks.worker.stopping.stop_kit import desk as waiting_desk
from tests.tasks.worker.stopping.stop_kit import run_of, stop, wait_in_flight
from tests.tools.scoring.rows import a_forecast, a_question, a_run_on


def answers(subject: Subject) -> Mapping[str, Any]:
    """Round 1 as each voice's name says, round 2 nearer the middle."""
    first = {"weaver": 0.7, "sizer": 0.6}.get(subject["voice"], 0.4)
    given = first if subject["round"] == 1 else 0.5 + (first - 0.5) / 2
    rows = [forecast(subject, one, given) for one in subject["questions"]]
    if subject["voice"] == "auditor":
        rows += [forecast(subject, subject["questions"][0], 0.9), {**rows[0], "question": "Q99"}]
        rows[0]["citations"].append({"signal": "no-such-1", "stance": "build", "claim": "The momentum figure again."})
    return {"forecasts": rows}


def test_wrong_answers_leave_no_position_and_the_others_go_on() -> None:
    """Round 1 is blind; a probability of 1.4 and prose fail after their repair, a refusal is an outcome, an unknown
    question and a second forecast are left out, an unknown signal is void."""
    model = VoiceModel(answers)
    certain = all_at(0.5)
    with floor(model) as made:
        model.instead = {"witness": Text("I think it will rise."), "mediator": Refusal("I do not forecast.")}
        model.answer = lambda subject: (
            {"forecasts": [{**one, "probability": 1.4} for one in certain(subject)["forecasts"]]}
            if subject["voice"] == "challenger"
            else answers(subject)
        )
        run = made.held()
        assert run.state == RunState.PARTIAL, run.notes
        forecasts = made.rows(Forecast, run.id)
        assert {row.voice for row in forecasts} == {"weaver", "sizer", "auditor"}
        assert Counter((row.voice, row.round, row.question_id) for row in forecasts).most_common(1)[0][1] == 1
        blind = [one for one in model.subjects if one["round"] == 1]
        assert len(blind) >= len(VOICES)
        assert all(one["positions"] == [] for one in blind)
        seen = [one for one in model.subjects if one["round"] == 2]
        assert {one["voice"] for one in seen} == set(VOICES), "each voice has its second round"
        for one in seen:
            first = {(row["voice"], row["question"]): row["probability"] for row in one["positions"]}
            assert first == {
                (voice, f"Q{number}"): given
                for voice, given in (("weaver", 0.7), ("sizer", 0.6), ("auditor", 0.4))
                for number in range(1, 5)
            }
        voices = {(row["voice"], row["round"]): row for row in made.json("board", run.id)["voices"]}
        assert voices["challenger", 1]["status"] == voices["witness", 1]["status"] == "failed"
        assert voices["mediator", 1]["status"] == "refused"
        assert [line.partition(":")[0] for line in voices["auditor", 1]["left_out"]] == ["Q1", "Q99"]
        tally = made.rows(Episode, run.id)[0]
        for voice, why in (("challenger", "failed"), ("witness", "failed"), ("mediator", "refused")):
            assert f"{voice}: no position in round 1: {why}" in tally.content.replace("\\", "")
        unknown = [row for row in made.rows(SignalCitation, run.id) if row.label == "no-such-1"]
        assert {(row.counts, row.reason, row.signal_id) for row in unknown} == {
            (False, "no such signal on this board", None)
        }
        told = {row["voice"] for row in tally.summary["leaderboard"] if row["conduct"]}
        assert told.isdisjoint({"challenger", "witness", "mediator"}), "without an answer there is no conduct"


def test_tools_that_fail_leave_tombstones_and_never_end_the_episode() -> None:
    """Hardly a tool answers within a thousandth of a second."""
    with floor(DESK_TOOL_SECONDS="0.001", **constants(STEP_ATTEMPTS=1)) as made:
        run = made.held()
        assert run.state == RunState.DONE, run.notes
        signals = made.rows(Signal, run.id)
        assert {row.tool for row in signals} == set(HARVESTERS)
        offline = [row for row in signals if row.state == "offline"]
        assert offline, "which of them are too late is a matter of luck, too"
        # Which limit ends a tool first, the step's or that of its own questions, is a matter of luck.
        late = ("no answer within 0.001 s", "not fetched in time")
        assert [row.headline for row in offline if not any(text in row.headline for text in late)] == []
        # Now and then one does, and the voices have that to argue by.
        silent = all(row.state != "live" for row in signals)
        assert (made.rows(Turn, run.id) == []) == silent
        assert any(note.startswith("no tool has a live signal") for note in run.notes) == silent
        assert made.rows(Episode, run.id)[0].used_round is None or not silent


def begun(made: Waiting) -> str:
    """An episode whose voices wait for the model."""
    run = open_episode(made.processes.app, SYMBOLS, rounds=1)
    assert run is not None
    wait_in_flight(made, run.id, count=len(VOICES))
    return run.id


def test_one_voice_is_stopped_by_name_and_the_others_go_on() -> None:
    with waiting_desk("research", "ops") as made:
        run_id = begun(made)
        code, found, _ = stop_one(made, run_id, "weaver")
        assert (code, found["over"], len(found["interrupted"])) == (0, True, 1)
        made.model.let()
        wait_for(lambda: run_of(made, run_id).state in RUN_FINAL, "the episode ends")
        assert run_of(made, run_id).state == RunState.DONE
        floor_ = Floor(made.processes, made.processes.app.desk.store)
        voices = {row["voice"]: row for row in floor_.json("board", run_id)["voices"]}
        assert voices["weaver"]["status"] == "interrupted"
        assert voices["weaver"]["reason"].startswith("interrupted by ")
        assert [voices["weaver"]["thread"], voices["weaver"]["turn"]] == found["interrupted"][0]
        assert {row["status"] for voice, row in voices.items() if voice != "weaver"} == {"completed"}
        with floor_.store.read() as session:
            ends = session.exec(select(Attempt.outcome)).all()
        assert AttemptEnd.AGAIN not in ends, "it is not tried again"
        for arguments, error in (
            (("stop", run_id, "--voice", "bard"), "there is no voice 'bard'"),
            (("stop", run_id, "--voice", "weaver"), "has no turn in run"),
            (("stop", "--all", "--voice", "weaver"), "--voice goes with one run"),
        ):
            assert error in floor_.text(*arguments, code=2)


def stop_one(made: Waiting, run_id: str, voice: str) -> tuple[int, dict[str, Any], float]:
    return stop(made, run_id, "--voice", voice)  # type: ignore[return-value]


TIERS = "codex:gpt-5.6-sol:high;codex:gpt-5.5"


def proven(made: Floor, voice: str) -> None:
    """Give a voice 40 days on which it was right, all of them known before the replay's day."""
    with made.store.session() as session:
        for nth in range(40):
            run, question = a_run_on(session, 3 * nth), a_question(session, f"proven {nth}", 1.0, 3 * nth)
            a_forecast(session, run, question, voice, 0.8 + nth / 1000)


def turns(made: Floor, run: Run) -> Counter[tuple[str, str]]:
    """The number of turns by voice and model."""
    return Counter((row.role.removeprefix("voice_"), row.model) for row in made.rows(Turn, run.id))


def test_a_proven_voice_has_both_rounds_more_depth_and_the_first_model_and_the_others_one_turn() -> None:
    with floor(VoiceModel(all_at(0.6)), DESK_VOICE_MODELS=TIERS) as made:
        equal = made.held(("AAPL",))
        proven(made, "weaver")
        skilled = made.held(("AAPL",))
        assert turns(made, equal) == {(voice, "endpoint:gpt-5.6-sol"): 2 for voice in VOICES}, "the middle of 6 ranks"
        others = {(voice, "endpoint:gpt-5.5"): 1 for voice in VOICES if voice != "weaver"}
        assert turns(made, skilled) == {("weaver", "endpoint:gpt-5.6-sol"): 2, **others}
        steps = [step for step in made.rows(Step, skilled.id) if step.kind == "voice"]
        assert {step.role: step.payload["depth"] for step in steps} == {
            voice.role: "deep" if voice.key == "weaver" else "standard" for voice in VOICES.values()
        }
        rounds = {(row.voice, row.round, row.author) for row in made.rows(Forecast, skilled.id)}
        assert {(voice, number) for voice, number, _ in rounds} == {
            *((voice, 1) for voice in VOICES), ("weaver", 2),
        }  # fmt: skip
        assert {author for voice, _, author in rounds if voice == "weaver"} == {"endpoint:gpt-5.6-sol"}
