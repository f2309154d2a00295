"""One trace a run, from the screen to the fill, over all processes; and nothing of it when it is off."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from sqlmodel import col, select

from chordesk.models.states import RunState
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Attempt, Run, Step, ToolCall, Turn
from chordesk.tasks.engine.kinds import task_name
from chordesk.tasks.workflows.research import open_research
from tests.fakes.otlp import Seen
from tests.stack import free_port, processes
from tests.tasks.telemetry.runs import TelemetryDesk


def above(span: Seen, by_id: Mapping[str, Seen]) -> list[str]:
    """The names from a span up to the root."""
    names = [span.name]
    while span.parent:
        span = by_id[span.parent]
        names.append(span.name)
    return names


def named(trace: list[Seen], name: str) -> list[Seen]:
    return [span for span in trace if span.name == name]


def test_one_trace_from_the_screen_to_the_fill(desk: TelemetryDesk, screen: Run) -> None:
    trace = desk.trace(screen)
    by_id = {span.id: span for span in trace}
    assert len(by_id) == len(trace)
    (root,) = [span for span in trace if not span.parent]
    assert (root.name, root.trace, root.about["desk.outcome"]) == ("run screen", screen.id, "done")
    assert {span.parent for span in trace if span.parent} <= set(by_id), "every span hangs in the tree"
    assert len({span.service for span in trace}) == 3, "research, ops and trade worker"
    _orders_hang_below_the_screen(desk, screen, trace, by_id)
    _what_was_done_has_a_span_each(desk, screen, trace)
    assert not desk.collector.refused


def _orders_hang_below_the_screen(desk: TelemetryDesk, run: Run, trace: list[Seen], by_id: Mapping[str, Seen]) -> None:
    with desk.store.read() as session:
        sent = select(Order.id).where(Order.run_id == run.id, Order.state == "submitted")
        expected = Counter(session.exec(sent).all())
    assert expected
    spans = [span for span in named(trace, "order submit") if span.about["desk.outcome"] == "submitted"]
    assert Counter(span.about["order.id"] for span in spans) == expected
    for span in spans:
        path = above(span, by_id)
        for part in ("step submit", "step decide", "step merge", "step screen_shard", "step screen", "run screen"):
            assert part in path, f"{part} is above the order"


def _what_was_done_has_a_span_each(desk: TelemetryDesk, run: Run, trace: list[Seen]) -> None:
    """As many steps, turns and tool calls as the database knows, each inside what it belongs to."""
    with desk.store.read() as session:
        steps = session.exec(select(Step).where(Step.run_id == run.id)).all()
        attempts = session.exec(select(Attempt.step_id).where(col(Attempt.step_id).in_([step.id for step in steps])))
        turns = session.exec(select(Turn).where(Turn.run_id == run.id)).all()
        calls = session.exec(select(ToolCall).where(col(ToolCall.turn_id).in_([turn.id for turn in turns]))).all()
        assert Counter(attempts) == Counter(s.about["desk.step"] for s in trace if s.name.startswith("step "))
    by_id = {span.id: span for span in trace}
    spans = [span for span in trace if span.name.startswith("turn ")]
    assert {(s.about["gen_ai.conversation.id"], s.about["desk.turn"]) for s in spans} == {
        (turn.thread_id, turn.codex_turn_id) for turn in turns
    }
    assert len(spans) == len(turns)
    by_turn = {turn.codex_turn_id: turn for turn in turns}
    for span in spans:
        turn = by_turn[str(span.about["desk.turn"])]
        assert span.about["gen_ai.operation.name"] == "chat"
        assert (span.about["gen_ai.provider.name"], span.about["gen_ai.request.model"]) == (turn.provider, turn.model)
        assert span.about.get("gen_ai.usage.input_tokens") == turn.input_tokens
        assert span.about.get("gen_ai.usage.output_tokens") == turn.output_tokens
    tools = [span for span in trace if span.name.startswith("execute_tool ")]
    assert Counter(span.about["gen_ai.tool.name"] for span in tools) == Counter(call.tool for call in calls)
    for span in (*spans, *tools):
        over = by_id[span.parent]
        assert over.name.startswith("step " if span in spans else "turn ")
        assert over.start <= span.start <= span.end <= over.end
    taken = Counter(span.name for span in trace if span.name.startswith("run/"))
    assert taken == Counter(f"run/{task_name(step.kind)}" for step in steps), "Celery's own are in it too"


def test_a_collector_that_is_away_holds_nothing_up() -> None:
    with processes(DESK_TRACE_URL=f"http://127.0.0.1:{free_port()}") as desk:
        desk.rulebook()
        desk.workers("research", "ops")
        away = TelemetryDesk(desk, None, desk.home)  # type: ignore[arg-type]
        assert away.ended(open_research(desk.app, ["KO"])).state == RunState.DONE
        for name in ("research", "ops"):
            desk.end(name)
            assert "Traceback" not in desk.log(name)
