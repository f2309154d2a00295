"""The libraries that a research worker loads: none that only some roles, tools or settings need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tasks.cli.running import environment

# The worker's app with all of its tasks, warmed up as its process is, then a turn's tools of every default role.
SCRIPT = """
import asyncio, os, sys
from pathlib import Path
from chordesk.agents.roles import ROLES, default_roles
from chordesk.models.settings.sources import load
from chordesk.tasks.worker.app import create_app
from chordesk.tools.registry import ToolContext
from chordesk.tools.toolsets import TurnTools

app = create_app(load(dict(os.environ), Path.cwd()).settings, "imports")
app.loader.import_default_modules()
desk = app.desk
desk.warm(turns=True)
market = desk.market
context = ToolContext(market, market.clock, None, desk.settings, "paper", None)
for role in (*default_roles(), "trader", "screener_technical"):
    tools = TurnTools(ROLES[role].tools, context, 60.0, lambda arguments, answer: None)
    for spec in tools.specs():
        named = {"symbols": ["IBM"]} if "symbols" in spec.input_schema["properties"] else {}
        answer = asyncio.run(tools.call(spec.name, named))
        print(spec.name, answer.success, file=sys.stderr)
graphs = {"langchain_core", "langgraph"}
heavy = {*graphs, "litellm", "httpx", "mcp", "PIL", "edgar", "trafilatura", "lxml", "pyarrow", "yfinance", "alpaca"}
print(sorted(heavy & sys.modules.keys()), "pandas" in sys.modules)
desk.close()
"""


@pytest.mark.process
def test_a_worker_without_roles_of_litellm_loads_no_library_of_some_roles_alone(tmp_path: Path) -> None:
    environ = environment(tmp_path, DESK_REDIS_URL="redis://127.0.0.1:1/0", DESK_MESSAGE_KEY="0123456789abcdef" * 2)
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT]
    done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "signals_get True" in done.stderr
    assert done.stdout.splitlines()[-1] == "[] True"


MODULES = (
    "reading.runs", "board.board_view", "reading.desk_status", "reading.accounts", "approval_requests",
    "telemetry.commits",
)  # fmt: skip


def test_what_commands_read_with_loads_neither_roles_nor_numpy() -> None:
    every = ", ".join(f"chordesk.tasks.{module}" for module in MODULES)
    heavy = "{'numpy', 'chordesk.agents.roles', 'chordesk.tasks.bootstrap'}"
    command = [sys.executable, "-c", f"import sys, {every}; print({heavy} & sys.modules.keys())"]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "set()\n"
