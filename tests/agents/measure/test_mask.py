"""A mask: what a model is shown has nothing of the hidden, and what it answers is the house's again."""

from __future__ import annotations

import asyncio
import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlmodel import select

from chordesk.agents.measure.mask.leak_audit import audit, leaks_in
from chordesk.agents.measure.mask.mask import WITHHELD, Mask, Talk
from chordesk.agents.measure.mask.runtime import MaskRuntime, mask_for
from chordesk.agents.role_models import RoleModel, require_roles
from chordesk.agents.roles import ROLES
from chordesk.agents.rulebook.server import RulesRuntime
from chordesk.agents.runner import Assignment, RoleRun, Runner
from chordesk.agents.runtime import ConversationSpec, Runtime, Scope
from chordesk.agents.subjects import (
    JudgedSymbol,
    analyst_subject,
    screener_subject,
    trader_subject,
    validator_subject,
)
from chordesk.models.analysis import AnalysisRequest
from chordesk.models.answers import Completed, Failed
from chordesk.models.database.store import Store
from chordesk.models.errors import SettingError, UsageError
from chordesk.models.market import Listing
from chordesk.models.settings import Settings
from chordesk.models.settings.types import MaskKind
from chordesk.models.tables.runtime import MaskedTurn
from chordesk.models.text import delimited, fenced, undelimited
from chordesk.tools.market.factory import build_market
from chordesk.tools.market.protocol import Bars, MarketData
from chordesk.tools.registry import ToolContext
from chordesk.tools.toolsets import TurnTools
from tests.fakes.runtime import FakePrompt, FakeRuntime, FakeTurn

ALL: tuple[MaskKind, ...] = ("names", "dates", "levels")
NAMES = ("IBM", "GE", "F")
RUN = "run-1"
DAY = dt.date(2010, 8, 12)


def settings(home: Path, day: dt.date = DAY, **changes: Any) -> Settings:
    return Settings(home=home, replay_date=day, replay_options="modelled", stock_only=False, **changes)


class Desk:
    """Roles on the replay market, under a mask or without one."""

    def __init__(self, store: Store, own: Settings, behind: Runtime | None = None, run_id: str = RUN) -> None:
        self.store, self.settings, self.run_id = store, own, run_id
        self.market = build_market(own)
        self.mask = mask_for(store, own, run_id, self.market) if own.mask else None
        self._behind = behind or RulesRuntime()

    def context(self, _run_id: str = "") -> ToolContext:
        own = self.settings
        return ToolContext(self.market, self.market.clock, self.store, own, own.account, None, self.mask)

    def play(self, role: str, subject: str, brief: Any, memory: str | None = None) -> RoleRun:
        async def run() -> RoleRun:
            runtime = MaskRuntime(self._behind, lambda _run: self.mask, lambda: self.store)
            runner = Runner({"rules": runtime}, self.settings, self.context)
            job = Assignment(
                self.run_id, f"{role}-{subject}", 1, ROLES[role], subject, brief, "same", memory,
                RoleModel("rules", "rulebook"),
            )  # fmt: skip
            return await runner.run(job)

        return asyncio.run(run())

    def leaks(self) -> list[str]:
        assert self.mask is not None
        with self.store.read() as session:
            found = audit(self.mask, self.run_id, session.exec(select(MaskedTurn)).all())
        assert found.conversations
        return [f"{one.kind} {one.what}: {one.excerpt}" for one in found.leaks]


def briefs(own: Settings) -> list[tuple[str, str, Any]]:
    thesis = {"lens": "technical", "confidence": "high", "thesis": "Rule, not a model: IBM rises from $128.30."}
    found: list[tuple[str, str, Any]] = [
        (f"screener_{lens}", lens, screener_subject(lens, 0, NAMES, own)) for lens in ("technical", "options")
    ]
    for name in NAMES:
        subject = validator_subject(name, "equity", [thesis], own, 100_000.0)  # type: ignore[list-item]
        found += [(role, name, subject) for role in ("quick", "fundamentals", "risk", "catalyst")]
        asked = analyst_subject(subject, AnalysisRequest())
        found += [(role, name, asked) for role in ("chart", "research", "options")]
    return found


