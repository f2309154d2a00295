"""Tries the desk on each interpreter that this machine has, one line each: `python deploy/matrix.py`, `make matrix`.

Each has an environment of its own, from the pinned set and the wheel; there the demo runs in an empty folder, then the
fast tests. `--newest` (`make newest`) takes one interpreter and the newest version of everything in place of the pins:
what breaks then gets an upper bound in pyproject.toml, with the reason beside it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
KNOWN = ("3.11", "3.12", "3.13", "3.14")  # those that the documents name
PINNED = ROOT / "requirements" / "dev.txt"
PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet")
FOLDERS = ("~/.pyenv/versions/*/bin/python3", "~/.local/share/uv/python/*/bin/python3")
# Two that contradict each other in what they need; the reasons stand at their pins in pyproject.toml.
BOUND = ("langchain", "litellm", "ib-async")


def candidates() -> Iterator[Path]:
    """Yield the interpreters on the PATH by their names, then those that pyenv and uv keep."""
    named = (shutil.which(f"python{version}") for version in KNOWN)
    yield from (Path(one) for one in named if one and "shims" not in Path(one).parts)  # of pyenv, which follow a folder
    for pattern in FOLDERS:
        whole = Path(pattern).expanduser()
        yield from sorted(Path(whole.anchor).glob(str(whole.relative_to(whole.anchor))))


def version_of(python: Path) -> str:
    """Return its whole version; nothing for one that does not start."""
    asked = [str(python), "-c", "import sys; print('.'.join(map(str, sys.version_info[:3])))"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=60)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def chosen(found: Iterable[tuple[str, Path]]) -> dict[str, tuple[str, Path]]:
    """Return the newest patch of each minor version that the desk supports, by that."""
    best: dict[str, tuple[str, Path]] = {}
    for version, python in found:
        minor = version.rpartition(".")[0]
        if minor in KNOWN and (minor not in best or _key(version) > _key(best[minor][0])):
            best[minor] = (version, python)
    return dict(sorted(best.items(), key=lambda one: _key(one[0])))


def _key(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


class Trial:
    """One interpreter, with its folder and its log."""

    def __init__(self, python: Path, folder: Path) -> None:
        self.python, self.folder, self.log = python, folder, folder / "log"
        self.own = folder / "bin" / "python"

    def run(self, command: Sequence[str | Path], cwd: Path = ROOT) -> tuple[int, str]:
        """Run a command without the settings of the shell, and return its code with what it printed."""
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("DESK_", "TRADER_"))}
        parts = [str(one) for one in command]
        done = subprocess.run(parts, cwd=cwd, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(parts)}\n{done.stdout}\n")
        return done.returncode, done.stdout

    def install(self, what: Sequence[str | Path]) -> str:
        """Return what went wrong in one line, nothing when all is installed."""
        if not self.own.exists():
            code, told = self.run([self.python, "-m", "venv", self.folder])
            if code:
                return f"no environment: {_last(told)}"
        code, told = self.run([self.own, *PIP, *what])
        return f"not installed: {_last(told)}" if code else ""

    def demo(self) -> str:
        with tempfile.TemporaryDirectory() as empty:
            began = time.monotonic()
            code, told = self.run([self.folder / "bin" / "desk", "demo"], Path(empty))
        return f"demo failed: {_last(told)}" if code else f"demo {time.monotonic() - began:.0f} s"

    def tests(self, arguments: Sequence[str]) -> str:
        _, told = self.run([self.own, "-m", "pytest", "--fast", "-q", *arguments])
        return _last(told).strip("= ")


def _last(told: str) -> str:
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"ERROR|error:", line)]
    return (errors or lines or ["it said nothing"])[-1]


def newest() -> list[str]:
    """Return what the desk needs without its versions, but for what cannot be together otherwise."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(one for name, needs in extras.items() if name != "ship" for one in needs)]
    return [one if _name(one).lower().replace("_", "-") in BOUND else _name(one) for one in wanted]


def _name(requirement: str) -> str:
    return re.split(r"[<>=!~ ]", requirement, maxsplit=1)[0]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--newest", action="store_true", help="the newest of everything, on this interpreter")
    parser.add_argument("--python", nargs="*", type=Path, help="these interpreters in place of those that are found")
    parser.add_argument("--to", type=Path, default=ROOT / ".matrix", help="folder of the environments")
    parser.add_argument("--wheel", type=Path, help="of the desk; the tests are those of the tree")
    parser.add_argument("tests", nargs="*", help="what pytest gets, such as -n 2 or a folder of tests")
    given, more = parser.parse_known_args(arguments)
    pythons = given.python or ([Path(sys.executable)] if given.newest else list(candidates()))
    found = chosen((version, one) for one in pythons if (version := version_of(one)))
    given.to.mkdir(exist_ok=True)
    worst = 0
    for minor, (version, python) in found.items():
        trial = Trial(python, given.to / (f"newest-{minor}" if given.newest else minor))
        trial.folder.mkdir(exist_ok=True)
        trial.log.unlink(missing_ok=True)
        pinned = ["--no-deps", "--require-hashes", "--only-binary", ":all:", "-r", PINNED]
        wrong = trial.install(newest() if given.newest else pinned)
        wrong = wrong or trial.install(["--no-deps", "--no-index", "--force-reinstall", given.wheel])
        told = [wrong] if wrong else [trial.demo(), trial.tests([*given.tests, *more])]
        print(f"{version:<8} {'; '.join(told)} ({trial.log})", flush=True)
        worst = max(worst, any("failed" in one or "not installed" in one or "error" in one for one in told))
    for minor in (one for one in KNOWN if one not in found and not given.newest and not given.python):
        print(f"{minor:<8} not on this machine")
    return int(worst)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
