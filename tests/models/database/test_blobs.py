"""Where blobs are kept: the same contract for the database, a folder, and another file system of fsspec."""

from __future__ import annotations

import datetime as dt
import hashlib
import uuid
from pathlib import Path

import pytest

from chordesk.models.database.blobs import BlobStore, DatabaseBlobs, blob_store, pack, unpack
from chordesk.models.database.store import Store
from chordesk.models.errors import BlobsDown, SettingError
from chordesk.models.tables.columns import utcnow

DATA = b"a line of a rollout\n" * 200
DIGEST = hashlib.sha256(DATA).hexdigest()
OTHER = "a" * 64
SOON = dt.timedelta(minutes=1)


@pytest.fixture(params=["database", "folder", "address", "elsewhere"])
def blobs(request: pytest.FixtureRequest, store: Store, tmp_path: Path) -> BlobStore:
    folder = tmp_path / "blobs"
    urls = {
        "database": None,
        "folder": str(folder),
        "address": folder.as_uri(),
        "elsewhere": f"memory://{uuid.uuid4()}",
    }
    return blob_store(urls[request.param], store)


def test_a_stored_blob_can_be_read(blobs: BlobStore) -> None:
    assert blobs.get(DIGEST) is None
    for _ in range(2):
        blobs.put(DIGEST, b"packed")
    blobs.put(OTHER, b"others")
    assert (blobs.get(DIGEST), blobs.get(OTHER)) == (b"packed", b"others")
    assert blobs.stored(utcnow() + SOON) == {DIGEST, OTHER}


def test_the_old_is_deleted_and_the_young_is_not(blobs: BlobStore) -> None:
    blobs.put(DIGEST, b"packed")
    blobs.put(OTHER, b"others")
    assert blobs.stored(utcnow() - SOON) == set()
    assert blobs.delete([DIGEST], utcnow() - SOON) == 0
    assert blobs.get(DIGEST) == b"packed"
    assert blobs.delete([DIGEST, "b" * 64], utcnow() + SOON) == 1
    assert (blobs.get(DIGEST), blobs.get(OTHER)) == (None, b"others")


def test_a_blob_stored_again_is_young_again(blobs: BlobStore) -> None:
    blobs.put(DIGEST, b"packed")
    between = utcnow()
    assert blobs.stored(between) == {DIGEST}
    blobs.put(DIGEST, b"packed")
    assert blobs.stored(between) == set()


def test_an_address_that_cannot_be_used_is_named_without_its_password(store: Store) -> None:
    with pytest.raises(SettingError, match=r"DESK_BLOB_URL=nosuch://.*fsspec knows") as caught:
        blob_store("nosuch://me:secret@host/x", store)
    assert "secret" not in str(caught.value)


def test_a_folder_that_does_not_answer(store: Store, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    blobs = blob_store(str(tmp_path / "file" / "below"), store)
    with pytest.raises(BlobsDown, match="DESK_BLOB_URL"):
        blobs.put(DIGEST, b"packed")


def test_a_database_that_does_not_answer(tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path / 'without-tables.db'}")
    for act in (lambda: DatabaseBlobs(store).put(DIGEST, b""), lambda: DatabaseBlobs(store).get(DIGEST)):
        with pytest.raises(BlobsDown):
            act()
    store.close()


def test_packed_bytes_come_back_only_as_what_they_were() -> None:
    packed = pack(DATA)
    assert len(packed) < len(DATA) / 10
    assert unpack(DIGEST, packed) == DATA
    for garbled in (packed[: len(packed) // 2], b"", b"no zlib", pack(DATA + b"x")):
        assert unpack(DIGEST, garbled) is None
