"""The command: a project's own command line and programs on the provider, with exit codes that a script can use."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from chordesk.agents.graphs.tradingagents.__main__ import DEEP, PROVIDER, QUICK, main
from tests.agents.graphs.tradingagents.conftest import TOY
from tests.fakes.obedient import obedient
from tests.fakes.responses import FakeResponses, Refusal
from tests.patience import PATIENCE

pytestmark = pytest.mark.process
ROOT = Path(__file__).parents[4]


def run(home: Path, *arguments: str, url: str | None = None, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the command with a home of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("DESK_", "TRADINGAGENTS_"))}
    endpoint = {"DESK_PROVIDER": "endpoint", "DESK_PROVIDER_URL": url} if url else {}
    found = {"HOME": str(home), "DESK_HOME": str(home), "PYTHONPATH": f"{ROOT}{os.pathsep}{TOY}"}
    return subprocess.run(
        [sys.executable, "-m", "chordesk.agents.graphs.tradingagents", *arguments],
        cwd=home, env={**kept, **found, **endpoint, **environ}, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip


def test_its_command_line_runs_on_the_provider(model: FakeResponses, tmp_path: Path) -> None:
    done = run(
        tmp_path, "--effort", "low", "--deep", "deep-1", "--symbol", "MSFT",
        url=model.url, TRADINGAGENTS_LLM_PROVIDER="openai",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("decision ")
    assert "TRADINGAGENTS_LLM_PROVIDER=openai has no effect here" in done.stderr
    used = [(seen.body["model"], seen.body["reasoning"]["effort"]) for seen in model.calls()]
    # two calls of the analyst, one in the debate, and the manager's on the deep model
    assert used == [("gpt-5.5", "low")] * 3 + [("deep-1", "low")]
    results = [item for item in list(model.calls())[1].body["input"] if item["type"] == "function_call_output"]
    assert "MSFT: 10, 11, 12" in str(results)


def test_a_program_that_is_not_there_is_an_error(
    model: FakeResponses, shell: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.setenv("DESK_PROVIDER", "endpoint")
    shell.setenv("DESK_PROVIDER_URL", model.url)
    assert main(["other.py"]) == 2
    assert "no program at other.py" in capsys.readouterr().err


def test_a_refusal_ends_the_run_and_is_asked_once(model: FakeResponses, tmp_path: Path) -> None:
    model.policy = lambda body: Refusal("no") if "Decide." in str(body["input"]) else obedient(body)
    done = run(tmp_path, str(TOY / "main.py"), "AAPL", url=model.url)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("error: the model ended its turn without an answer")
    assert len(list(model.calls())) == 4  # the manager's call is the last one


@pytest.fixture
def shell(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The environment of a shell, in a folder of its own with no settings and no login."""
    for name in [name for name in os.environ if name.startswith(("DESK_", "TRADINGAGENTS_"))]:
        monkeypatch.delenv(name)
    for name in (PROVIDER, DEEP, QUICK):
        monkeypatch.setenv(name, "")  # the command sets them: so they are undone
    monkeypatch.setattr(sys, "argv", ["tests"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DESK_HOME", str(tmp_path))
    return monkeypatch


@pytest.mark.parametrize(
    ("arguments", "name", "value", "problem"),
    [
        ((), "DESK_HOME", "home", "no Codex login at"),
        (("--effort", "much"), "DESK_HOME", "home", "effort 'much' is none of"),
        ((), "DESK_CODEX_BINARY", "none", "no executable Codex binary at"),
        ((), "DESK_EFFORT", "much", "DESK_EFFORT"),
    ],
)
def test_errors_before_a_run_end_with_two(
    shell: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    name: str,
    value: str,
    problem: str,
) -> None:
    shell.setenv(name, value)
    assert main(arguments) == 2
    assert problem in capsys.readouterr().err


def test_a_check_lists_every_row_and_fails_with_two(
    shell: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--check"]) == 2
    shown = capsys.readouterr().out
    assert [line.split()[:2] for line in shown.splitlines() if not line.startswith(" ")] == [
        ["ok", "project"], ["ok", "binary"], ["FAIL", "login"]
    ]  # fmt: skip
    assert "-> run `desk login`" in shown
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "auth.json").write_text('{"OPENAI_API_KEY":"sk-of-nothing"}', encoding="utf-8")
    assert main(["--check", "--deep", "gpt-5.5"]) == 0
    shell.setenv(QUICK, "gpt-5.4-mini")
    assert main(["--check"]) == 2
    assert "Requested model gpt-5.4-mini is not available" in capsys.readouterr().out
