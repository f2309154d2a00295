"""Secrets that must not be in a log, whatever its level."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import structlog

from chordesk.tasks.worker import log_format
from tests.constants import constants
from tests.fakes.alpaca import KEY, SECRET, Alpaca, serving
from tests.patience import PATIENCE
from tests.tasks.cli.running import ROOT, environment

STREAMING = """
import os, sys, threading
from chordesk.models.settings.sources import load_settings
from chordesk.tasks.worker import log_format
from chordesk.tools.brokers.alpaca import AlpacaBroker
from chordesk.tools.market.clock import LiveClock
settings = load_settings()
log_format.configure(settings)
broker = AlpacaBroker(settings, LiveClock(), os.environ)
broker.listen(lambda order_id: None)
print(broker.state().account, flush=True)
sys.stdin.read()
"""


def test_the_brokers_key_and_secret_are_in_no_line_at_debug(tmp_path: Path) -> None:
    with serving(Alpaca()) as alpaca:
        environ = environment(
            tmp_path / "home",
            DESK_BROKER="alpaca-paper",
            **constants(ALPACA=alpaca.url),
            DESK_LOG_LEVEL="DEBUG",
            ALPACA_API_KEY=KEY,
            ALPACA_SECRET_KEY=SECRET,
        )
        command = [sys.executable, "-c", STREAMING]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(command, env=environ, cwd=ROOT, text=True, **pipes) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "alpaca-paper\n"
            assert alpaca.connected.wait(PATIENCE), "it never logged in to the stream"
            _, logged = process.communicate(timeout=PATIENCE)
    assert "GET /v2/account" in logged, "nothing was logged at DEBUG"
    assert KEY not in logged
    assert SECRET not in logged


def test_a_commands_traceback_has_no_value_of_a_variable(capsys: pytest.CaptureFixture[str]) -> None:
    log_format.quiet()
    held = "".join(("the", "key"))
    try:
        raise ValueError(f"{len(held)} letters")
    except ValueError:
        structlog.get_logger().exception("a.test")
    logged = capsys.readouterr().err
    assert "Traceback" in logged
    assert "ValueError: 6 letters" in logged
    assert held not in logged
