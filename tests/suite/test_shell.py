"""The suite in a hostile shell: nothing of the caller reaches a test, and a run always says how each test ended."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.stack import REPOSITORY

PLAIN = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
HOSTILE = {
    "DESK_HOME": "/nonexistent/home", "DESK_MARKET": "nonsense", "DESK_PROVIDER": "nonsense", "DESK_ROUNDS": "x",
    "DESK_FEATURES_OFF": "nonsense,board", "DESK_DATABASE_URL": "nonsense://", "DESK_REDIS_URL": "nonsense://",
    "TRADER_LIVE": "maybe", "HTTP_PROXY": "http://127.0.0.1:1", "https_proxy": "http://127.0.0.1:1",
    "ALL_PROXY": "socks9://nonsense", "OPENAI_API_KEY": "nonsense", "OPENAI_BASE_URL": "nonsense",
    "ANTHROPIC_API_KEY": "nonsense", "ALPACA_API_KEY": "nonsense", "ALPACA_SECRET_KEY": "nonsense",
    "CODEX_HOME": "/nonexistent/codex", "XDG_CACHE_HOME": "/nonexistent/cache", "XDG_CONFIG_HOME": "/no/config",
    "PYTHONPATH": "/nonexistent/path", "PYTHONDONTWRITEBYTECODE": "1",
    "SSL_CERT_FILE": "/nonexistent/ca.pem", "PGHOST": "nonsense", "CELERY_BROKER_URL": "nonsense://",
}  # fmt: skip
# The tests' own environment, and a command's process beside a real Redis.
REPRESENTATIVE = ("tests/suite/seen.py", "tests/deploy/test_settings.py::test_a_volume_of_another_desk_is_refused")


def suite(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(
        command, cwd=REPOSITORY, env={**PLAIN, **environ}, capture_output=True, text=True, check=False
    )


def test_nothing_of_a_hostile_shell_reaches_a_test() -> None:
    assert len(HOSTILE) >= 20
    done = suite(*REPRESENTATIVE, **HOSTILE)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr


def test_an_aborted_process_of_the_runner_fails_its_test() -> None:
    done = suite("-n", "1", "--max-worker-restart", "0", "tests/suite/aborted.py")
    assert done.returncode != 0, done.stdout + done.stderr
    assert "INTERNALERROR" not in done.stdout
    assert "FAILED tests/suite/aborted.py::test_aborts_its_process" in done.stdout
    assert "the failure itself" in done.stdout
    assert "could not be asked: ConnectionError('no Redis was started')" in done.stdout


@pytest.mark.parametrize("target", ["test", "check", "docs"])
def test_the_steps_of_make_see_nothing_of_a_hostile_shell(target: str) -> None:
    """Each Python of the recipe is started without the variables: what make would run is asked, and not run."""
    done = subprocess.run(
        ["make", "--dry-run", "--silent", target, f"VENV={sys.prefix}"],
        cwd=REPOSITORY, env={**PLAIN, **HOSTILE}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    steps = [
        line for line in done.stdout.splitlines() if "/bin/" in line and "pip" not in line and "npm ci" not in line
    ]
    assert steps
    for step in steps:
        for name in ("DESK_HOME", "DESK_FEATURES_OFF", "PYTHONPATH", "OPENAI_API_KEY", "HTTP_PROXY", "XDG_CACHE_HOME"):
            assert f"-u {name}" in step, step
