"""Both majors of the SDK: the tests' own environment has the first, and a folder the second."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.patience import PATIENCE
from tests.stack import REPOSITORY


@pytest.fixture(scope="session")
def second(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which `mcp` is the second major. It is installed beside what is tested, never over it."""
    folder, pins = tmp_path_factory.mktemp("second"), REPOSITORY / "requirements" / "protocol.txt"
    options = ("--no-deps", "--require-hashes", "--only-binary", ":all:", "--target", folder)
    command = [sys.executable, "-m", "pip", "--no-input", "install", "--quiet", *options, "-r", pins]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return {"PYTHONPATH": f"{folder}:{REPOSITORY}"}


@pytest.fixture(scope="module", params=["first", "second"])
def sdk(request: pytest.FixtureRequest) -> dict[str, str]:
    """The environment of a server, once with each major."""
    environ: dict[str, str] = {} if request.param == "first" else request.getfixturevalue("second")
    return environ
