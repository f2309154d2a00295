"""A process that appends many telemetry lines: `python -m tests.tasks.telemetry.appending FILE NAME LINES`."""

from __future__ import annotations

import sys
from pathlib import Path

from chordesk.models.telemetry_events import ToolInvocation
from chordesk.tasks.telemetry.emit import JsonLines


def main() -> None:
    path, name, count = sys.argv[1:]
    lines = JsonLines(Path(path))
    print("ready", flush=True)
    sys.stdin.readline()  # until all are
    for number in range(int(count)):
        # Of very different lengths, some longer than a page and than a pipe takes at once.
        invocation = ToolInvocation(
            run_id=f"{number}",
            mode="research",
            role=name,
            name="x" * (number * 97 % 9000),
            success=True,
            duration_ms=1.5,
        )
        lines.append(invocation.line())
    lines.close()


if __name__ == "__main__":
    main()
