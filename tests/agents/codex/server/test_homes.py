"""Rollouts too old to be gone on with leave the app-server's sight, and after some time the disk."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
from pathlib import Path

from chordesk.agents.codex.servers import set_aside
from tests.agents.codex.kit import one_turn, running, spec
from tests.fakes.responses import FakeResponses
from tests.patience import PATIENCE

NOW = dt.datetime(2026, 3, 20, 12, 0)


def a_rollout(home: Path, day: str, name: str = "rollout-x.jsonl", written: dt.datetime | None = None) -> Path:
    """Of a thread begun on this day, and last written then unless it is given when."""
    path = home / "sessions" / day / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    with contextlib.suppress(ValueError):
        last = (written or dt.datetime(*(int(part) for part in day.split("/")))).timestamp()  # type: ignore[arg-type]
        os.utime(path, (last, last))
    return path


def rollouts(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*.jsonl"))


def test_days_that_no_thread_can_be_gone_on_with_are_set_aside(tmp_path: Path) -> None:
    home = tmp_path / "kept"
    # 72 hours and a day's margin after its last moment, the 15th was over at noon of the 20th, and the 16th was not.
    for day in ("2026/03/20", "2026/03/16", "2026/03/15", "2026/03/10", "2025/12/31"):
        a_rollout(home, day)
    assert set_aside(home, 72, 14, NOW) == 3
    assert rollouts(home) == ["sessions/2026/03/16/rollout-x.jsonl", "sessions/2026/03/20/rollout-x.jsonl"]
    assert rollouts(tmp_path / "aged") == [
        "sessions/2026/03/10/rollout-x.jsonl", "sessions/2026/03/15/rollout-x.jsonl",
    ], "the one of last year is older than 14 days"  # fmt: skip
    assert set_aside(home, 72, 14, NOW) == 0


def test_an_old_thread_that_was_used_lately_stays(tmp_path: Path) -> None:
    """Its age counts from its last use, here as in the registry."""
    home = tmp_path / "kept"
    a_rollout(home, "2026/03/01", "rollout-used.jsonl", NOW - dt.timedelta(hours=70))
    a_rollout(home, "2026/03/01", "rollout-unused.jsonl")
    assert set_aside(home, 72, 14, NOW) == 1
    assert rollouts(home) == ["sessions/2026/03/01/rollout-used.jsonl"]
    assert set_aside(home, 72, 14, NOW + dt.timedelta(hours=72)) == 1
    assert rollouts(tmp_path / "aged") == ["sessions/2026/03/01/rollout-used.jsonl"], (
        "deleted 14 days after its last use"
    )


def test_a_day_that_was_set_aside_takes_what_comes_later(tmp_path: Path) -> None:
    home = tmp_path / "kept"
    a_rollout(home, "2026/03/10", "rollout-1.jsonl")
    set_aside(home, 72, 14, NOW)
    a_rollout(home, "2026/03/10", "rollout-2.jsonl")
    assert set_aside(home, 72, 14, NOW) == 1
    assert [path.rpartition("/")[2] for path in rollouts(tmp_path / "aged")] == ["rollout-1.jsonl", "rollout-2.jsonl"]


def test_folders_that_are_no_day_are_left_alone(tmp_path: Path) -> None:
    home = tmp_path / "kept"
    strange = [a_rollout(home, day) for day in ("2026/13/40", "some/thing/else")]
    set_aside(home, 72, 14, NOW)
    assert all(path.exists() for path in strange)
    set_aside(tmp_path / "not there", 72, 14, NOW)


def test_locks_of_old_threads_go(tmp_path: Path) -> None:
    locks = tmp_path / "kept" / "thread-writer-locks"
    locks.mkdir(parents=True)
    long_ago = (NOW - dt.timedelta(days=30)).timestamp()
    for name in ("old.lock", ".coordination.lock", "new.lock"):
        (locks / name).touch()
        os.utime(locks / name, (long_ago, long_ago) if name != "new.lock" else (NOW.timestamp(), NOW.timestamp()))
    set_aside(tmp_path / "kept", 72, 14, NOW)
    assert sorted(path.name for path in locks.iterdir()) == [".coordination.lock", "new.lock"]


def test_a_process_sets_aside_when_it_starts(model: FakeResponses, tmp_path: Path, registry: str) -> None:
    worker = tmp_path / "codex" / "w"
    old = dt.date.today() - dt.timedelta(days=8)
    a_rollout(worker / "kept", f"{old:%Y/%m/%d}")

    async def work() -> None:
        async with running(model, tmp_path, registry) as runtime:
            assert (await one_turn(runtime, spec(keep=True))).status == "completed"

    asyncio.run(asyncio.wait_for(work(), PATIENCE))
    assert rollouts(worker / "aged") == [f"sessions/{old:%Y/%m/%d}/rollout-x.jsonl"]
    # The count of rollouts on disk, which a demo rests on, sees both.
    assert len(list(tmp_path.glob("codex/*/*/sessions/**/rollout-*.jsonl"))) == 2
