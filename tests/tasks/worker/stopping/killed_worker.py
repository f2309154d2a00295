"""A worker that is killed once, when the file FILE is there, as a function of the desk returns: PLACE is its
module:name, such as chordesk.tools.brokers.paper:PaperBroker.submit.

python -m tests.tasks.worker.stopping.killed_worker FILE PLACE COMMAND...
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from pathlib import Path
from typing import Any


def kill_after(place: str, file: Path) -> None:
    module, _, path = place.partition(":")
    *owner, name = path.split(".")
    found: Any = importlib.import_module(module)
    for part in owner:
        found = getattr(found, part)
    real = getattr(found, name)

    def then_killed(*given: Any, **named: Any) -> Any:
        answer = real(*given, **named)
        if file.exists():
            file.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    setattr(found, name, then_killed)


def main() -> None:
    file, place, *rest = sys.argv[1:]
    kill_after(place, Path(file))
    sys.argv = ["desk", *rest]
    importlib.import_module("chordesk.tasks.cli.main").main()


if __name__ == "__main__":
    main()
