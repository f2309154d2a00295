"""A factory that gives no graph: a clear error with a remedy, and no run."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from celery import Celery
from sqlmodel import select

from chordesk.models.errors import UsageError
from chordesk.models.tables.runs import Run
from chordesk.tasks.worker.app import create_app
from chordesk.tasks.workflows.graph import open_graphs
from chordesk.tasks.workflows.graphs.factory import load_graph
from tests.stack import processes

MODULE = "tests.toy.graphs"
LISTED = (MODULE, "no_such_module_here", "tests.toy.checkout")


@pytest.mark.parametrize(
    ("factory", "named"),
    [
        ("nonsense", "'nonsense' is no MODULE:FACTORY"),
        (":build", "':build' is no MODULE:FACTORY"),
        ("a b:build", "'a b:build' is no MODULE:FACTORY"),
        ("os:getcwd", "the module os is not listed in DESK_GRAPHS"),
        ("no_such_module_here:build", "the module no_such_module_here does not import: ModuleNotFoundError"),
        (f"{MODULE}:absent", "the module has no such name"),
        (f"{MODULE}:no_graph", "returns no graph but int"),
        (f"{MODULE}:broken", "raised RuntimeError: no key"),
        (f"{MODULE}:dangling", "does not compile: "),
        (f"{MODULE}:MODEL", "returns no graph but str"),
    ],
)
def test_a_factory_without_a_graph_is_named(factory: str, named: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_graph(factory, LISTED)
    assert named in caught.value.args[0]
    assert caught.value.remedy


def test_a_compiled_graph_and_a_graph_itself_are_taken_and_each_caller_has_its_own() -> None:
    first, second = (load_graph(f"{MODULE}:research", LISTED) for _ in range(2))
    assert first is not second
    assert "market" in first.nodes


def test_a_module_of_the_current_folder_is_found_after_all_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "from tests.toy.graphs import endless as build\ngraph = build().compile()\n"
    (tmp_path / "own_graphs_of_a_test.py").write_text(text, encoding="utf-8")
    (tmp_path / "orjson.py").write_text("raise ValueError", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("build", "graph"):
        assert "again" in load_graph(f"own_graphs_of_a_test:{name}", ("own_graphs_of_a_test",)).nodes


@pytest.mark.process
def test_nothing_is_opened_for_what_cannot_be_played() -> None:
    with processes(DESK_PROVIDER="endpoint", DESK_PROVIDER_URL="http://127.0.0.1:9/v1", DESK_GRAPHS=MODULE) as desk:
        app: Celery = create_app(desk.settings, "test")
        try:
            for factory, inputs in (
                ("os:getcwd", {"1": {}}),
                (f"{MODULE}:research", {}),
                (f"{MODULE}:research", {"1": 3}),
            ):
                with pytest.raises(UsageError):
                    open_graphs(app, factory, inputs)
            with app.desk.store.read() as session:
                assert session.exec(select(Run)).all() == []
        finally:
            app.desk.close()
            app.close()
