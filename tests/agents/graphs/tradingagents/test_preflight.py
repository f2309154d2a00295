"""The checks before a run: through the real binary as far as no account is needed, and a stand-in for what one says."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from chordesk.agents.graphs.tradingagents.preflight import CheckResult, config_of, require_able, run_checks
from chordesk.agents.graphs.tradingagents.provider import Options
from chordesk.models.errors import LoginMissing
from tests.fakes.responses import FakeResponses, Status

pytestmark = pytest.mark.process
KEY = '{"OPENAI_API_KEY":"sk-of-nothing"}'
WEEK = {"usedPercent": 12, "windowDurationMins": 10080, "resetsAt": 1790000000}


@pytest.fixture
def login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The place of the host's login, empty as yet."""
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".codex"
    folder.mkdir()
    return folder / "auth.json"


def stand_in(folder: Path, **answers: Any) -> Path:
    """Return a binary that answers the app-server's methods so; `error` in place of a result is one."""
    program = folder / "codex"
    program.write_text(
        f"""#!{sys.executable}
import json, sys
answers = json.loads({json.dumps(answers)!r})
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        given = answers.get(message["method"].replace("/", "_"), {{}})
        found = {{"error": given["error"]}} if "error" in given else {{"result": given}}
        print(json.dumps({{"id": message["id"], **found}}), flush=True)
""",
        encoding="utf-8",
    )
    program.chmod(0o755)
    return program


def checks(folder: Path, *models: str, **answers: Any) -> dict[str, CheckResult]:
    options = Options(folder, 60.0, stand_in(folder, **answers))
    return {one.name: one for one in run_checks(options, models or ("gpt-5.5",))}


def chatgpt(plan: str = "pro") -> dict[str, Any]:
    return {"account": {"type": "chatgpt", "email": None, "planType": plan}, "requiresOpenaiAuth": True}


def listed(*names: str) -> dict[str, Any]:
    return {"data": [{"model": name, "id": name} for name in names], "nextCursor": None}


def test_the_real_app_server_accepts_a_key_and_lists_models(login: Path, tmp_path: Path) -> None:
    login.write_text(KEY, encoding="utf-8")
    found = run_checks(Options(tmp_path, 60.0), ("gpt-5.5", "gpt-none"))
    assert [(one.name, one.passed) for one in found] == [
        ("binary", True), ("app-server", True), ("login", True), ("model", True), ("model", False)
    ]  # fmt: skip
    assert found[2].detail.startswith("by an API key")
    assert "Requested model gpt-none is not available" in found[-1].detail
    assert "gpt-5.5" in found[-1].remedy


def test_without_a_login_nothing_starts(login: Path, tmp_path: Path) -> None:
    found = run_checks(Options(tmp_path, 60.0), ("gpt-5.5",))
    assert [one.name for one in found if not one.passed] == ["login"]
    assert "desk login" in found[-1].remedy
    with pytest.raises(LoginMissing):
        require_able(Options(tmp_path, 60.0))


def test_limits_that_are_reached_fail_and_those_not_given_do_not(login: Path, tmp_path: Path) -> None:
    login.write_text(KEY, encoding="utf-8")
    limits = {"rateLimits": {"primary": {**WEEK, "usedPercent": 100}, "rateLimitReachedType": "rate_limit_reached"}}
    found = checks(tmp_path, account_read=chatgpt(), account_rateLimits_read=limits, model_list=listed("gpt-5.5"))
    assert not found["limits"].passed
    assert found["limits"].detail.startswith("rate limit reached: 100%")
    error = {"error": {"code": -32603, "message": "offline"}}
    found = checks(tmp_path, account_read=chatgpt(), account_rateLimits_read=error, model_list=error)
    assert found["limits"].passed
    assert "not given by the account" in found["limits"].detail
    assert not found["models"].passed


def test_an_endpoint_needs_no_account(tmp_path: Path) -> None:
    with FakeResponses() as model:
        model.policy = lambda _body: Status(400, {"error": {"message": "model is required"}})
        options = Options(tmp_path, 60.0, stand_in(tmp_path), url=model.url, key="key")
        assert config_of(options, "m").provider == "endpoint"
        last = run_checks(options, ("m",))[-1]
        assert last.passed
        assert model.url in last.detail


def test_an_endpoint_that_nobody_answers_at_and_a_refused_key_are_named(tmp_path: Path) -> None:
    away = run_checks(Options(tmp_path, 60.0, stand_in(tmp_path), url="http://127.0.0.1:9/v1", key="key"), ("m",))[-1]
    assert not away.passed
    assert "127.0.0.1:9" in away.detail
    with FakeResponses() as model:
        model.policy = lambda _body: Status(401, {"error": {"message": "Incorrect API key provided"}})
        refused = run_checks(Options(tmp_path, 60.0, stand_in(tmp_path), url=model.url, key="fake"), ("m",))[-1]
    assert not refused.passed
    assert "DESK_PROVIDER_KEY" in f"{refused.detail} {refused.remedy}"
