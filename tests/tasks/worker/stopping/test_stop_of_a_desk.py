"""The end of `desk up` while turns are in flight."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlmodel import select

from chordesk.models.database.store import Store
from chordesk.models.settings.sources import load_settings
from chordesk.models.tables.runs import Attempt, Step
from tests.fakes.responses import FakeResponses
from tests.stack import wait_for
from tests.tasks.cli.running import desk, environment
from tests.tasks.cli.services.test_up import Up
from tests.tasks.services.conftest import gone

SYMBOLS = ("AAPL", "MMM", "KO")


@pytest.fixture
def home() -> Iterator[Path]:
    """Not under the temp folder, where the app-server refuses a home; a short path, for sockets."""
    base = Path(os.environ.get("DESK_TEST_HOMES", Path.home() / ".cache" / "chordesk-tests"))
    base.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix="u-", dir=base))
    yield made
    shutil.rmtree(made, ignore_errors=True)


@pytest.mark.long
def test_ctrl_c_gives_the_turns_back_within_ten_seconds(home: Path) -> None:
    with FakeResponses(latency=60) as slow:
        (home / "desk.toml").write_text(f"provider = 'endpoint'\nprovider_url = '{slow.url}'\n", encoding="utf-8")
        up = Up(home)
        try:
            up.until("Ctrl-C stops all")
            answer = desk(home, "research", *SYMBOLS, "--no-wait", "--json")
            assert json.loads(answer.stdout)["state"] == "running", answer.stderr
            store = Store(load_settings(environment(home), home).database)
            wait_for(lambda: len(held(store)) == len(SYMBOLS), "the turns are in flight")
            time.sleep(1)
            everybody = up.everybody()
            up.stop()
        finally:
            with contextlib.suppress(subprocess.TimeoutExpired):
                up.stop()
            up.process.kill()
    assert gone(everybody)
    assert held(store) == []
    with store.read() as session:
        attempts = session.exec(select(Attempt)).all()
    assert [attempt.outcome for attempt in attempts] == ["drained"] * len(SYMBOLS)
    store.close()


def held(store: Store) -> list[str]:
    with store.read() as session:
        return list(session.exec(select(Step.id).where(Step.state == "running")).all())
