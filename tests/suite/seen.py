"""What a test sees of the shell. Collected by name alone."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.suite.shell import passes

READLINE = {"LINES", "COLUMNS"}  # it sets them in a process that loads it
NAMES = "import os; print(*os.environ, sep='\\n')"


def test_no_variable_of_the_caller_is_seen_here_or_in_a_process() -> None:
    below = subprocess.run([sys.executable, "-c", NAMES], capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in (*os.environ, *below) if not passes(name) and name not in READLINE] == []
