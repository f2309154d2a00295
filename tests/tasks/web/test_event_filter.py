"""The filter of events that a reader asks for."""

from __future__ import annotations

from chordesk.models.events import Domain, EventType, event
from chordesk.tasks.web.routes.events import EventFilter


def test_a_filter_lets_types_domains_and_runs_pass_and_leaves_texts_out() -> None:
    tool = event(EventType.TOOL_COMPLETED, "a", tool="t", answer="long")
    item = event(EventType.ITEM_COMPLETED, "b", type="agentMessage", text="long")
    assert EventFilter().passed(tool) is tool
    assert EventFilter(kinds=[Domain.TOOL]).passed(item) is None
    assert EventFilter(kinds=[Domain.TOOL, EventType.ITEM_COMPLETED]).passed(item) is item
    assert EventFilter(runs=["b"]).passed(tool) is None
    short = EventFilter(bodies=False)
    assert [one.payload for one in (short.passed(tool), short.passed(item)) if one is not None] == [
        {"tool": "t"}, {"type": "agentMessage"},
    ]  # fmt: skip
