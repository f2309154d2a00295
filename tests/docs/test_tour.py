"""The tour, as a person types it: each block of commands says what the page shows below it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import homes
from tests.parts import EVERY, HERE
from tests.patience import PATIENCE
from tests.stack import REPOSITORY
from tests.tasks.services.conftest import CLEAN

PAGE = (REPOSITORY / "docs" / "tour.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(sh|text)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
READY = "Ctrl-C stops all"


@pytest.fixture
def folder() -> Iterator[Path]:
    with homes.owned() as found:
        yield found


def steps() -> Iterator[tuple[str, list[str]]]:
    """Yield each block of commands with the lines that it shows."""
    for at, (kind, text) in enumerate(BLOCKS):
        if kind == "sh":
            after = BLOCKS[at + 1] if at + 1 < len(BLOCKS) else ("", "")
            yield text, after[1].splitlines() if after[0] == "text" else []


def missing(shown: list[str], said: str) -> str | None:
    """Return the first line of the page that does not follow in what was said."""
    at = 0
    for line in shown:
        pattern = ".*".join(re.escape(part) for part in re.split(r" *\.\.\. *", line))
        found = re.compile(rf"^.*?{pattern}", re.MULTILINE).search(said, at)
        if found is None:
            return line
        at = found.end()
    return None


@pytest.mark.process
@pytest.mark.long
@pytest.mark.skipif(not EVERY <= HERE, reason="a feature is not in this tree")
def test_the_tour_says_what_it_shows(folder: Path) -> None:
    (begin, _), *others = steps()
    assert begin.endswith("desk up &\n")
    place = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environ = {**CLEAN, "PATH": place, "COLUMNS": "120", "DESK_API_PORT": "0"}
    log = folder / "up.log"
    up = f"{begin.removesuffix(' &' + chr(10))} > {log} 2>&1 & echo $!"
    started = subprocess.run(["sh", "-c", up], cwd=folder, env=environ, capture_output=True, text=True)
    pid = int(started.stdout)
    try:
        until = time.monotonic() + PATIENCE
        while READY not in log.read_text("utf-8"):
            assert time.monotonic() < until, log.read_text("utf-8")
            time.sleep(0.2)
        assert len(others) >= 8
        environ["DESK_HOME"] = str(folder / "tour")
        for commands, shown in others:
            until = time.monotonic() + PATIENCE
            while True:
                done = subprocess.run(["sh", "-ec", commands], cwd=folder, env=environ, capture_output=True, text=True)
                # A reader of the page comes to this block later than a test: the killed worker's successor begins.
                if "research is dead" not in done.stdout or time.monotonic() > until:
                    break
                time.sleep(1)
            assert done.returncode == 0, f"{commands}\n{done.stdout}\n{done.stderr}"
            assert missing(shown, done.stdout) is None, f"{commands}\n{done.stdout}\n{done.stderr}"
    finally:
        subprocess.run(["kill", "-INT", str(pid)])
        while Path(f"/proc/{pid}").exists() and "Z" not in Path(f"/proc/{pid}/stat").read_text().split(")")[-1]:
            time.sleep(0.2)
