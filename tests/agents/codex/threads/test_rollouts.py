"""Rollouts as they leave their home: without secrets, and still lines of JSON."""

from __future__ import annotations

import json

import pytest
from sqlmodel import select

from chordesk.agents.codex.rollouts import ThreadVault, digest_of, without
from chordesk.models.database.blobs import DatabaseBlobs
from chordesk.models.database.store import Store
from chordesk.models.errors import ServiceError
from chordesk.models.tables.runtime import KeptThread, Rollout


@pytest.mark.parametrize("secret", ["key-of-the-provider", 'key "with" signs\\', "schlüssel-der-wand"])
def test_a_secret_is_hidden_and_the_lines_stay_json(secret: str) -> None:
    data = b"".join(json.dumps({"message": f"refused: {secret}, again", "n": n}).encode() + b"\n" for n in range(3))
    hidden = without(data, [secret, "another-one"])
    assert [json.loads(line)["message"] for line in hidden.splitlines()] == ["refused: ********, again"] * 3


def test_other_text_stays() -> None:
    data = b'{"message": "a key that nobody knows"}\n'
    assert without(data, []) is data
    assert without(data, ["a"]) == data, "what is so short is no secret, and would be everywhere"


def a_thread(**values: str) -> KeptThread:
    defaults = {
        "thread_id": "t1", "role": "risk", "subject": "ACME", "mode": "legacy", "model": "m", "reason": "initial",
        "worker": "a@host",
    }  # fmt: skip
    return KeptThread(**{**defaults, **values})


def a_copy(data: bytes, generation: int, token: int) -> Rollout:
    return Rollout(
        thread_id="t1", generation=generation, token=token, digest=digest_of(data), path="sessions/x", size=len(data),
        turns=generation, record="{}",
    )  # fmt: skip


def copies(store: Store) -> list[tuple[int, int, str]]:
    with store.read() as session:
        rows = session.exec(select(Rollout).order_by(Rollout.generation)).all()
    return [(row.generation, row.token, row.digest) for row in rows]


def test_copies_are_fetched_by_digest_and_the_threads_row_is_written_once(store: Store) -> None:
    vault = ThreadVault(store, DatabaseBlobs(store))
    vault.put(a_thread(), a_copy(b"one", 1, 5), b"one")
    vault.put(a_thread(reason="resumed", worker="b@host"), a_copy(b"two", 2, 6), b"two")
    assert [vault.fetch(digest_of(data)) for data in (b"one", b"two", b"three")] == [b"one", b"two", None]
    with store.read() as session:
        [thread] = session.exec(select(KeptThread)).all()
    assert (thread.reason, thread.worker) == ("initial", "a@host")
    assert copies(store) == [(1, 5, digest_of(b"one")), (2, 6, digest_of(b"two"))]


def test_a_generation_may_be_put_again_but_not_by_the_earlier_holder(store: Store) -> None:
    vault = ThreadVault(store, DatabaseBlobs(store))
    vault.put(a_thread(), a_copy(b"died before it was registered", 1, 5), b"died before it was registered")
    vault.put(a_thread(), a_copy(b"the next holder's", 1, 6), b"the next holder's")
    assert copies(store) == [(1, 6, digest_of(b"the next holder's"))]
    with pytest.raises(ServiceError, match="generation 1 of thread t1 was kept under a later lease"):
        vault.put(a_thread(), a_copy(b"comes late", 1, 5), b"comes late")
    assert copies(store) == [(1, 6, digest_of(b"the next holder's"))]
