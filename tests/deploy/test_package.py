"""The wheel and the source distribution: what a user who installs them gets, with nothing that they do not declare."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from chordesk.models.migrations import VERSIONS
from tests.features.test_switched_off import python
from tests.parts import of_feature
from tests.patience import PATIENCE
from tests.stack import processes

ROOT = Path(__file__).parents[2]


def run(*command: str | Path, cwd: Path, seconds: float = PATIENCE) -> str:
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("DESK_", "PYTHON", "TRADER_"))}
    done = subprocess.run(command, cwd=cwd, env=environ, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def pip(*arguments: str | Path, cwd: Path) -> str:
    return run(sys.executable, "-m", "pip", "--no-input", *arguments, cwd=cwd)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both distributions, built from what is in the checkout."""
    out = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-d", out, cwd=ROOT)
    return out


def distribution(built: Path, kind: str) -> Path:
    (found,) = built.glob("chordesk-*.whl" if kind == "wheel" else "chordesk-*.tar.gz")
    return found


def declared(requirements: Sequence[str], extra: str) -> Iterator[importlib.metadata.Distribution]:
    """The installed distributions that these requirements lead to, each once. What nobody declares is not among
    them."""
    waiting, seen = [(text, extra) for text in requirements], set()
    while waiting:
        text, wanted = waiting.pop()
        requirement = Requirement(text)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": wanted}):
            continue
        found = importlib.metadata.distribution(requirement.name)
        assert requirement.specifier.contains(found.version, prereleases=True), text
        for each in ("", *requirement.extras):
            key = (canonicalize_name(requirement.name), each)
            if key not in seen:
                if key[0] not in {name for name, _ in seen}:
                    yield found
                seen.add(key)
                waiting += [(one, each) for one in found.requires or []]


def environment(folder: Path, wheel: Path) -> Path:
    """An environment with a wheel and what it declares with the extra `demo`; return its python."""
    venv = folder / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", venv, cwd=folder)
    python, (packages,) = venv / "bin" / "python", (venv / "lib").glob("python*/site-packages")
    pip("--python", python, "install", "--quiet", "--no-index", "--no-deps", wheel, cwd=folder)
    (installed,) = importlib.metadata.distributions(name="chordesk", path=[str(packages)])
    for each in declared(installed.requires or [], "demo"):
        for file in each.files or []:
            source = Path(str(each.locate_file(file)))
            # pip compiles what it installs. What it was not let to is compiled by the first process that wants it.
            if ".." not in file.parts and (file.suffix != ".pyc" or source.exists()):
                place(source, packages / file)
    return python


