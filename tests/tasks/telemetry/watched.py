"""The `desk` command, with a log of the modules that load a tracing or metrics library.

`python -m tests.tasks.telemetry.watched FILE ARGUMENTS...` writes a line `LIBRARY MODULE` for each that a module loads.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

LIBRARIES = ("opentelemetry", "prometheus_client")


class Watch:
    """First of all import finders: finds nothing, and notes the importing module."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        library = name.partition(".")[0]
        if library in LIBRARIES:
            with self._path.open("a") as file:
                file.write(f"{library} {_asker()}\n")
        return None


def _asker() -> str:
    """The module that the import statement stands in."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("importlib"):
        frame = frame.f_back
    return str(frame.f_globals["__name__"])


if __name__ == "__main__":
    sys.meta_path.insert(0, Watch(Path(sys.argv.pop(1))))  # type: ignore[arg-type]
    from chordesk.tasks.cli.main import main

    main()
