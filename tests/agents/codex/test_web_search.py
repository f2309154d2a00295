"""The model's own web search: offered to the named roles' threads alone, with their hosts, and on record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from chordesk.agents.roles import toolset_hash
from tests.agents.codex.kit import Codex, one_turn, spec
from tests.fakes.responses import FakeResponses, Seen


def offered(seen: Seen) -> list[dict[str, Any]]:
    """Return the built-in tools of a request."""
    return [tool for tool in seen.body["tools"] if tool["type"] != "function"]


async def test_the_search_is_offered_to_its_role_alone_in_a_process_of_both(model: FakeResponses, codex: Codex) -> None:
    roles = (("research", ("sec.gov", "nasdaq.com")), ("risk", None), ("chart", ()), ("quick", None))
    async with codex(kept_processes=1) as runtime:
        for role, hosts in roles:
            wanted = replace(spec(keep=True), role=role, web_search=hosts)
            assert (await one_turn(runtime, wanted)).status == "completed"
        assert len(runtime.status()) == 1
    research, risk, chart, quick = (offered(seen) for seen in model.calls())
    assert [tool["type"] for tool in (*research, *chart)] == ["web_search", "web_search"]
    assert research[0]["filters"] == {"allowed_domains": ["sec.gov", "nasdaq.com"]}
    assert research[0]["external_web_access"] is True
    assert chart[0].get("filters") is None
    assert (risk, quick) == ([], [])


async def test_a_kept_thread_goes_on_with_its_search_and_starts_afresh_when_that_changes(
    model: FakeResponses, codex: Codex
) -> None:
    reasons: list[str] = []
    steps: Sequence[tuple[str, ...] | None] = (None, ("sec.gov",), ("sec.gov",), ("nasdaq.com",), None)
    async with codex() as runtime:
        for hosts in steps:
            wanted = replace(spec(keep=True), web_search=hosts, toolset_hash=toolset_hash([], web_search=hosts))
            async with runtime.conversation(wanted, 1e9) as conversation:
                reasons.append(conversation.reason)
                await conversation.turn("And now?", {"type": "object"}, {})
    assert reasons == ["initial", "toolset_changed", "resumed", "toolset_changed", "toolset_changed"]
    domains = [[tool["filters"]["allowed_domains"] for tool in offered(seen)] for seen in model.calls()]
    assert domains == [[], [["sec.gov"]], [["sec.gov"]], [["nasdaq.com"]], []]