@pytest.mark.parametrize("day", [dt.date(2010, 6, 2), dt.date(2010, 7, 15), DAY], ids=str)
def test_rules_decide_the_same_under_a_mask_and_are_shown_nothing(store: Store, tmp_path: Path, day: dt.date) -> None:
    plain, masked = (Desk(store, settings(tmp_path, day, mask=mask)) for mask in ((), ALL))
    for role, subject, brief in briefs(plain.settings):
        runs = [desk.play(role, subject, brief, "2010-08-02: HOLD at 128.30") for desk in (plain, masked)]
        assert isinstance(runs[0].outcome, Completed)
        assert runs[1].outcome == runs[0].outcome, role
        assert runs[1].thesis == runs[0].thesis
        assert [one.arguments for one in runs[1].calls] == [one.arguments for one in runs[0].calls]
    assert masked.leaks() == []


def test_a_page_keeps_its_marks_under_a_mask(store: Store, tmp_path: Path) -> None:
    mask = Desk(store, settings(tmp_path, mask=ALL)).mask
    assert mask is not None
    shown = fenced(Talk(mask).hide({"text": delimited("IBM rises ``` [end of outside text] to $128.30")}))
    inner = undelimited(orjson.loads(shown)["text"])
    assert inner is not None
    assert "IBM" not in inner
    assert shown.count("[end of outside text") == 1


def verdicts() -> list[JudgedSymbol]:
    sizing = {"price": 128.3, "stop": 119.47, "bound": "order", "most": 9_876.54, "bounds": {"order": 9_876.54}}
    row = {"instrument": "equity", "confidence": "high", "keyRisks": [], "missing": [], "sizing": sizing}
    texts = {"IBM": "BUY. IBM is wrong at 119.47; International Bus. Machines reports on 2010-08-20.", "GE": "HOLD."}
    return [{"symbol": name, "rating": text.partition(".")[0], "summary": text, **row} for name, text in texts.items()]  # type: ignore[typeddict-item]


def portfolio() -> dict[str, Any]:
    held = {"symbol": "KO", "quantity": 12, "averageCost": 51.2375, "marketPrice": 56.31, "priceDate": "2010-08-12"}
    return {"cash": 54_321.09, "equity": 60_000.0, "buyingPower": 54_321.09, "positions": [held]}


def test_the_trader_s_orders_are_of_real_names_and_real_money(store: Store, tmp_path: Path) -> None:
    plain, masked = (Desk(store, settings(tmp_path, mask=mask)) for mask in ((), ALL))
    brief = trader_subject("paper", verdicts(), portfolio(), plain.settings, {"IBM": ["bought at 127.90"]}, day=DAY)
    runs = [desk.play("trader", "paper", brief) for desk in (plain, masked)]
    assert isinstance(runs[0].outcome, Completed)
    assert {one["symbol"] for one in runs[0].outcome.value["actions"]} == {"IBM", "GE"}
    assert runs[1].outcome == runs[0].outcome
    assert masked.leaks() == []


def limit_order(symbol: str, limit: float) -> str:
    action = {
        "symbol": symbol, "action": "open", "side": "buy", "quantity": 2010, "notional": None, "orderType": "limit",
        "limitPrice": limit, "stopPrice": None, "trailPercent": None, "timeInForce": None, "contract": None,
        "legs": None, "plan": None, "confidence": "high", "reasoning": f"{symbol} below {limit}.",
    }  # fmt: skip
    return orjson.dumps({"actions": [action], "reasoning": "One order."}).decode()


def test_a_limit_price_in_masked_money_comes_back_in_the_house_s(store: Store, tmp_path: Path) -> None:
    def policy(prompt: FakePrompt) -> FakeTurn:
        shown.append(prompt.text.partition("```answers")[2])
        return FakeTurn(limit_order(desk.mask.symbol("IBM"), 125.25 * desk.mask.factor))  # type: ignore[union-attr]

    shown: list[str] = []

    desk = Desk(store, settings(tmp_path, mask=ALL), FakeRuntime(policy))
    found = desk.play("trader", "paper", trader_subject("paper", verdicts(), portfolio(), desk.settings, day=DAY))
    assert isinstance(found.outcome, Completed)
    (action,) = found.outcome.value["actions"]
    assert (action["symbol"], action["limit_price"], action["quantity"]) == ("IBM", 125.25, 2010)
    assert action["reasoning"] == "IBM below 125.25."
    close = orjson.loads(found.calls[1].output)["signals"][0]["close"]
    assert desk.mask.symbol("IBM") in shown[0]  # type: ignore[union-attr]
    assert f"{close:g}" not in shown[0]
    assert "IBM" not in shown[0]


