"""The model of each role: the settings' own, or its entry in DESK_ROLE_MODELS."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from chordesk.agents import role_models
from chordesk.agents.role_models import (
    RoleModel,
    check_web_search,
    models_in_use,
    models_of,
    require_keys,
    require_roles,
    role_labels,
    runtimes_of,
    search_hosts,
    searching_roles,
    tier_of,
    voice_tiers,
)
from chordesk.agents.roles import ROLES
from chordesk.agents.runner import RoleRun, Runner
from chordesk.agents.runtime import WebSearch
from chordesk.agents.turn_answers import recorded
from chordesk.models.errors import SettingError
from chordesk.models.features import Runtime
from chordesk.models.settings import Settings
from chordesk.tools.market.clock import LiveClock
from chordesk.tools.registry import ToolContext
from tests.agents.codex.kit import run, running
from tests.agents.test_runner import GOOD, job, reply
from tests.builders import uninstalled
from tests.fakes.responses import Call, FakeResponses, Searched
from tests.parts import needs
from tests.tools.market.far_market import FarMarket


def models(text: str = "", **values: object) -> dict[str, RoleModel]:
    return dict(role_models.role_models(Settings.model_validate({"role_models": text, **values})))


def test_every_role_has_the_settings_model_unless_it_has_an_entry() -> None:
    assert models(provider="codex") == dict.fromkeys(ROLES, RoleModel("codex", "gpt-5.5"))
    assert models() == dict.fromkeys(ROLES, RoleModel("codex", "rulebook")), "rules are not called by a model's name"
    found = models("trader=codex:gpt-5.6-sol:high; quick = codex:mini ;", effort="medium", provider="codex")
    assert found["trader"] == RoleModel("codex", "gpt-5.6-sol", "high")
    assert found["quick"] == RoleModel("codex", "mini", "medium")
    assert found["risk"] == RoleModel("codex", "gpt-5.5", "medium")
    assert models("risk=codex:llama3:8b:low")["risk"] == RoleModel("codex", "llama3:8b", "low")
    assert set(models_of(found.values(), "codex")) == {"gpt-5.5", "gpt-5.6-sol", "mini"}
    assert models_of(found.values(), "other") == ()


@needs("graphs", "litellm")
def test_a_graph_has_a_model_where_the_settings_name_it() -> None:
    assert "tradingagents" not in models()
    assert models(research_roles="fundamentals,risk,tradingagents")["tradingagents"] == RoleModel("codex", "rulebook")
    given = Settings(role_models="tradingagents=codex:mini:low", effort="high")
    assert role_models.graph_model(given, "tradingagents") == RoleModel("codex", "mini", "low")
    assert role_models.graph_model(Settings(effort="high"), "tradingagents") == RoleModel("codex", "rulebook", "high")
    assert models("tradingagents=litellm:rulebook")["tradingagents"] == RoleModel("litellm", "rulebook")
    given = Settings(graph_models="mini,qwen3:8b,litellm:anthropic/claude-haiku-4-5")
    assert role_models.models_in_use(given)[1:] == (
        RoleModel("codex", "mini"), RoleModel("codex", "qwen3:8b"), RoleModel("litellm", "anthropic/claude-haiku-4-5"),
    )  # fmt: skip


@needs("litellm")
def test_a_model_of_litellm_may_have_others_behind_it() -> None:
    found = models("risk=litellm:anthropic/claude-sonnet-4-5 | openai/gpt-5.5:low;quick=litellm:rulebook")
    assert found["risk"] == RoleModel("litellm", "anthropic/claude-sonnet-4-5", "low", ("openai/gpt-5.5",))
    assert found["quick"] == RoleModel("litellm", "rulebook")
    assert models_of(found.values(), "codex") == ("rulebook",)


@needs("litellm")
def test_a_provider_without_its_key_is_named_before_anything_starts() -> None:
    given = Settings(role_models="risk=litellm:anthropic/claude-sonnet-4-5|openai/gpt-5.5;quick=litellm:rulebook")
    with pytest.raises(SettingError) as caught:
        require_keys(given, {"ANTHROPIC_AUTH_TOKEN": "t"})
    assert "risk=litellm:openai/gpt-5.5" in str(caught.value)
    assert "OPENAI_API_KEY is not set" in str(caught.value)
    require_keys(given, {"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o"})
    require_keys(Settings(role_models="risk=litellm:ollama/llama3"), {})


@pytest.mark.parametrize(
    ("text", "what", "remedy"),
    [
        ("trader", "'trader'", "ROLE=RUNTIME:MODEL[:EFFORT]"),
        ("trader=", "'trader='", "ROLE=RUNTIME:MODEL[:EFFORT]"),
        ("trader=codex", "'trader=codex'", "ROLE=RUNTIME:MODEL[:EFFORT]"),
        ("=codex:m", "'=codex:m'", "ROLE=RUNTIME:MODEL[:EFFORT]"),
        ("poet=codex:m", "no role 'poet'", "choose among"),
        ("trader=other:m", "no runtime 'other'", "choose among codex, local"),
        pytest.param("trader=litellm:claude", "'claude' names no provider", "anthropic/claude", marks=needs("litellm")),
        pytest.param("trader=litellm:openai/a|b", "'b' names no provider", "PROVIDER/MODEL", marks=needs("litellm")),
        pytest.param("trader=litellm:openai/a|", "is no model's name", "ROLE=RUNTIME", marks=needs("litellm")),
        ("trader=codex:a|b", "is no model's name", "ROLE=RUNTIME"),
        ("trader=codex:m:huge", "no effort 'huge'", "efforts are"),
        ("trader=codex:m:", "no effort ''", "efforts are"),
        ("trader=codex:a;trader=codex:b", "has an entry already", "one model"),
        ("trader=codex:a,quick=codex:b:low", "is no model's name", "semicolon between entries"),
        ("trader=codex:a b", "is no model's name", "semicolon between entries"),
    ],
)
def test_an_entry_that_cannot_be_read_is_named(text: str, what: str, remedy: str) -> None:
    with pytest.raises(SettingError) as caught:
        models(text)
    assert what in str(caught.value)
    assert "role_models (DESK_ROLE_MODELS)" in str(caught.value)
    assert remedy in (caught.value.remedy or "")


@needs("litellm")
def test_a_runtime_whose_library_is_missing_or_of_another_version_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    uninstalled(monkeypatch)
    require_roles(Settings())
    with pytest.raises(SettingError, match="the runtime litellm needs the package litellm, which is not installed"):
        require_roles(Settings(role_models="risk=litellm:rulebook"))


@needs("litellm")
def test_voices_have_tiers_of_models_besides_those_of_roles() -> None:
    given = Settings(voice_models="codex:big:high; litellm:openai/gpt-5.5|openai/o ;codex:small", effort="low")
    big, other, small = voice_tiers(given)
    assert (big, small) == (RoleModel("codex", "big", "high"), RoleModel("codex", "small", "low"))
    assert other == RoleModel("litellm", "openai/gpt-5.5", "low", ("openai/o",))
    assert models_of(models_in_use(given), "codex") == ("rulebook", "big", "small")
    assert runtimes_of(given) == {"codex", "litellm"}
    with pytest.raises(SettingError, match=r"a voice=litellm:openai/gpt-5\.5, and no key"):
        require_keys(given, {})


@needs("board")
def test_a_voice_gets_its_tier_unless_it_has_an_entry_of_its_own() -> None:
    given = Settings(voice_models="codex:big;codex:small", role_models="voice_auditor = codex:own")
    assert tier_of(given, "voice_weaver", 0) == RoleModel("codex", "big")
    assert tier_of(given, "voice_weaver", 1) == tier_of(given, "voice_weaver", 7) == RoleModel("codex", "small")
    assert tier_of(given, "voice_auditor", 0) is None
    assert tier_of(given, "voice_weaver", None) is None
    assert tier_of(Settings(), "voice_weaver", 0) is None


AT = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
DAY = dt.date(2010, 8, 12)


def made(**changes: Any) -> Settings:
    return Settings(**{"market": "yahoo", "web_search": "research,risk", **changes})


def test_the_named_roles_search_the_named_hosts() -> None:
    guarded = made(web_search="research,risk; SEC.gov, www.nasdaq.com")
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
        pytest.param(
            {"role_models": "risk=litellm:openai/gpt-5.5"},
            "has risk, and web search is not supported by its runtime li",
            marks=needs("litellm"),
        ),
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
    assert answer.payload["error"] == "not of the hosts of DESK_WEB_SEARCH: https://evil.example/b"


def test_the_searches_of_a_turn_are_rows_of_it_in_their_order(tmp_path: Path, redis_server: str) -> None:
    """On a market of real time; an answer that rests on a search alone has no data."""
    market = FarMarket(clock=LiveClock())  # type: ignore[arg-type]
    guarded = made(home=tmp_path, web_search="risk;sec.gov")
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
    assert len(result.calls) == len(result.recorded)
    assert [tool["type"] for tool in served.calls()[0].body["tools"]][-1] == "web_search"


def test_a_runtime_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        role_models, "RUNTIMES", {**role_models.RUNTIMES, "absent": Runtime("no_such_package", "pip install it", "")}
    )
    with pytest.raises(SettingError, match="the runtime absent is not installed"):
        models("trader=absent:m")


def test_reports_name_the_roles_own_model() -> None:
    given = Settings(provider="endpoint", provider_url="http://127.0.0.1:1/v1", role_models="risk=codex:mini")
    assert role_labels(given)["risk"] == "endpoint:mini"
    assert role_labels(given)["quick"] == given.model_label
    assert set(role_labels(Settings(role_models="risk=codex:mini")).values()) == {"rulebook (rules, no model)"}


@needs("litellm")
def test_reports_name_the_runtime_and_model_of_each_role() -> None:
    mixed = role_labels(Settings(role_models="risk=litellm:openai/gpt-5.5;quick=litellm:rulebook"))
    assert (mixed["risk"], mixed["quick"]) == ("litellm:openai/gpt-5.5", "rulebook (rules, no model)")


@pytest.mark.parametrize("text", ["off", "", " off "])
def test_it_is_off_unless_roles_are_named(text: str) -> None:
    assert Settings().web_search == "off"
    assert searching_roles(made(web_search=text)) == frozenset()
    assert search_hosts(made(web_search=text), "research", None) is None
    check_web_search(made(web_search=text, market="replay"))
