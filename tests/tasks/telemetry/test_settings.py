"""Telemetry that is set but cannot work, and the places of its parts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chordesk.tasks.telemetry.traces import endpoint
from tests.patience import PATIENCE
from tests.stack import REPOSITORY

# A finder that finds none of the extra's libraries, as where it is not installed.
WITHOUT = """
import sys
sys.modules["opentelemetry.exporter"] = None
from chordesk.tasks.cli.main import main
sys.argv = ["desk", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize("command", [("worker", "ops"), ("up",)])
def test_spans_without_the_extra_are_refused_before_anything_starts(tmp_path: Path, command: tuple[str, ...]) -> None:
    environ = {
        "DESK_HOME": str(tmp_path / "home"),
        "DESK_REDIS_URL": f"unix://{tmp_path}/none.sock",
        "DESK_TRACE_URL": "http://127.0.0.1:4318",
        "PATH": "/usr/bin:/bin",
    }
    whole = [sys.executable, "-c", WITHOUT, *command]
    done = subprocess.run(whole, cwd=REPOSITORY, env=environ, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 2, done.stderr
    assert "DESK_TRACE_URL needs the package opentelemetry.exporter" in done.stderr
    assert "pip install 'chordesk[otel]'" in done.stderr


@pytest.mark.parametrize(
    ("given", "posted_to"),
    [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
        ("https://collector/", "https://collector/v1/traces"),
        ("https://collector/otlp/v1/traces?a=b", "https://collector/otlp/v1/traces?a=b"),
    ],
)
def test_a_bare_address_gets_the_path_of_the_protocol(given: str, posted_to: str) -> None:
    assert endpoint(given) == posted_to
