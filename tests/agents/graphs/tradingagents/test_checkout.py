"""TradingAgents itself, from a checkout: all four analysts with all their tools, its main.py and its command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.obedient import fill, obedient
from tests.fakes.responses import FakeResponses, Refusal, Reply, Text
from tests.patience import PATIENCE
from tests.toy.checkout import needed

pytestmark = pytest.mark.process
ROOT = Path(__file__).parents[4]
STUBBED = Path(__file__).parent / "stubbed.py"
# Its node has get_insider_transactions too, which no analyst is given.
TOOLS = {
    "get_stock_data", "get_indicators", "get_verified_market_snapshot", "get_news", "get_global_news",
    "get_macro_indicators", "get_prediction_markets", "get_fundamentals",
    "get_balance_sheet", "get_cashflow", "get_income_statement",
}  # fmt: skip
CALLS = 16  # as measured with 0.3.0


@pytest.fixture(scope="module")
def checkout() -> Path:
    return needed()


def thorough(body: dict[str, Any]) -> Reply:
    """Call all tools at once, with arguments that they take; then answer."""
    schema = body["text"]["format"]["schema"]
    branches = schema["properties"].get("reply", {}).get("anyOf", [])
    last = body["input"][-1]
    if not branches or last.get("type") == "function_call_output":
        return obedient(body)
    items = next(one for one in branches if "tool_calls" in one["properties"])["properties"]["tool_calls"]["items"]
    calls = [fill(one, "'2024-05-10'", schema, final=False) for one in items.get("anyOf", [items])]
    for call in calls:
        call["arguments"] |= {"symbol": "AAPL"} if "symbol" in call["arguments"] else {}
    return Text(json.dumps({"reply": {"mode": "tool_calls", "content": "", "tool_calls": calls}}))


def run(checkout: Path, home: Path, url: str, *arguments: str, questions: str = "") -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DESK_", "TRADINGAGENTS_"))}
    own = {
        "HOME": str(home), "DESK_HOME": str(home), "DESK_PROVIDER": "endpoint", "DESK_PROVIDER_URL": url,
        "DESK_EFFORT": "low", "PYTHONPATH": f"{ROOT}{os.pathsep}{checkout}", "TRADINGAGENTS_DEEP_THINK_LLM": "deep-1",
        "TRADINGAGENTS_OUTPUT_LANGUAGE": "English", "TRADINGAGENTS_MAX_DEBATE_ROUNDS": "1",
        "TRADINGAGENTS_MAX_RISK_ROUNDS": "1",
    }  # fmt: skip
    return subprocess.run(
        [sys.executable, "-m", "chordesk.agents.graphs.tradingagents", str(STUBBED), *arguments],
        cwd=home, env={**kept, **own}, input=questions, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip


def results(model: FakeResponses) -> str:
    """Return all results of tools that came to the model."""
    outputs = [item for seen in model.calls() for item in seen.body["input"] if item["type"] == "function_call_output"]
    return json.dumps(outputs)


def test_its_main_runs_with_four_analysts_and_all_tools(checkout: Path, model: FakeResponses, tmp_path: Path) -> None:
    model.policy = thorough
    done = run(checkout, tmp_path, model.url, str(checkout / "main.py"))
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip().splitlines()[-1] in ("Buy", "Overweight", "Hold", "Underweight", "Sell")
    called = {item["name"] for seen in model.calls() for item in seen.body["input"] if item["type"] == "function_call"}
    assert called == TOOLS
    assert "figures of get_balance_sheet" in results(model)
    assert "Error" not in results(model)
    models = [seen.body["model"] for seen in model.calls()]
    assert (models.count("deep-1"), models.count("gpt-5.5")) == (2, CALLS - 2)
    assert {seen.body["reasoning"]["effort"] for seen in model.calls()} == {"low"}
    (state,) = tmp_path.rglob("full_states_log_*.json")
    reports = json.loads(state.read_text(encoding="utf-8"))
    assert all(reports[f"{name}_report"] for name in ("market", "sentiment", "news", "fundamentals"))


def test_its_command_line_runs(checkout: Path, model: FakeResponses, tmp_path: Path) -> None:
    done = run(checkout, tmp_path, model.url, questions=f"Y\n{tmp_path / 'saved'}\nN\n")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "LLM provider from environment: codex" in done.stdout
    assert "Analysis Complete!" in done.stdout
    assert (tmp_path / "saved" / "complete_report.md").is_file()


def test_a_refused_decision_ends_its_run_and_is_asked_once(
    checkout: Path, model: FakeResponses, tmp_path: Path
) -> None:
    model.policy = lambda body: Refusal("no") if body["model"] == "deep-1" else obedient(body)
    done = run(checkout, tmp_path, model.url, str(checkout / "main.py"))
    assert done.returncode == 1
    assert "retrying once as free text" in done.stderr
    assert done.stderr.splitlines()[-1].startswith("error: the model ended its turn without an answer")
    assert [seen.body["model"] for seen in model.calls()].count("deep-1") == 1
