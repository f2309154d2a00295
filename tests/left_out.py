"""Leave features out of a copy of the tree, as `docs/contributing.md` says, and see what still holds:
`.venv/bin/python -m tests.left_out NAME...`, or `all`.

By itself it imports every module, checks the import contracts, writes the tables of the documents and collects the
tests: some 30 s of one CPU. --check: lint and types too; --tests: the tests that start no process, too.
The copy is removed at the end, or kept with --keep.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path

from chordesk.models.features import OWN

ROOT = Path(__file__).parents[1]
ROOMS = ("models", "tools", "agents", "tasks")
# Beside the folders: the name of the bridge for programs of others.
MORE = {"graphs": ("chordesk/langchain.py",)}
IMPORTS = """
import importlib, pkgutil, chordesk
ours = (one.name for one in pkgutil.walk_packages(chordesk.__path__, "chordesk."))
wrong = []
for name in ours:
    if not name.endswith("__main__") and ".migrations." not in name:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:  # an extra that is not installed here is no fault of the copy
            if (error.name or "").startswith(("chordesk", "tests")):
                wrong.append(f"{name}: {error}")
        except Exception as error:
            wrong.append(f"{name}: {type(error).__name__}: {error}")
print("\\n".join(wrong))
raise SystemExit(len(wrong))
"""
FAST = {
    "imports": ("bin/python", "-c", IMPORTS),
    "contracts": ("bin/lint-imports", "--no-cache"),
    "documents": ("bin/python", "docs/generate.py"),
    "documents again": ("bin/python", "docs/generate.py", "--check"),
    "collected": ("bin/python", "-m", "pytest", "--collect-only", "-q", "--no-header", "-p", "no:cacheprovider"),
}
CHECK = {
    "lint": ("bin/ruff", "check", *ROOMS, "chordesk", "tests", "docs"),
    "types": ("bin/mypy",),
}
TESTS = {"tests": ("bin/python", "-m", "pytest", "--fast", "-n", "2", "--dist", "loadscope", "-q")}


def with_users(names: Iterable[str]) -> list[str]:
    """These features, and those whose descriptions state that they use one: without it they do not load."""
    known = {place.split(".")[2]: import_module(place).FEATURE for place in OWN}
    out = set(names)
    while more := {name for name, each in known.items() if out.intersection(each.uses)} - out:
        out |= more
    return sorted(out)


def copied(target: Path, out: Sequence[str]) -> None:
    """Copy the tree without these features: their folders, and their lines in `models/features.py`."""
    gone = {f"{top}/{name}" for top in (*ROOMS, *(f"tests/{room}" for room in ROOMS)) for name in out}
    gone.update(path for name in out for path in MORE.get(name, ()))

    def ignored(folder: str, names: list[str]) -> set[str]:
        here = Path(folder).relative_to(ROOT)
        hidden = {name for name in names if name.startswith(".") and name not in (".ci", ".env.example")} | {
            "__pycache__"
        }
        return hidden | {name for name in names if (here / name).as_posix() in gone}

    shutil.copytree(ROOT, target, symlinks=True, ignore=ignored)
    features = target / "models" / "features.py"
    lines = re.compile(rf'    "chordesk\.\w+\.(?:{"|".join(out)})\.feature",\n')
    features.write_text(lines.sub("", features.read_text(encoding="utf-8")), encoding="utf-8")
    _make_environment(target)


def _make_environment(target: Path) -> None:
    """Make a virtual environment in which `chordesk` is the copy and all else is of the one that runs this."""
    venv = target / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    packages = next((venv / "lib").glob("python*/site-packages"))
    own = next(Path(one) for one in sys.path if one.endswith("site-packages"))
    (packages / "copy.pth").write_text(f"{target}\n{own}\n", encoding="utf-8")
    for script in Path(sys.executable).parent.iterdir():
        if script.is_file() and not script.is_symlink() and not (venv / "bin" / script.name).exists():
            first, _, rest = script.read_bytes().partition(b"\n")
            if first.startswith(b"#!") and b"python" in first:
                (venv / "bin" / script.name).write_bytes(f"#!{venv}/bin/python\n".encode() + rest)
                (venv / "bin" / script.name).chmod(0o755)
            else:  # a program of its own, such as ruff
                (venv / "bin" / script.name).symlink_to(script)


def held(target: Path, commands: dict[str, tuple[str, ...]]) -> list[str]:
    """Run each command in the copy; return what failed, with the end of what it printed."""
    wrong = []
    for name, (program, *arguments) in commands.items():
        command = [target / ".venv" / program, *arguments]
        done = subprocess.run(command, cwd=target, capture_output=True, text=True, check=False)
        if done.returncode:
            wrong.append(f"{name}:\n{(done.stdout + done.stderr).strip()[-4000:]}")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", help="features, or all")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--tests", action="store_true")
    parser.add_argument("--keep", type=Path, help="a new folder for the copy")
    asked = parser.parse_args()
    known = [place.split(".")[2] for place in OWN]
    names = known if asked.names == ["all"] else asked.names
    if unknown := sorted(set(names) - set(known)):
        parser.error(f"{unknown[0]!r} is no feature of this tree: choose among {', '.join(sorted(known))}, or all")
    if asked.keep is not None and asked.keep.exists():
        parser.error(f"{asked.keep} is there already: name a new folder")
    out = with_users(names)
    print(f"without {', '.join(out)}", flush=True)
    with tempfile.TemporaryDirectory(prefix="desk-left-out-") as folder:
        target = (asked.keep or Path(folder) / "desk").resolve()
        copied(target, out)
        commands = {**FAST, **(CHECK if asked.check else {}), **(TESTS if asked.tests else {})}
        wrong = held(target, commands)
    print("\n\n".join(wrong) or f"held: {', '.join(commands)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
