"""A trade worker that is killed while the broker has an order: once, when the file FILE is there.

python -m tests.tasks.worker.stopping.killed_worker FILE COMMAND...
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from pathlib import Path
from typing import Any

from chordesk.tools.brokers.paper import PaperBroker


def kill_on_submit(file: Path) -> None:
    real = PaperBroker.submit

    def submit(self: PaperBroker, *order: Any) -> Any:
        answer = real(self, *order)
        if file.exists():
            file.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    setattr(PaperBroker, "submit", submit)  # noqa: B010


def main() -> None:
    file, *rest = sys.argv[1:]
    kill_on_submit(Path(file))
    sys.argv = ["desk", *rest]
    importlib.import_module("chordesk.tasks.cli.main").main()


if __name__ == "__main__":
    main()
