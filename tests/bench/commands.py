"""(j) CPU of the commands that people and health checks run most."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Iterator

from chordesk.tasks.worker.sockets import ask_all
from tests.patience import PATIENCE
from tests.stack import REPOSITORY, processes, wait_for

COMMANDS = {("--help",): 0.4, ("ping", "ops"): 0.1}  # with the user seconds that each may take


def command_cpu(rounds: int) -> Iterator[tuple[str, float, float]]:
    """Yield each command with the median of its user CPU in seconds, and its bound; a worker is there to answer."""
    with processes(forked=False) as desk:
        desk.workers("ops")
        wait_for(lambda: any(one.well for one in ask_all(desk.home)), "the worker's loop ticks", PATIENCE)
        for arguments, bound in COMMANDS.items():
            command = [sys.executable, "-P", "-m", "chordesk.tasks.cli.main", *arguments]
            spent = [_user_seconds(command, desk.environ) for _ in range(rounds)]
            yield " ".join(("desk", *arguments)), statistics.median(spent), bound


def _user_seconds(command: list[str], environ: dict[str, str]) -> float:
    before = os.times().children_user
    env = {**environ, "PYTHONPATH": str(REPOSITORY)}
    subprocess.run(command, env=env, cwd=environ["DESK_HOME"], capture_output=True, timeout=PATIENCE, check=True)
    return os.times().children_user - before