def place(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        try:
            os.link(source, target)
        except OSError:  # another file system
            shutil.copy(source, target)


def contents(wheel: Path) -> dict[str, bytes]:
    """The files of a wheel by name."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_source_distribution_makes_the_same_wheel(built: Path, tmp_path: Path) -> None:
    """So the demo, which runs from the one, runs from the other too."""
    source = distribution(built, "sdist")
    pip("wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", "-w", tmp_path, source, cwd=tmp_path)
    (made,) = tmp_path.glob("chordesk-*.whl")
    assert contents(made) == contents(distribution(built, "wheel"))


def test_the_page_is_in_the_wheel(built: Path) -> None:
    static = ROOT / "chordesk" / "tasks" / "web" / "page" / "static"
    ours = {path.relative_to(ROOT).as_posix(): path.read_bytes() for path in static.rglob("*") if path.is_file()}
    assert len(ours) > 20
    assert ours.items() <= contents(distribution(built, "wheel")).items()


def test_the_package_owns_its_own_name_alone(built: Path) -> None:
    """Beside packages with folders like `agents` or `tools`, and in projects that have some."""
    wheel = contents(distribution(built, "wheel"))
    assert {name.partition("/")[0] for name in wheel if ".dist-info/" not in name} == {"chordesk"}


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command `desk` of an environment with the wheel, its extra `demo`, and nothing else."""
    folder = tmp_path_factory.mktemp("empty")
    python = environment(folder, distribution(built, "wheel"))
    pip("--python", python, "check", cwd=folder)
    where = run(python, "-c", "import chordesk; print(chordesk.__file__)", cwd=folder)
    assert Path(where.strip()).is_relative_to(folder)
    return python.with_name("desk")


@pytest.mark.long
def test_the_demo_runs_whole_from_an_empty_environment_and_leaves_nothing(installed: Path, tmp_path: Path) -> None:
    """Outside the checkout, with nothing but what the package declares, whatever the user's environment has."""
    test_demo = of_feature("tests.tasks.samples.test_demo")
    around = [f"{name}={value}" for name, value in test_demo.POISON.items()]
    given = ("--home", tmp_path / "demo", "--sample", test_demo.sample(tmp_path / "sample"))
    test_demo.whole(tmp_path, run("env", *around, installed, "demo", *given, cwd=tmp_path, seconds=2 * PATIENCE))


def test_an_installed_desk_has_its_version(installed: Path, tmp_path: Path) -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        version = tomllib.load(file)["project"]["version"]
    newest = max(path.name for path in VERSIONS.glob("[0-9]*.py"))[:4]
    assert run(installed, "--version", cwd=tmp_path) == f"chordesk {version}, schema {newest}\n"


@pytest.fixture(scope="module")
def packaged(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The python of an environment with the wheel and the package of docs/packages.md, word for word."""
    folder = tmp_path_factory.mktemp("package")
    page = (ROOT / "docs" / "packages.md").read_text(encoding="utf-8")
    for name, text in re.findall(r"^`([\w./-]+)`:\n\n```\w*\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "source" / name).write_text(text, encoding="utf-8")
    pip("wheel", "--quiet", "--no-index", "--no-deps", "--no-build-isolation", folder / "source", cwd=folder)
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder)
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (below,) = (installed.parents[1] / "lib").glob("python*/site-packages")
    (packages / "below.pth").write_text(f"{below}\n")  # the wheel's environment stays as it is
    python = folder / "venv" / "bin" / "python"
    (made,) = folder.glob("*.whl")
    pip("--python", python, "install", "--quiet", "--no-index", "--no-deps", made, cwd=folder)
    return python


@pytest.mark.long
def test_a_package_from_the_page_alone_screens_reports_and_runs_its_workflow(packaged: Path) -> None:
    with processes(forked=False, python=(str(packaged), "-P"), PYTHONPATH="") as found:
        where = python(
            found, "-c", "import chordesk, chordesk_range; print(chordesk.__file__, chordesk_range.__file__)"
        )
        assert [Path(path).is_relative_to(ROOT) for path in where.stdout.split()] == [False, False], where.stderr
        command = ("-m", "chordesk.tasks.cli.main")
        upgraded = python(found, *command, "db", "upgrade")
        assert "the feature range: revision 0001, newest 0001" in upgraded.stdout, upgraded.stderr
        found.rulebook()
        found.workers("all")
        screened = python(found, *command, "screen", "--universe", "IBM,KO,GE,F", "--lens", "calm", "--json")
        assert screened.returncode == 0, screened.stderr
        screen = json.loads(screened.stdout)
        assert (screen["state"], screen["summary"]["tools"]["range_get"]) == ("done", 1)
        assert [(row["screeners"], row["verdict"] is not None) for row in screen["candidates"]] == [
            (["calm"], True)
        ] * 3
        assert sum(screen["summary"]["reports"].values()) == 3 * 5, "the package's role reports beside the desk's four"
        checked = python(found, *command, "checkup", "IBM", "--json", DESK_MARKET="echo")
        assert checked.returncode == 0, checked.stderr
        check = json.loads(checked.stdout)
        assert (check["state"], check["market"], check["summary"]["tools"]) == ("done", "echo", {"range_get": 1})
        with sqlite3.connect(found.home / "desk.db") as rows:
            assert rows.execute("select symbol from range_checkup").fetchall() == [("IBM",)]
