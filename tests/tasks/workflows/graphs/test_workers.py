"""`desk graph` on real workers: a listed module against a model, and the desk's own example without one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import zygote
from tests.stack import REPOSITORY, Processes, processes
from tests.tasks.workflows.graphs.kit import MODULE
from tests.toy.graphs import NODES

pytestmark = pytest.mark.process
EXAMPLE = "chordesk.agents.langchain.example:build"


@pytest.fixture(scope="module")
def desk() -> Iterator[Processes]:
    with processes(DESK_GRAPHS=MODULE, DESK_REPLAY_DATE="2010-03-10") as found:
        found.rulebook()
        found.workers("research", "ops", concurrency=8)
        yield found


def graph(desk: Processes, *arguments: str) -> Any:
    return zygote.run(("graph", *arguments), desk.environ, REPOSITORY)


def test_the_example_runs_by_the_rulebook_and_its_texts_name_it(desk: Processes) -> None:
    done = graph(desk, EXAMPLE, "--input", '{"symbol": "IBM"}', "--input", '{"symbol": "KO"}', "--json")
    assert done.returncode == 0, done.stderr + desk.log("research")[-2000:]
    rows = json.loads(done.stdout)["graphs"]
    assert [(row["graph"], row["state"], row["turns"]) for row in rows] == [("1", "done", 3), ("2", "done", 3)]
    for row, symbol in zip(rows, ("IBM", "KO"), strict=True):
        output = row["output"]
        assert f'"symbol":"{symbol}"' in output["figures"].replace(" ", "")
        assert "2010-03-10" in output["figures"]
        for text in (output["bull"], output["bear"], output["rating"]["reason"]):
            assert text.startswith("Rule, not a model: no model has read this.")
        assert output["rating"]["rating"] == "hold"


def test_a_listed_module_runs_and_is_shown(desk: Processes, tmp_path: Path) -> None:
    given = tmp_path / "ibm.json"
    given.write_text('{"ticker": "IBM", "messages": [["user", "IBM"]]}', encoding="utf-8")
    done = graph(desk, f"{MODULE}:research", "--input", f"@{given}")
    assert done.returncode == 0, done.stderr
    assert "graph 1: done, 1 chapter, 16 turns" in done.stdout
    run_id = json.loads(zygote.run(("runs", "list", "--json"), desk.environ, REPOSITORY).stdout)[0]["run"]["id"]
    shown = json.loads(zygote.run(("runs", "show", run_id, "--json"), desk.environ, REPOSITORY).stdout)
    assert shown["graphs"][0]["output"]["nodes"] == list(NODES)
    assert shown["graphs"][0]["output"]["signal"] == "Hold"


def test_an_unlisted_module_is_refused_before_a_run(desk: Processes) -> None:
    done = graph(desk, "json:loads", "--input", "{}")
    assert done.returncode == 2
    assert "the module json is not listed in DESK_GRAPHS" in done.stderr
