"""`make real`: a desk on a small real language model, and whether it does what it promises on any.

    python -m tests.real [--venv FOLDER] [--logs FOLDER] [NAME ...]

NAME is a part of a promise's name; without one all are tried. Exit code 1 when one is broken. With --logs the logs of
every process are kept there.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from chordesk.models.settings.sources import load_settings
from chordesk.tasks.worker import log_format
from tests.real import promises
from tests.real.desk import RealDesk, desk_on
from tests.real.figures import Figures
from tests.real.server import packages, running


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.real")
    parser.add_argument("--venv", type=Path, default=Path(".real"), help="environment with the model and its server")
    parser.add_argument("--logs", type=Path, help="a new folder, for the logs of every process")
    parser.add_argument("names", nargs="*", help="parts of names of promises; all by default")
    given = parser.parse_args()
    log_format.configure(load_settings({"DESK_LOG_LEVEL": "ERROR"}))
    wanted = [one for one in promises.PROMISES if not given.names or any(part in name_of(one) for part in given.names)]
    found = packages(given.venv.absolute())
    with tempfile.TemporaryDirectory() as folder, running(found, Path(folder) / "server.log") as server:
        print(f"SmolLM2-135M-Instruct by llama.cpp at {server.url}: {server.slots} slots, {server.threads} threads")
        with desk_on(server) as desk:
            try:
                return show(wanted, desk)
            finally:
                if given.logs is not None:
                    keep_logs(given.logs, desk.processes.home, Path(folder))


def show(wanted: Sequence[promises.Promise], desk: RealDesk) -> int:
    """Try promises and print what came of each, and the figures; return 1 when one is broken."""
    figures, broken, began = Figures(), [], time.monotonic()
    for promise in wanted:
        if not kept(promise, desk, figures):
            broken.append(name_of(promise))
    print("\n" + "\n".join(figures.lines()))
    print(f"\n{len(wanted) - len(broken)} of {len(wanted)} promises are kept, in {time.monotonic() - began:.0f} s")
    for name in broken:
        print(f"    broken: {name}")
    return 1 if broken else 0


def kept(promise: promises.Promise, desk: RealDesk, figures: Figures) -> bool:
    """Try one promise, print what came of it, and return whether it is kept."""
    began, name = time.monotonic(), name_of(promise)
    print(f"\n-- {name}", flush=True)
    try:
        word, text = "ok", promise(desk, figures)
    except AssertionError as error:
        word, text = "FAILED", str(error)[:1_000]
    except Exception as error:  # the others are tried all the same
        word, text = "FAILED", f"{type(error).__name__}: {error}"[:1_000]
    print(f"{word} ({time.monotonic() - began:.0f} s): {text}", flush=True)
    return word == "ok"


def keep_logs(to: Path, *folders: Path) -> None:
    to.mkdir(parents=True, exist_ok=True)
    for file in (file for folder in folders for file in folder.glob("*.log")):
        shutil.copy(file, to)


def name_of(promise: promises.Promise) -> str:
    return promise.__name__.replace("_", " ")


if __name__ == "__main__":
    sys.exit(main())
