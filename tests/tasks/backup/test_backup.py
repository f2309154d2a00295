"""Backups and restores without a running desk: what comes back, what is refused, and what an interruption leaves."""

from __future__ import annotations

import json
import os
import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlmodel import select

from chordesk.models.database import soundness
from chordesk.models.database.blobs import digest_of, path_in_home, removed_at
from chordesk.models.database.store import Store
from chordesk.models.errors import BackupError, DeskError, UsageError
from chordesk.models.settings.sources import load_settings
from chordesk.models.tables.orders import Mandate
from chordesk.tasks.backup import making
from chordesk.tasks.backup.making import restore, verify
from chordesk.tasks.backup.places import Manifest
from chordesk.tools.orders.audit import log_path
from chordesk.tools.orders.audit_reading import check_logs, last_entries
from chordesk.tools.orders.halting import halt_file, trading_state
from tests.patience import PATIENCE
from tests.tasks.backup.kit import BY, DeskData, desk_data, filled, reseal, restored, rows

# A restore halts the desk and puts that on record.
CHANGED = frozenset({"trading", "audit_anchor", "order", "event_batch", "event_head", "mandate", "notice"})


@pytest.fixture
def data(tmp_path: Path) -> Iterator[DeskData]:
    made = filled(desk_data(tmp_path / "home"))
    yield made
    made.store.close()


@pytest.fixture
def copy(data: DeskData, tmp_path: Path) -> Path:
    data.backup(tmp_path / "copy")
    return tmp_path / "copy"


def refused(copy: Path | str, home: Path) -> str:
    """Return the message of a refused restore, which leaves the place as empty as it was."""
    with pytest.raises((BackupError, UsageError)) as caught:
        restore(load_settings({"DESK_HOME": str(home)}, home.parent), str(copy), BY)
    assert not home.exists()
    return str(caught.value)


def test_all_comes_back(data: DeskData, copy: Path, tmp_path: Path) -> None:
    done, found = restored(copy, tmp_path / "new")
    with closing(found.store):
        assert rows(found.store, CHANGED) == rows(data.store, CHANGED)
        assert (done.manifest.orders, done.manifest.open_runs, done.lines) == (2, 5, 3)
        (chain,) = check_logs(found.store, found.settings)
        assert chain.whole
        assert {line.kind for line in last_entries([chain], 1000)} >= {"opened", "denied", "restored"}
    for content in (b"one", b"two"):
        path = path_in_home(digest_of(content), "image/png")
        assert (tmp_path / "new" / path).read_bytes() == content
    gone = path_in_home(digest_of(b"gone"), "image/png")
    assert removed_at(tmp_path / "new", gone) == removed_at(data.settings.home, gone) is not None
    assert done.manifest.missing == []


def test_a_restored_desk_is_halted_and_has_no_mandate(data: DeskData, tmp_path: Path) -> None:
    data.arm()
    data.backup(tmp_path / "copy")
    done, found = restored(tmp_path / "copy", tmp_path / "new")
    with closing(found.store), found.store.read() as session:
        state, why = trading_state(session, found.settings, "paper")
        assert (str(state), "restored from the backup" in why) == ("halted", True)
        halt_file(found.settings).unlink()
        assert str(trading_state(session, found.settings, "paper")[0]) == "halted", "in the database too"
        assert {row.disarmed_by for row in session.exec(select(Mandate)).all()} == {BY}
    assert (done.halted, done.disarmed) == (["paper"], [1])


def test_no_secret_is_in_a_backup(data: DeskData, tmp_path: Path) -> None:
    data.arm()
    secret = "s3cret-that-must-not-travel"
    for name in ("desk.toml", ".env", "api.token", "codex/auth.json", "redis/appendonly.aof"):
        path = data.settings.home / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(secret)
    (data.settings.home / "mandate.key").write_text(secret)
    data.backup(tmp_path / "copy")
    files = [path for path in (tmp_path / "copy").rglob("*") if path.is_file()]
    assert len(files) > 3
    assert [path for path in files if secret.encode() in path.read_bytes()] == []


def _names(copy: Path) -> list[str]:
    return [path.relative_to(copy).as_posix() for path in sorted(copy.rglob("*")) if path.is_file()]


