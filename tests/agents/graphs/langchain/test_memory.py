"""The memory of graphs on SQLite and on PostgreSQL, held against LangGraph's own store of a process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import BaseStore, InvalidNamespaceError, PutOp
from langgraph.store.memory import InMemoryStore

from chordesk.agents.graphs.langchain.graph_store import DeskStore
from chordesk.models.database.store import Store
from chordesk.models.errors import GraphState, UsageError
from tests.databases import make_database

pytestmark = pytest.mark.process  # one of the two databases is a server's, which is asked for by name
ITEMS: tuple[tuple[tuple[str, ...], str, dict[str, Any]], ...] = (
    (("users", "ann"), "a/b?c", {"text": "Likes pea soup", "age": 30, "at": {"city": "Bonn"}}),
    (("users", "ann", "old"), "x", {"text": "Liked soup", "age": 20}),
    (("users", "Ann"), "x", {"text": "another", "tags": ["a"]}),
    (("users_ann",), "x", {"age": 40}),
)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[DeskStore]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'desk.db'}"
        make_database(url)
        store = Store(url)
        yield DeskStore(store)
        store.close()
        return
    yield DeskStore(request.getfixturevalue("postgres_store"))


def filled(store: BaseStore) -> BaseStore:
    for namespace, key, value in ITEMS:
        store.put(namespace, key, value)
    return store


SEARCHES: list[tuple[tuple[str, ...], dict[str, Any]]] = [
    ((), {}),
    (("users",), {}),
    (("users", "ann"), {"filter": {"age": {"$gte": 20, "$lt": 30}}}),
    (("users",), {"filter": {"at": {"city": "Bonn"}}}),
    ((), {"filter": {"text": {"$ne": "another"}}}),
]


@pytest.mark.parametrize(("prefix", "given"), SEARCHES)
def test_a_search_finds_what_langgraph_s_own_finds(
    memory: DeskStore, prefix: tuple[str, ...], given: dict[str, Any]
) -> None:
    found, own = (
        {(one.namespace, one.key): one.value for one in filled(store).search(prefix, **given)}
        for store in (memory, InMemoryStore())
    )
    assert found == own


@pytest.mark.parametrize(
    "given",
    [{}, {"prefix": ("users",)}, {"suffix": ("ann",)}, {"prefix": ("*", "ann")}, {"max_depth": 1},
     {"limit": 1, "offset": 1}],
)  # fmt: skip
def test_namespaces_are_those_of_langgraph_s_own(memory: DeskStore, given: dict[str, Any]) -> None:
    assert filled(memory).list_namespaces(**given) == filled(InMemoryStore()).list_namespaces(**given)


def test_an_item_is_kept_under_its_key_as_given_and_changed_and_deleted(memory: DeskStore) -> None:
    filled(memory)
    first = memory.get(("users", "ann"), "a/b?c")
    assert first is not None
    assert first.value == ITEMS[0][2]
    memory.put(("users", "ann"), "a/b?c", {"n": 1})
    again = memory.get(("users", "ann"), "a/b?c")
    assert again is not None
    assert (again.value, again.created_at) == ({"n": 1}, first.created_at)
    memory.delete(("users", "ann"), "a/b?c")
    assert memory.get(("users", "ann"), "a/b?c") is None


def test_a_query_finds_words_the_best_first_and_pages(memory: DeskStore) -> None:
    filled(memory)
    found = memory.search((), query="pea soup")
    assert [(one.key, one.score) for one in found] == [("a/b?c", 1.0), ("x", 0.5)]
    assert [one.key for one in memory.search((), query="pea soup", limit=1, offset=1)] == ["x"]
    assert len(memory.search((), limit=3)) == 3
    assert len(memory.search((), limit=3, offset=3)) == 1


def test_what_cannot_be_stored_is_refused_whole(memory: DeskStore) -> None:
    with pytest.raises(GraphState, match="the value of 'bad'"):
        memory.batch([PutOp(("a",), "good", {}), PutOp(("a",), "bad", {"n": open})])
    with pytest.raises(UsageError, match="NUL"):
        memory.put(("a",), "k\x00", {})
    with pytest.raises(InvalidNamespaceError):
        memory.put(("a.b",), "k", {})
    with pytest.raises(NotImplementedError):
        memory.put(("a",), "k", {}, ttl=5)
    assert memory.search(()) == []
