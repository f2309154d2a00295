"""The Makefile, the Dockerfile and the pinned requirements: what they promise, run where it can be run."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from deploy import preflight
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text(encoding="utf-8")
LARGE = ("filings", "litellm", "parquet")  # what each needs beside the fleet's set
SETS = ("demo", "dev", "docs", "fleet", "ship", *LARGE)


def make(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", *arguments], cwd=cwd, capture_output=True, text=True, timeout=PATIENCE, check=False)


def test_each_run_step_of_the_image_is_a_target_of_the_makefile() -> None:
    first, *steps, last = re.findall(r"^RUN (.*)$", DOCKERFILE, flags=re.MULTILINE)
    assert first == "apt-get update && apt-get install --yes --no-install-recommends make binutils"
    assert last == "rm -rf .venv && chmod 700 deploy/home && chmod 600 deploy/home/README"
    assert steps
    for step in steps:
        program, *arguments = shlex.split(step.replace("${EXTRAS}", " ".join(LARGE)))
        assert program == "make", step
        planned = make("--dry-run", *arguments)
        assert planned.returncode == 0, planned.stderr


def test_the_steps_that_need_no_download_run(tmp_path: Path) -> None:
    """As the image runs them, here with the environment of the tests."""
    steps = set(re.findall(r"^RUN make (\w+)", DOCKERFILE, flags=re.MULTILINE)) - {"install", "slim"}
    assert steps == {"bytecode", "sbom"}
    for step in sorted(steps):
        done = make(step, f"VENV={sys.prefix}", f"DIST={tmp_path}")
        assert done.returncode == 0, done.stdout + done.stderr
    listed = json.loads((tmp_path / "sbom.cdx.json").read_text(encoding="utf-8"))
    assert listed["bomFormat"] == "CycloneDX"
    assert listed["metadata"]["component"]["name"] == "chordesk"
    found = {(each["name"].lower().replace("_", "-"), each.get("version")) for each in listed["components"]}
    text = (ROOT / "requirements" / "fleet.txt").read_text(encoding="utf-8")
    pinned = re.findall(r"^([A-Za-z0-9._-]+)(?:\[[a-z,]+\])?==([^\s;\\]+)", text, re.MULTILINE)
    assert {(name.lower().replace("_", "-"), version) for name, version in pinned} <= found
    hashes = [each.get("externalReferences", [{}])[0].get("hashes") for each in listed["components"]]
    assert all(hashes)


def test_the_image_is_on_a_base_by_digest_and_does_not_run_as_root() -> None:
    stages = re.findall(r"^FROM (\S+)", DOCKERFILE, flags=re.MULTILINE)
    assert stages == ["${BASE}", "build", "${BASE}"]
    (base,) = re.findall(r"^ARG BASE=(\S+)", DOCKERFILE, flags=re.MULTILINE)
    assert re.fullmatch(r"python:[0-9.]+-slim-\w+@sha256:[0-9a-f]{64}", base)
    last = DOCKERFILE[DOCKERFILE.rindex("FROM ") :]
    assert "\nUSER 10001:10001\n" in last
    assert "RUN" not in last  # no shell is needed to make it, and none to run it
    for command in re.findall(r"^\s*(?:CMD|ENTRYPOINT) (.+)$", last, flags=re.MULTILINE):
        assert json.loads(command)[0] in ("python", "desk")
    names = set(re.findall(r"org\.opencontainers\.image\.([a-z.]+)=", last))
    assert {"title", "version", "revision", "licenses", "base.name"} <= names


def test_secrets_and_made_files_are_not_in_the_image() -> None:
    left_out = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert {".secrets", "dist", ".git", ".env", ".venv"} <= set(left_out)


@pytest.mark.parametrize("name", SETS)
def test_every_requirement_is_pinned_and_hashed(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    entries = [entry for entry in re.split(r"\n(?=\S)", text) if entry.strip() and not entry.startswith("#")]
    assert entries
    for entry in entries:
        assert re.match(r"^[A-Za-z0-9._-]+(\[[a-z,]+\])?==\S+", entry), entry[:80]
        assert "--hash=sha256:" in entry, entry[:80]


@pytest.mark.parametrize("name", SETS)
def test_no_requirement_names_an_index_or_a_host(name: str) -> None:
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    for forbidden in ("://", "--index-url", "--extra-index-url", "--find-links", "--trusted-host", " @ "):
        assert forbidden not in text


def test_the_sets_agree_on_every_version() -> None:
    pins: dict[str, set[str]] = {}
    for name in (*SETS, "secrets"):
        text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
        for package, rest in re.findall(r"^([A-Za-z0-9._-]+)==([^\\\n]+)", text, flags=re.MULTILINE):
            pins.setdefault(package + rest.partition(";")[2], set()).add(rest.partition(";")[0].strip())
    assert {package: versions for package, versions in pins.items() if len(versions) > 1} == {}


def test_every_dependency_of_the_project_is_in_its_set() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    extras = project["optional-dependencies"]
    few = ["demo", "yahoo", "fx", "alpaca", "ibkr", "pages"]
    fleet = [*few, "events", "langchain", "mcp", "postgres", "notify", "otel"]
    sets = {
        "demo": ["demo"], "fleet": fleet, "dev": [*fleet, *LARGE, "dev", "ship"], "docs": ["docs"], "ship": ["ship"],
        **{extra: [extra] for extra in LARGE},
    }  # fmt: skip
    assert {extra for included in sets.values() for extra in included} == set(extras)
    for name, included in sets.items():
        files = ["fleet", name] if name in LARGE else [name]
        text = "\n".join((ROOT / "requirements" / f"{each}.txt").read_text(encoding="utf-8") for each in files)
        pinned = {found.lower().replace("_", "-") for found in re.findall(r"^([A-Za-z0-9._-]+)", text, re.MULTILINE)}
        wanted = [*project["dependencies"], *(each for extra in included for each in extras[extra])]
        names = {re.split(r"[\[<>=!~;\s]", each, maxsplit=1)[0].lower().replace("_", "-") for each in wanted}
        assert names - pinned == set(), f"requirements/{name}.txt is older than pyproject.toml: run make lock"


@pytest.mark.parametrize(
    ("version", "modules", "expected"),
    [
        ((3, 10, 14), ["venv", "ensurepip"], "needs Python 3.11"),
        ((3, 11, 2), ["venv"], "python3-venv"),
        ((3, 14, 0), [], "venv and ensurepip"),
        ((3, 11, 0), ["venv", "ensurepip"], None),
    ],
)
def test_preflight_names_the_remedy(version: tuple[int, ...], modules: list[str], expected: str | None) -> None:
    found = preflight.problem(version, modules)
    assert found == expected if expected is None else expected in (found or "")