@pytest.mark.parametrize("how", ["a byte", "cut", "missing"])
def test_each_damaged_file_is_refused_by_its_name(how: str, data: DeskData, tmp_path: Path) -> None:
    data.halt("stop")
    data.backup(tmp_path / "copy")
    names = _names(tmp_path / "copy")
    assert {re.sub("[0-9a-f]{64}", "DIGEST", name) for name in names} == {
        "database.sqlite", "audit/audit.jsonl", "audit/chain", "HALT", "artifacts/DIGEST.png", "manifest.json",
    }  # fmt: skip
    for name in names:
        shutil.copytree(tmp_path / "copy", tmp_path / "damaged")
        path = tmp_path / "damaged" / name
        content = path.read_bytes()
        if how == "a byte":
            path.write_bytes(content[:-3] + bytes([content[-3] ^ 1]) + content[-2:])
        elif how == "cut":
            path.write_bytes(content[: len(content) // 2])
        else:
            path.unlink()
        assert name in refused(tmp_path / "damaged", tmp_path / "new"), (name, how)
        shutil.rmtree(tmp_path / "damaged")


@pytest.mark.parametrize("field", ["orders", "files"])
def test_an_altered_manifest_is_refused(field: str, copy: Path, tmp_path: Path) -> None:
    found = json.loads((copy / "manifest.json").read_text())
    found[field] = {"orders": 0, "files": found["files"][1:]}[field]
    (copy / "manifest.json").write_text(json.dumps(found))
    assert "manifest.json" in refused(copy, tmp_path / "new")


def test_a_name_that_leads_out_of_the_folder_is_refused(copy: Path, tmp_path: Path) -> None:
    made = Manifest.model_validate_json((copy / "manifest.json").read_text())
    out = made.files[0].model_copy(update={"path": "../../out"})
    forged = made.model_copy(update={"files": [*made.files, out]}).sealed()
    (copy / "manifest.json").write_text(forged.model_dump_json())
    assert "manifest.json" in refused(copy, tmp_path / "new")


def test_a_newer_schema_or_format_is_refused(copy: Path, tmp_path: Path) -> None:
    reseal(copy, revision="9999")
    assert "chordesk 0.1.0" in refused(copy, tmp_path / "new")
    reseal(copy, format=3)
    assert "format 3" in refused(copy, tmp_path / "new")


def test_a_place_that_is_not_empty_is_refused(copy: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    new.mkdir()
    (new / "desk.toml").write_text("")
    (new / "audit").mkdir()
    settings = load_settings({"DESK_HOME": str(new)}, tmp_path)
    with pytest.raises(UsageError, match="it has audit"):
        restore(settings, str(copy), BY)
    assert sorted(path.name for path in new.iterdir()) == ["audit", "desk.toml"]
    elsewhere = {
        "DESK_HOME": str(tmp_path / "other"),
        "DESK_DATABASE_URL": f"sqlite:///{tmp_path / 'home' / 'desk.db'}",
    }
    with pytest.raises(UsageError, match="is not empty"):
        restore(load_settings(elsewhere, tmp_path), str(copy), BY)
    assert not (tmp_path / "other").exists()


def test_settings_may_be_there_before_and_stay_after_a_failure(copy: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    new.mkdir()
    (new / "desk.toml").write_text("")
    (copy / "database.sqlite").write_bytes(b"")
    with pytest.raises(BackupError):
        restore(load_settings({"DESK_HOME": str(new)}, tmp_path), str(copy), BY)
    assert [path.name for path in new.iterdir()] == ["desk.toml"]


def test_a_backup_that_fails_leaves_nothing(data: DeskData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", "x")

    monkeypatch.setattr(making.shutil, "copyfile", full)
    before = sorted(tmp_path.iterdir())
    with pytest.raises(BackupError, match="No space left"):
        data.backup(tmp_path / "copy")
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("after", ["database.sqlite", "audit/audit.jsonl", "manifest.json"])
def test_a_backup_that_is_killed_leaves_nothing_that_looks_whole(
    after: str, data: DeskData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder of that name is not there; what is left beside it names itself partial, and is refused."""
    seen: list[Path] = []

    def killed() -> None:
        (partial,) = tmp_path.glob(".copy.partial-*")
        shutil.copytree(partial, tmp_path / "left")  # as the disk is when the process is no more
        seen.append(partial)

    place = {"database.sqlite": "audit_log", "audit/audit.jsonl": "halt", "manifest.json": "pictures"}[after]
    own = getattr(making._Copies, place)
    monkeypatch.setattr(making._Copies, place, lambda self: (killed(), own(self)))
    data.backup(tmp_path / "copy")
    assert seen
    assert "written last" in refused(tmp_path / "left", tmp_path / "new")


def test_rows_without_what_they_refer_to_get_no_backup(data: DeskData, tmp_path: Path) -> None:
    with data.store.engine.connect() as connection:
        connection.connection.cursor().execute("PRAGMA foreign_keys=OFF")
        connection.execute(text("delete from decision"))
        connection.commit()
    data.store.close()
    with pytest.raises(BackupError, match=r"not sound.*refers to one of decision.*keep the earlier ones"):
        data.backup(tmp_path / "copy")
    assert not (tmp_path / "copy").exists()
    assert soundness.marked(data.settings) is not None


def test_an_audit_log_that_was_whole_and_is_altered_is_refused(data: DeskData, copy: Path, tmp_path: Path) -> None:
    """By a person who also altered its SHA-256 in the manifest, and the seal."""
    path = copy / "audit" / "audit.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"denied"', b'"bought"', 1))
    reseal(copy)
    assert "the audit log of the backup is not whole: line" in refused(copy, tmp_path / "new")


def test_a_log_that_was_not_whole_is_named_and_comes_back_as_it_was(data: DeskData, tmp_path: Path) -> None:
    path = log_path(data.settings)
    path.write_bytes(path.read_bytes().replace(b'"denied"', b'"bought"', 1))
    made = data.backup(tmp_path / "copy")
    assert made.manifest.chains[0].problems
    _, found = restored(tmp_path / "copy", tmp_path / "new")
    with closing(found.store):
        assert not check_logs(found.store, found.settings)[0].whole


def test_the_log_of_another_host_is_named(data: DeskData, tmp_path: Path) -> None:
    other = desk_data(tmp_path / "trade", DESK_DATABASE_URL=data.settings.database)
    with closing(other.store):
        other.line()
        made = other.backup(tmp_path / "copy")
    assert sum("the audit log of" in text for text in made.manifest.left_out) == 1
    done, found = restored(tmp_path / "copy", tmp_path / "new")
    found.store.close()
    assert [chain.included for chain in done.manifest.chains].count(False) == 1
    assert done.lines == 2
    assert len(done.manifest.missing) == 3, "its pictures are in the other data folder"


def test_rollouts_of_a_folder_in_the_home_come_along(tmp_path: Path) -> None:
    home = tmp_path / "home"
    data = desk_data(home, DESK_BLOB_URL=str(home / "blobs"))
    digest = data.rollout(b"r" * 1000)
    data.backup(tmp_path / "copy")
    data.store.close()
    _, found = restored(tmp_path / "copy", tmp_path / "new")
    found.store.close()
    path = Path("blobs") / digest[:2] / digest
    assert (tmp_path / "new" / path).read_bytes() == (home / path).read_bytes()


def test_an_address_of_fsspec(data: DeskData, tmp_path: Path) -> None:
    address = f"memory://{tmp_path.name}/copy"
    assert data.backup(address).place == address
    with pytest.raises(UsageError, match="not empty"):
        data.backup(address)
    done, found = restored(address, tmp_path / "new")
    found.store.close()
    assert done.lines == 3
    with pytest.raises(UsageError, match="nonsense"):
        data.backup("nonsense://x")


def test_each_backup_beside_writers_is_of_one_point_in_time(data: DeskData, tmp_path: Path) -> None:
    """Three writers go on: pictures, lines of the audit log, and rollouts. Each copy has all that its rows name."""
    over, failed = threading.Event(), []

    def write(number: int) -> None:
        own = DeskData(data.settings, Store(data.settings.database))
        count = 0
        try:
            while not over.is_set():
                count += 1
                content = os.urandom(3000) + f"{number}-{count}".encode()
                (own.picture, lambda found: own.line(size=len(found)), own.rollout)[number](content)
        except DeskError as error:
            failed.append(error)
        finally:
            own.store.close()

    writers = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for one in writers:
        one.start()
    try:
        for number in range(4):
            data.backup(tmp_path / f"copy{number}")
    finally:
        over.set()
        for one in writers:
            one.join(PATIENCE)
    assert failed == []
    sizes = []
    for number in range(4):
        done, found = restored(tmp_path / f"copy{number}", tmp_path / f"new{number}")
        found.store.close()
        assert done.manifest.missing == []
        sizes.append(done.lines + done.manifest.runs)
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1], "the writers went on meanwhile"


def test_a_backup_is_verified_in_a_place_that_is_gone_afterwards(data: DeskData, copy: Path) -> None:
    before = sorted(data.settings.home.rglob("*"))
    done = verify(data.settings, str(copy), BY)
    assert done.manifest.orders > 0
    assert not Path(done.home).exists()
    assert sorted(data.settings.home.rglob("*")) == before
    (copy / "database.sqlite").write_bytes(b"x")
    with pytest.raises(BackupError, match=r"database.sqlite .* is damaged"):
        verify(data.settings, str(copy), BY)
