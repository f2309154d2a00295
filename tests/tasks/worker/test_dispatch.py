"""Messages for steps, and the outcome when they cannot be sent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from celery import Celery
from celery.canvas import Signature, _chord, group
from pydantic import SecretStr
from structlog.testing import capture_logs

from chordesk.models.states import StepKind
from chordesk.tasks.engine.steps import ReadyStep
from chordesk.tasks.worker.work import canvases, send
from tests.tasks.worker.steps import client_of, logged, queued

ROLES = ("fundamentals", "risk", "catalyst")


def shard(number: int) -> ReadyStep:
    return ReadyStep(f"shard-{number}", StepKind.SCREEN_SHARD, "screener_technical", "merge", f"technical:{number}")


def report(symbol: str, role: str) -> ReadyStep:
    return ReadyStep(f"{symbol}-{role}", StepKind.REPORT, role, f"{symbol}-conclude", symbol)


def conclude(symbol: str) -> ReadyStep:
    return ReadyStep(f"{symbol}-conclude", StepKind.CONCLUDE, "", "decide", symbol)


def single(kind: StepKind) -> ReadyStep:
    return ReadyStep(kind.value, kind, "", "finish")


def made(app: Celery, *ready: ReadyStep) -> list[Signature]:
    return list(canvases(app, ready))


def sent(task: Signature) -> tuple[str, str]:
    return task.task, task.args[0]


def test_shards_are_one_group(app: Celery) -> None:
    (canvas,) = made(app, shard(0), shard(1), shard(2))
    assert isinstance(canvas, group)
    assert [sent(task) for task in canvas.tasks] == [("desk.screen_shard", f"shard-{n}") for n in range(3)]


def test_the_roles_of_each_candidate_are_one_flat_chord(app: Celery) -> None:
    found = made(app, *(report(symbol, role) for role in ROLES for symbol in ("IBM", "AAPL")))
    assert [type(canvas) for canvas in found] == [_chord, _chord]
    for canvas, symbol in zip(found, ("IBM", "AAPL"), strict=True):
        assert [sent(task) for task in canvas.tasks] == [("desk.report", f"{symbol}-{role}") for role in ROLES]
        assert sent(canvas.body) == ("desk.conclude", f"{symbol}-conclude")
        for task in (*canvas.tasks, canvas.body):
            # Flat: a plain task, with nothing chained to it and nothing nested in it.
            assert type(task) is Signature
            assert not task.options.get("link")
            assert task.immutable


def test_the_tools_of_a_harvest_and_the_voices_of_a_round_are_flat_chords(app: Celery) -> None:
    tools = [ReadyStep(f"harvest-{tool}", StepKind.HARVEST, "", "board", tool) for tool in ("momentum", "reversal")]
    voices = [ReadyStep(f"voice-{key}", StepKind.VOICE, f"voice_{key}", "round", "round-1") for key in ("a", "b")]
    found = made(app, *tools, *voices)
    assert [type(canvas) for canvas in found] == [_chord, _chord]
    assert [sent(canvas.body) for canvas in found] == [("desk.board", "board"), ("desk.round", "round")]


def test_a_quick_report_a_lone_role_and_a_lone_shard_are_single_messages(app: Celery) -> None:
    found = made(app, report("IBM", "quick"), report("AAPL", "risk"), shard(0))
    assert [type(canvas) for canvas in found] == [Signature] * 3
    assert {sent(task) for task in found} == {
        ("desk.report", "IBM-quick"),
        ("desk.report", "AAPL-risk"),
        ("desk.screen_shard", "shard-0"),
    }


def test_a_lone_role_of_one_candidate_is_in_no_chord_beside_those_of_another(app: Celery) -> None:
    found = made(app, report("IBM", "risk"), report("AAPL", "risk"), report("AAPL", "catalyst"))
    assert [type(canvas) for canvas in found] == [Signature, _chord]
    assert sent(found[0]) == ("desk.report", "IBM-risk")
    assert [sent(task) for task in found[1].tasks] == [("desk.report", "AAPL-risk"), ("desk.report", "AAPL-catalyst")]


def test_every_other_kind_is_sent_under_its_own_name(app: Celery) -> None:
    together = (StepKind.SCREEN_SHARD, StepKind.REPORT, StepKind.HARVEST, StepKind.VOICE)
    kinds = [kind for kind in StepKind if kind not in together]
    found = made(app, *(single(kind) for kind in kinds))
    assert {sent(task) for task in found} == {(f"desk.{kind.value}", kind.value) for kind in kinds}


def test_a_kind_that_this_version_does_not_know_is_left_out_and_logged(app: Celery) -> None:
    with capture_logs() as lines:
        (found,) = made(app, ReadyStep("later", "of_a_later_version", "", "finish"), single(StepKind.DECIDE))
    assert sent(found) == ("desk.decide", "decide")
    assert [(line["event"], line["step"]) for line in logged(lines)] == [("dispatch.unknown_kind", "later")]


def test_no_task_waits_for_a_result(app: Celery) -> None:
    chord_, lone = made(app, *(report("IBM", role) for role in ROLES), report("AAPL", "quick"))
    for task in (*chord_.tasks, chord_.body, lone):
        assert task.options["ignore_result"] is True


def test_sent_steps_lie_in_their_queues(app: Celery) -> None:
    send(app, [shard(0), shard(1), *(report("IBM", role) for role in ROLES), single(StepKind.SUBMIT)])
    assert queued(app) == {
        "screen": [("desk.screen_shard", ["shard-0"]), ("desk.screen_shard", ["shard-1"])],
        "research": [("desk.report", [f"IBM-{role}"]) for role in ROLES],
        "trade": [("desk.submit", ["submit"])],
    }


def test_sending_chords_leaves_nothing_behind_in_the_sender(app: Celery) -> None:
    for number in range(3):
        send(app, [report(f"S{number}", role) for role in ROLES])
    assert [len(kept) for kept in app.backend._pending_results] == [0, 0]
    with client_of(app) as client:
        assert client.pubsub_channels("*celery-task-meta*") == []


@pytest.mark.parametrize(
    "ready",
    [[shard(0), shard(1)], [report("IBM", role) for role in ROLES], [single(StepKind.FINISH)]],
    ids=["group", "chord", "single"],
)
def test_with_redis_down_it_is_logged_and_nothing_is_raised(
    make_app: Callable[..., Celery], ready: list[ReadyStep], tmp_path: Path
) -> None:
    app = make_app(redis_url=SecretStr(f"unix://{tmp_path}/nobody"))
    with capture_logs() as lines:
        send(app, ready)
    assert [(line["event"], line["steps"]) for line in logged(lines)] == [("dispatch.failed", len(ready))]
