"""The guard of the model's own web search: roles, runtimes, days of the past, hosts, and its rows."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from chordesk.agents.role_models import check_web_search, recorded, search_hosts, searching_roles
from chordesk.agents.runner import RoleRun, Runner
from chordesk.agents.runtime import WebSearch
from chordesk.models.errors import SettingError
from chordesk.models.settings import Settings
from chordesk.tools.market.clock import LiveClock
from chordesk.tools.registry import ToolContext
from tests.agents.codex.kit import run, running
from tests.agents.test_runner import GOOD, job, reply
from tests.fakes.responses import Call, FakeResponses, Searched
from tests.tools.market.far_market import FarMarket

AT = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
DAY = dt.date(2010, 8, 12)


def made(**changes: Any) -> Settings:
    return Settings(**{"market": "yahoo", "web_search": "research,risk", **changes})


@pytest.mark.parametrize("text", ["off", "", " off "])
def test_it_is_off_unless_roles_are_named(text: str) -> None:
    assert Settings().web_search == "off"
    assert searching_roles(made(web_search=text)) == frozenset()
    assert search_hosts(made(web_search=text), "research", None) is None
    check_web_search(made(web_search=text, market="replay"))


def test_the_named_roles_search_the_named_hosts() -> None:
    guarded = made(web_search_hosts="SEC.gov, www.nasdaq.com")
    check_web_search(guarded)
    assert search_hosts(guarded, "research", None) == ("sec.gov", "www.nasdaq.com")
    assert search_hosts(guarded, "quick", None) is None
    assert search_hosts(made(), "risk", None) == ()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"market": "replay"}, "with market=replay, a day of the past"),
        ({"market": "files", "data": "/tmp"}, "with market=files, a day of the past"),
        ({"web_search": "research,gossip"}, "has 'gossip' (write off, or roles by comma: "),
        ({"web_search": "on"}, "has 'on' (write off, or roles by comma: "),
        ({"role_models": "risk=litellm:openai/gpt-5.5"}, "has risk, and web search is not supported by its runtime li"),
    ],
)
def test_a_search_that_cannot_be_is_a_setting_error(changes: dict[str, Any], expected: str) -> None:
    with pytest.raises(SettingError) as caught:
        check_web_search(made(**changes))
    assert str(caught.value).startswith("web_search (DESK_WEB_SEARCH) ")
    assert expected in str(caught.value)


def test_a_run_on_a_day_of_the_past_has_none_whatever_the_settings() -> None:
    assert search_hosts(made(), "research", DAY) is None


@pytest.mark.parametrize(
    ("url", "hosts", "allowed"),
    [
        ("https://www.sec.gov/a", ("sec.gov",), True),
        ("https://SEC.gov./a", ("sec.gov",), True),
        ("https://notsec.gov/a", ("sec.gov",), False),
        ("https://sec.gov.evil.example/a", ("sec.gov",), False),
        ("https://sec.gov@evil.example/a", ("sec.gov",), False),
        ("https://[evil", ("sec.gov",), False),
        ("nonsense", ("sec.gov",), False),
        ("https://anywhere.example/", (), True),
        (None, ("sec.gov",), True),
        ("https://www.sec.gov/a", None, False),
    ],
)
def test_a_page_of_no_allowed_host_is_marked(url: str | None, hosts: tuple[str, ...] | None, allowed: bool) -> None:
    call = recorded(WebSearch(AT, "openPage", (), url), hosts)
    assert call.answer.success is allowed
    assert ("error" in call.answer.payload) is not allowed
    assert (call.answer.has_data, call.at) == (False, AT)


def test_results_that_are_reported_are_checked_too() -> None:
    found = ("https://www.sec.gov/a", "https://evil.example/b")
    answer = recorded(WebSearch(AT, "search", ("ACME",), None, found), ("sec.gov",)).answer
    assert answer.payload["results"] == list(found)
    assert answer.payload["error"] == "not of the hosts of DESK_WEB_SEARCH_HOSTS: https://evil.example/b"


def test_the_searches_of_a_turn_are_rows_of_it_in_their_order(
    tmp_path: Path,
    redis_server: str,
) -> None:
    """On a market of real time; an answer that rests on a search alone has no data."""
    market = FarMarket(clock=LiveClock())  # type: ignore[arg-type]
    guarded = made(home=tmp_path, web_search="risk", web_search_hosts="sec.gov")
    open_page = {"type": "open_page", "url": "https://elsewhere.example/a"}
    search = {"type": "search", "query": "IBM news", "queries": ["IBM news"]}
    answers = iter([Call("signals_get", '{"symbols":["IBM"]}'), Searched((search, open_page), reply(GOOD).text)])
    found: list[RoleRun] = []

    def context(run_id: str) -> ToolContext:
        return ToolContext(market, market.clock, None, guarded, guarded.account, run_id)

    async def work() -> None:
        async with running(served, tmp_path, redis_server) as runtime:
            found.append(await Runner({"codex": runtime}, guarded, context).run(job("risk", guarded)))

    with FakeResponses(lambda _body: next(answers)) as served:
        run(work())
    (result,) = found
    assert result.outcome.outcome == "completed"
    assert [(row.ordinal, row.tool, row.success) for row in result.calls] == [
        (0, "signals_get", True), (1, "web_search", True), (2, "web_search", False),
    ]  # fmt: skip
    assert [row.arguments for row in result.calls[1:]] == [{"queries": ["IBM news"]}, {"queries": []}]
    assert "elsewhere.example" in result.calls[2].output
    assert not result.has_data
    assert len(result.called_at) == len(result.calls) == len(result.recorded)
    assert [tool["type"] for tool in served.calls()[0].body["tools"]][-1] == "web_search"
