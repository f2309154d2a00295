"""The telemetry file: no line is torn, none is lost silently, and a failure harms no writer."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from chordesk.models.errors import SettingError
from chordesk.models.settings.sources import load_settings
from chordesk.tasks.telemetry import emit
from chordesk.tasks.telemetry.emit import JsonLines
from tests.patience import PATIENCE
from tests.stack import REPOSITORY

LINES = 3000


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().split("\n") if line]


def appending(path: Path, name: str, lines: int, before: Callable[[], None] | None = None) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.tasks.telemetry.appending", str(path), name, str(lines)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return subprocess.Popen(command, cwd=REPOSITORY, preexec_fn=before, **pipes)  # type: ignore[call-overload,no-any-return]


def finish(*writers: subprocess.Popen[str]) -> list[str]:
    """Let all begin at once, and return their output."""
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("\n")
        writer.stdin.flush()
    output = [writer.communicate(timeout=PATIENCE)[0] for writer in writers]
    assert [writer.returncode for writer in writers] == [0] * len(writers), output
    return output


def test_processes_that_append_at_once_never_tear_a_line(tmp_path: Path) -> None:
    path = tmp_path / "new" / "telemetry.jsonl"
    finish(*(appending(path, name, LINES) for name in ("a", "b", "c")))
    found = read(path)
    assert len(found) == 3 * LINES
    for name in ("a", "b", "c"):
        own = [row for row in found if row["role"] == name]
        assert [row["run_id"] for row in own] == [str(number) for number in range(LINES)]
        assert all(row["name"] == "x" * (number * 97 % 9000) for number, row in enumerate(own))
    owners = [row["role"] for row in found]
    assert sum(one != two for one, two in pairwise(owners)) > 2, "they did not write at once"


def test_a_disk_that_takes_a_part_of_a_line_costs_that_line_alone(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.jsonl"

    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))

    (output,) = finish(appending(path, "a", 50, full))
    assert output.count("telemetry.not_written") == 1, "one warning, not one a line"
    assert path.stat().st_size == 10_000
    torn = path.read_text().split("\n")[-1]
    with pytest.raises(json.JSONDecodeError):
        json.loads(torn)
    finish(appending(path, "b", 3))
    lines = path.read_text().split("\n")
    assert torn in lines, "what follows is not written into it"
    assert [json.loads(line)["role"] for line in lines[-4:-1]] == ["b"] * 3


def test_lines_that_cannot_be_written_are_counted_once_they_can_again(tmp_path: Path) -> None:
    lines = JsonLines(tmp_path / "telemetry.jsonl")
    (tmp_path / "telemetry.jsonl").mkdir()
    with capture_logs() as logged:
        for _ in range(3):
            lines.append(b"{}\n")
        (tmp_path / "telemetry.jsonl").rmdir()
        lines.append(b"{}\n")
    assert [(row["event"], row.get("lines_lost")) for row in logged] == [
        ("telemetry.not_written", None),
        ("telemetry.written_again", 3),
    ]
    assert read(tmp_path / "telemetry.jsonl") == [{}]


def test_a_file_that_was_moved_away_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emit, "CHECK_SECONDS", 0.0)
    path = tmp_path / "telemetry.jsonl"
    lines = JsonLines(path)
    lines.append(b'{"n":1}\n')
    path.rename(tmp_path / "telemetry.1")
    lines.append(b'{"n":2}\n')
    path.unlink()
    lines.append(b'{"n":3}\n')
    assert (read(tmp_path / "telemetry.1"), read(path)) == ([{"n": 1}], [{"n": 3}])


def test_a_file_that_cannot_be_is_refused_before_work_begins(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(SettingError, match=r"DESK_TELEMETRY_FILE=.*/taken/t\.jsonl: .*exists.*name a file"):
        JsonLines(tmp_path / "taken" / "t.jsonl").check()
    JsonLines(tmp_path / "t.jsonl").check()
    assert (tmp_path / "t.jsonl").read_bytes() == b""


def test_a_relative_file_is_one_file_wherever_a_process_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load_settings({"DESK_TELEMETRY_FILE": "telemetry.jsonl"}, tmp_path)
    assert settings.telemetry_file == tmp_path / "telemetry.jsonl"