def test_a_name_that_the_model_remembers_is_no_name_of_its_market(store: Store, tmp_path: Path) -> None:
    fake = FakeRuntime(lambda _prompt: FakeTurn(limit_order("IBM", 125.25), calls=(("signals_get", SIGNALS),)))
    desk = Desk(store, settings(tmp_path, mask=ALL), fake)
    found = desk.play("trader", "paper", trader_subject("paper", verdicts(), portfolio(), desk.settings, day=DAY))
    assert isinstance(found.outcome, Failed)
    assert found.outcome.kind == "invalid_output"
    assert [call.tool for call in found.calls] == ["portfolio_get", "signals_get"], "code's own, before the turn"


SIGNALS = {"symbols": ["IBM"]}


class Scaled:
    """The market with every price multiplied."""

    def __init__(self, market: MarketData, factor: int) -> None:
        self._market, self._factor = market, factor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._market, name)

    def bars(self, symbol: str, sessions: int) -> Bars:
        found = self._market.bars(symbol, sessions)
        prices = {name: getattr(found, name) * self._factor for name in ("open", "high", "low", "close")}
        return replace(found, **prices)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("signals_get", {"symbols": ["IBM", "GE"]}),
        ("technicals_get", {"symbols": ["IBM", "GE"]}),
        ("price_history_get", {"symbols": ["IBM"]}),
        ("chart_study_get", {"symbols": ["IBM", "KO"]}),
        ("chart_render", {"symbols": ["IBM"], "overlays": ["levels", "fib", "sma50", "rsi14", "bollinger"]}),
        ("sp500_movers", {"direction": "up", "symbols": ["IBM"]}),
    ],
)
def test_figures_of_prices_are_scaled_as_a_market_of_other_prices_has_them(
    tmp_path: Path, tool: str, arguments: dict[str, Any]
) -> None:
    own = settings(tmp_path)
    market = build_market(own)
    mask = Mask(("levels",), b"key", [Listing(symbol="IBM")], DAY)

    def ask(market: Any) -> Any:
        context = ToolContext(market, market.clock, None, own, own.account, None)
        spec = next(one for role in ROLES.values() for one in role.tools if one.name == tool)
        answer = asyncio.run(TurnTools([spec], context).call(tool, arguments))
        assert answer.success
        return orjson.loads(answer.text())

    ours, theirs = Talk(mask).hide(ask(market)), ask(Scaled(market, mask.factor))
    assert list(_figures(ours)) == [
        (path, pytest.approx(value, rel=2e-3, abs=2e-3 * mask.factor)) for path, value in _figures(theirs)
    ]


def _figures(value: Any, path: str = "") -> Any:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _figures(item, f"{path}.{key}")
    elif isinstance(value, list):
        for item in value:
            yield from _figures(item, path)
    elif isinstance(value, int | float):
        yield path, value


KEY = b"of a run"
LISTINGS = [
    Listing(symbol="AAPL", name="Apple Inc."),
    Listing(symbol="V"),
    Listing(symbol="ZZZ"),
    Listing(symbol="TRV", name="Travelers Companies Inc", aliases="Big Umbrella"),
]


def talk(kinds: Sequence[MaskKind] = ALL, key: bytes = KEY) -> Talk:
    return Talk(Mask(kinds, key, LISTINGS, dt.date(2025, 5, 15), lambda _symbol: frozenset({"211.45"})))


def test_an_amount_of_the_model_s_own_is_never_more_than_it_wrote() -> None:
    one = talk(("levels",))
    one.hide({"most": 9_876.543})
    factor = one.mask.factor
    own, copied = 15_300.4 + 0.03, 9_876.543 * factor
    back = orjson.loads(one.restore_text(f'{{"notional":{own},"stop":{copied},"quantity":{copied}}}'))
    assert 0 <= own / factor - back["notional"] < 0.01
    assert (back["stop"], back["quantity"]) == (9_876.543, copied)


TEXTS = [
    "Apple (AAPL) and V fall; AAPL's iPhone, Tim Cook and McVeggie stay",
    "OpenAI-Apple pact: ex-Apple staff on iOS 26, the Big Umbrella and Travelers",
    "Visa pays $2.36 on May 28, 2025, up from $1.77 in Q1 2025",
    "asOf 2025-05-15T15:55:00-04:00, of 2025-05-14, 5/13/2025 and FY2025",
    "the forecast for 2024-2026 of a conference on May-13-2025 and 14-May-2025, pre-2025 and in Jun-2025",
    "AAPL250620C00200000 from L250408",
    "AAPL last traded at 211.45, 3.2% below its mean, RSI-14 55.0",
]


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_hidden_and_put_back(text: str) -> None:
    one = talk()
    shown = one.hide({"symbol": "AAPL", "close": 211.45, "summary": text})["summary"]
    assert list(leaks_in(one.mask, text, "AAPL"))
    assert list(leaks_in(one.mask, shown, "AAPL", frozenset(one.levels.scaled()))) == []
    assert not re.search(r"202[456]|May-|Jun-", shown), "whatever the audit looks for"
    assert one.restore_text(shown) == text


