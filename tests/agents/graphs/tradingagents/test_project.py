"""An installation is recognised by its registry, and anything else is an error with its remedy."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chordesk.agents.graphs.tradingagents.project import (
    INSTALL,
    RATINGS,
    find_project,
    rating_of,
    require_installed,
    require_playable,
    signal_of,
)
from chordesk.models.answers import GraphSignal, Stance
from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings
from tests.agents.graphs.tradingagents.conftest import forget


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    forget()
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    forget()


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        (path.parent / "__init__.py").touch()
    (folder / "tradingagents" / "__init__.py").touch()


def test_a_missing_project_names_its_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tradingagents", None)  # Python's own mark of a module that is not there
    with pytest.raises(UsageError, match="TradingAgents is not installed") as caught:
        find_project()
    assert caught.value.remedy == INSTALL
    assert "git+https://github.com/TauricResearch/TradingAgents@v0.3.0" in INSTALL


@pytest.mark.parametrize(
    ("files", "find"),
    [
        ({"tradingagents__bot": "x = 1"}, find_project),
        ({"tradingagents__llm_clients__openai_client": "PROVIDERS = {}"}, find_project),
        ({"tradingagents__llm_clients__openai_client": "OPENAI_COMPATIBLE_PROVIDERS = {}"}, find_project),
        ({"tradingagents__bot": "raise SystemExit"}, require_installed),  # which loads nothing of it
    ],
)
def test_another_project_of_the_name_is_refused(
    folder: Path, files: dict[str, str], find: Callable[[], object]
) -> None:
    write(folder, **files)
    with pytest.raises(
        UsageError, match=r"is another project of the name tradingagents, or older than 0\.3\.0"
    ) as caught:
        find()
    assert str(folder / "tradingagents") in str(caught.value)
    assert caught.value.remedy.startswith("pip uninstall tradingagents, then pip install")


def desk(home: Path, provider: str = "codex") -> Settings:
    return Settings(home=home, provider=provider, provider_url="http://127.0.0.1:1/v1")


def test_a_desk_with_a_model_can_play_it_and_the_rulebook_cannot(project: Path, tmp_path: Path) -> None:
    require_playable(desk(tmp_path))
    assert not [name for name in sys.modules if name.split(".")[0] == "tradingagents"]  # nothing of it was loaded
    with pytest.raises(UsageError, match="the rulebook has no rules for its debates") as caught:
        require_playable(desk(tmp_path, "rulebook"))
    assert "DESK_PROVIDER" in caught.value.remedy


def test_roles_of_the_desk_need_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tradingagents", None)
    require_playable(desk(tmp_path, "rulebook"), ("quick", "risk"))


@pytest.mark.parametrize(
    ("text", "rating"),
    [
        ("**Rating**: Buy\n\n**Executive Summary**: Hold on to it.", "Buy"),
        ("Rating: **overweight**", "Overweight"),
        ("rating - Sell", "Sell"),
        ("**Recommendation**: Underweight", "Underweight"),
        ("The action: Hold. FINAL TRANSACTION PROPOSAL: **SELL**", "Sell"),
        ("**Rating**: Sell. The trader's action: Buy.", "Sell"),
        ("Rating: Buy. On reflection, rating: Sell.", None),
        ("Investors hold and buy it.", None),
        ("Rating: Buyer beware", None),
        ("Operating: Buy", None),
        ("", None),
    ],
)
def test_a_rating_is_what_a_text_labels_as_one(text: str, rating: str | None) -> None:
    assert rating_of(text) == rating


DECISION = "**Executive Summary**: Small.\n\n**Price Target**: 150.0\n\n**Time Horizon**: a year"


def state(rating: str, plan: str, proposal: str, **more: Any) -> dict[str, Any]:
    return {
        "final_trade_decision": f"**Rating**: {rating}\n\n" + DECISION,
        "investment_plan": f"**Recommendation**: {plan}",
        "trader_investment_plan": f"**Action**: {proposal}",
        "investment_debate_state": {
            "judge_decision": "j", "bull_history": "Bull Analyst: one\nBull Analyst: two",
            "bear_history": "\nBear Analyst: x",
        },
        "risk_debate_state": {"current_conservative_response": "too much\x00debt"},
        "market_report": "m",
        "sentiment_report": "",
        **more,
    }  # fmt: skip


def test_a_state_is_kept_by_its_decisions_and_the_ends_of_its_debates() -> None:
    found = signal_of(state("Buy", "Overweight", "Buy"))
    assert found is not None
    assert (found.rating, found.verdict, found.confidence, found.summary) == ("Buy", "CONFIRMED", "medium", "Small.")
    assert (found.price_target, found.time_horizon) == ("150.0", "a year")
    assert (found.debate.bull, found.debate.bear, found.debate.judge) == ("Bull Analyst: two", "Bear Analyst: x", "j")
    assert found.key_risks == ["too muchdebt"]
    assert [report.analyst for report in found.reports] == ["market"]
    assert GraphSignal.model_validate(found.model_dump(mode="json", by_alias=True)) == found


@pytest.mark.parametrize(
    ("decisions", "confidence"),
    [
        (("Buy", "Buy", "Buy"), "medium"),
        (("Sell", "Underweight", "Sell"), "medium"),
        (("Buy", "Buy", "Hold"), "low"),
        (("Buy", "Sell", "Buy"), "low"),
        (("Buy", "unclear", "Buy"), "low"),
    ],
)
def test_confidence_is_the_agreement_of_three_decisions(decisions: tuple[str, str, str], confidence: str) -> None:
    found = signal_of(state(*decisions))
    assert found is not None
    assert found.confidence == confidence


def test_every_rating_has_a_stance_and_none_is_made_up() -> None:
    stances = [found.verdict for rating in RATINGS if (found := signal_of(state(rating, "Buy", "Buy")))]
    assert stances == [Stance.CONFIRMED, Stance.CONFIRMED, Stance.CAUTION, Stance.REJECT, Stance.REJECT]
    assert signal_of({**state("Buy", "Buy", "Buy"), "final_trade_decision": "We shall see."}) is None
    assert signal_of({}) is None
