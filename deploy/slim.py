"""Take out of the image's environment what no process of it loads: `python3 deploy/slim.py VENV`, with binutils' strip.

Libraries that a wheel brings beside its own (NAME.libs) are left as they are: patched as they are, strip breaks some.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

UNUSED = ("codex_cli_bin/bin/codex-code-mode-host",)  # of a feature that agents/codex/launch.py switches off
TESTS = ("test", "tests")
SOURCES = (".pyi", ".pyx", ".pxd", ".c", ".h", ".cpp", ".hpp")  # of what is compiled already


def unused(packages: Path) -> Iterator[Path]:
    """Yield files and folders that can go; a folder before what is in it."""
    yield from (packages / name for name in UNUSED)
    yield from (path for path in packages.rglob("*") if path.name in TESTS and path.is_dir())
    yield from (path for path in packages.rglob("*") if path.suffix in SOURCES and path.is_file())


def main(arguments: list[str]) -> int:
    """Returns 0, or 1 where there is no environment."""
    found = [path for folder in arguments for path in Path(folder).glob("lib/python3*/site-packages")]
    if not found:
        print(f"no environment in {' '.join(arguments) or 'no folder'}: name one", file=sys.stderr)
        return 1
    for packages in found:
        for path in list(unused(packages)):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        compiled = [path for path in packages.rglob("*.so") if not path.parent.name.endswith(".libs")]
        subprocess.run(["strip", "--strip-debug", *compiled], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