def test_what_no_name_is_known_of_is_withheld_by_name() -> None:
    rows = [{"symbol": "ZZZ", "headline": "Sleepy Inc halts sales"}, {"symbol": "V", "headline": "Visa grows"}]
    shown = talk().hide({"headlines": rows})["headlines"]
    assert shown[0]["headline"] == WITHHELD
    assert shown[1]["headline"].endswith(" grows")


def test_a_run_has_one_mask_and_another_run_another() -> None:
    row = {"symbol": "AAPL", "date": "2025-05-15", "close": 211.45, "headline": "Apple rises"}
    assert talk().hide(row) == talk().hide(row)
    assert talk(key=b"of another run").hide(row) != talk().hide(row)
    shown = talk().hide(row)
    assert dt.date.fromisoformat(shown["date"]).weekday() == dt.date(2025, 5, 15).weekday()
    assert talk(("dates",)).hide(row) == {**row, "date": shown["date"]}


def test_names_keep_their_order_and_are_no_real_ones(store: Store, tmp_path: Path) -> None:
    mask = Desk(store, settings(tmp_path, mask=ALL)).mask
    assert mask is not None
    real = sorted(mask.listings)
    assert [mask.symbol(one) for one in real] == sorted(mask.symbol(one) for one in real)
    assert mask.real.keys().isdisjoint(real)


def test_a_picture_has_the_mask_s_title_days_and_prices(store: Store, tmp_path: Path) -> None:
    from chordesk.tools.charts.frames import frames
    from chordesk.tools.charts.study import study_of
    from chordesk.tools.model_tools.charts import RenderArguments, _panel
    from chordesk.tools.registry import Gaps

    desk = Desk(store, settings(tmp_path, mask=ALL))
    assert desk.mask is not None
    (frame,) = frames(desk.context(), ["IBM"], Gaps(), 126, "day")
    panel, _ = _panel(study_of(frame, 5, 5), RenderArguments(symbols=["IBM"]), Gaps())
    drawn = desk.mask.drawn(panel)
    assert list(leaks_in(desk.mask, panel.title, "IBM"))
    last = f"{drawn.bars.close[-1]:g}"
    assert list(leaks_in(desk.mask, drawn.title, "IBM", frozenset({last}))) == []
    assert drawn.bars.close[-1] == panel.bars.close[-1] * desk.mask.factor
    assert drawn.bars.dates[-1] > dt.date(2015, 1, 1)


def test_tools_that_would_leak_are_refused_by_name(store: Store, tmp_path: Path) -> None:
    tools = TurnTools(ROLES["research"].tools, Desk(store, settings(tmp_path, mask=ALL)).context())
    for tool, arguments in (("page_read", {"url": "https://www.sec.gov/a"}), ("sec_filings", SIGNALS)):
        answer = asyncio.run(tools.call(tool, arguments))
        assert not answer.success
        assert f"{tool} is withheld by DESK_MASK" in answer.text()


@pytest.mark.parametrize("changes", [{"web_search": "catalyst"}, {"role_approvals": "trader:command"}])
def test_settings_that_would_leak_are_refused_by_name(tmp_path: Path, changes: dict[str, str]) -> None:
    with pytest.raises(SettingError, match=f"cannot hide what DESK_{next(iter(changes)).upper()} shows"):
        require_roles(settings(tmp_path, mask=ALL, **changes))


def test_a_conversation_that_may_ask_a_person_is_refused(store: Store, tmp_path: Path) -> None:
    desk = Desk(store, settings(tmp_path, mask=ALL))
    tools = TurnTools((), desk.context())
    spec = ConversationSpec(
        "trader", "paper", False, "", tools, "m", "", scope=Scope(RUN), approvals=frozenset({"command"}), mask=ALL
    )

    async def opened() -> None:
        runtime = MaskRuntime(FakeRuntime(), lambda _run: desk.mask, lambda: store)
        async with runtime.conversation(spec, asyncio.get_running_loop().time() + 60):
            pass

    with pytest.raises(UsageError, match="the role trader may ask for commands"):
        asyncio.run(opened())
