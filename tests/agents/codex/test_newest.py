"""The newest Codex of npm beside the pinned one, as a person has it who names it in DESK_CODEX_BINARY.

`make newest` asks for it (DESK_TEST_NEWEST=1), for it is 140 MB to fetch; skipped, with npm's own words, where it
cannot be had.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from chordesk.tasks.doctor.check import CheckStatus
from tests.agents.rulebook.turns import Live
from tests.golden import schema
from tests.tasks.doctor.test_doctor import check_context, one

pytestmark = pytest.mark.process
PACKAGE, SECONDS = "@openai/codex", 600


@pytest.fixture(scope="module")
def newest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if os.environ.get("DESK_TEST_NEWEST") != "1":
        pytest.skip("140 MB to fetch: DESK_TEST_NEWEST=1, or make newest")
    if (npm := shutil.which("npm")) is None:
        pytest.skip("there is no npm here")
    folder = tmp_path_factory.mktemp("codex")
    options = ("--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
    command = [npm, "install", "--prefix", str(folder), *options, PACKAGE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    found = [path for path in folder.glob("node_modules/@openai/*/vendor/*/bin/codex") if path.is_file()]
    if done.returncode or not found:
        pytest.skip(f"npm has no {PACKAGE} for this machine: {done.stderr.strip().splitlines()[-1:]}")
    return found[0]


def test_nothing_that_the_desk_rests_on_is_gone_or_other(newest: Path) -> None:
    """What is new, such as a notification or a kind of error, is no trouble."""
    before = json.loads(schema.FILE.read_text(encoding="utf-8"))
    found = schema.differences(before, schema.extract(schema.printed(newest)))
    assert [one for one in found if ": was None, is " not in one and not one.endswith(" too")] == []


def test_a_turn_of_the_desk_is_done_by_it_and_it_shows_the_roles_tools_alone(newest: Path, tmp_path: Path) -> None:
    with Live() as rules:
        context = check_context(tmp_path, codex_binary=newest, rulebook_url=rules.url)
        assert one("codex binary", context).status is CheckStatus.WARN, "the desk was tested with another one"
        for name in ("tools", "model"):
            found = one(name, context)
            assert found.status is CheckStatus.OK, f"{name}: {found.detail}"
