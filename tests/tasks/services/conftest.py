"""A home for real services, and a look at which processes live."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from chordesk.models.settings.sources import load
from chordesk.tasks.services import plan
from chordesk.tasks.services.plan import Choice, Plan
from tests.patience import PATIENCE

CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(("DESK_", "TRADER_", "AUTONOMOUS_"))}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def make_plan(home: Path) -> Callable[..., Plan]:
    """A plan on the test's own home; the services alone unless a choice is given."""

    def made(choice: Choice | None = None, **environ: str) -> Plan:
        own = {**CLEAN, "DESK_HOME": str(home), "DESK_MESSAGE_KEY": "0123456789abcdef" * 2, **environ}
        home.mkdir(exist_ok=True)
        (home / ".env").touch()  # the search upward ends here
        (home / "desk.toml").touch()
        return plan.make(load(own, home), own, home, choice)

    return made


def gone(pids: list[int]) -> bool:
    """Return whether all of these processes have ended, in time."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if not any(_lives(pid) for pid in pids):
            return True
        time.sleep(0.05)
    return False


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
