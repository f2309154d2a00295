"""The telemetry file: no line is torn by another writer, and a failure harms no writer."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from itertools import pairwise
from pathlib import Path

import pytest

from chordesk.models.errors import SettingError
from chordesk.models.telemetry_events import ToolInvocation
from chordesk.tasks.telemetry.emit import EventFile
from tests.patience import PATIENCE
from tests.stack import REPOSITORY

LINES = 1000
# A process that writes until its disk, of 10 kB, is full, and ends.
FULL = """
import resource, sys
from pathlib import Path
from tests.tasks.telemetry.test_file import EventFile, append
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
file = EventFile(Path(sys.argv[1]))
for number in range(50):
    append(file, number)
"""


def append(file: EventFile, number: int, writer: str = "a") -> None:
    # Of very different lengths, some longer than a page and than a buffer takes at once.
    about = {"mode": "research", "role": writer, "name": "x" * (number * 97 % 20_000), "success": True}
    file.append(ToolInvocation(run_id=f"{number}", duration_ms=1.5, **about))


def runs(path: Path) -> list[str]:
    return [json.loads(line)["run_id"] for line in path.read_text().splitlines()]


def test_writers_of_one_file_never_tear_a_line(tmp_path: Path) -> None:
    """As in processes of their own: each has opened the file for itself."""
    path, together = tmp_path / "new" / "telemetry.jsonl", threading.Barrier(3)

    def write(name: str) -> None:
        file = EventFile(path)
        together.wait()
        for number in range(LINES):
            append(file, number, name)
        file.close()

    writers = [threading.Thread(target=write, args=(name,)) for name in "abc"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    found = [ToolInvocation.model_validate_json(line) for line in path.read_text().splitlines()]
    for name in "abc":
        assert [int(one.run_id) for one in found if one.role == name] == list(range(LINES))
    assert sum(one.role != two.role for one, two in pairwise(found)) > 2, "they did not write at once"


def test_a_full_disk_costs_lines_and_one_warning(tmp_path: Path) -> None:
    path = tmp_path / "telemetry.jsonl"
    whole = [sys.executable, "-c", FULL, str(path)]
    done = subprocess.run(whole, cwd=REPOSITORY, capture_output=True, text=True, timeout=PATIENCE, check=True)
    said = done.stdout + done.stderr
    assert said.count("telemetry.not_written") == 1, "one warning, not one a line"
    assert "xxx" not in said, "what is lost is not printed"
    assert path.stat().st_size == 10_000


def test_a_file_that_cannot_be_is_refused_before_work_begins(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    with pytest.raises(SettingError, match=r"DESK_TELEMETRY_FILE=.*/taken/t\.jsonl: .*exists.*name a file"):
        EventFile(tmp_path / "taken" / "t.jsonl").check()
    EventFile(tmp_path / "t.jsonl").check()
