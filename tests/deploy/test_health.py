"""`deploy/health.py`: the probe of containers, against real processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.patience import PATIENCE
from tests.stack import REPOSITORY, Processes, free_port, processes, wait_for


def probe(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """The probe as a container runs it."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("DESK_")}
    command = [sys.executable, "-I", str(REPOSITORY / "deploy" / "health.py"), *arguments]
    return subprocess.run(
        command, env={**clean, **environ}, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


@pytest.fixture(scope="module")
def beats() -> Iterator[tuple[Processes, list[int]]]:
    """Two schedules: the second waits for the lock of the first."""
    with processes() as desk:
        ports = [free_port(), free_port()]
        for number, port in enumerate(ports):
            desk.desk(f"beat-{number}", "beat", environ={"DESK_METRICS_PORT": str(port)})
            wait_for(lambda at=port, most=number: health(at).returncode == most, f"beat-{number}")  # type: ignore
        yield desk, ports


def health(port: int) -> subprocess.CompletedProcess[str]:
    return probe(DESK_METRICS_PORT=str(port), http_proxy="http://127.0.0.1:1")


def test_a_process_that_works_is_well(beats: tuple[Processes, list[int]]) -> None:
    done = health(beats[1][0])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert probe(f"http://127.0.0.1:{beats[1][0]}/health/live").returncode == 0


def test_one_that_waits_is_not_and_has_the_reason(beats: tuple[Processes, list[int]]) -> None:
    def waits() -> bool:
        done = health(beats[1][1])
        return done.returncode == 1 and "answers 503" in done.stderr and "lock" in done.stderr

    wait_for(waits, "the second one waits for the lock")


def test_one_that_ended_is_not(beats: tuple[Processes, list[int]]) -> None:
    desk, ports = beats
    desk.end("beat-1")
    done = health(ports[1])
    assert done.returncode == 1
    assert f"http://127.0.0.1:{ports[1]}/health does not answer" in done.stderr
