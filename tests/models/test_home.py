"""A process keeps to its data folder: moved, replaced, emptied, copied and put back."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from chordesk.models import home, shortages
from chordesk.models.database.store import Store, open_current
from chordesk.models.errors import DatabaseDown, UsageError
from chordesk.models.files import replacing
from chordesk.models.settings import Settings
from chordesk.tasks.services.plan import prepare_folders
from chordesk.tools.orders import halting
from tests.databases import make_database


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "desk"
    make_database(url(folder))
    home.claim(folder)
    home.keep(folder)
    yield folder
    home.forget()


def url(folder: Path) -> str:
    return f"sqlite:///{folder / 'desk.db'}"


def desk(store: Store) -> str:
    with store.read() as session:
        return str(session.connection().exec_driver_sql("select desk from identity").scalar_one())


def other(folder: Path) -> str:
    """Put the data folder of another desk there, with rows that are in its write-ahead log alone."""
    make_database(url(folder))
    home.claim(folder)
    store = Store(url(folder))
    with store.session() as session:
        session.connection().exec_driver_sql("update identity set desk = 'another'")
    shutil.copytree(folder, folder.with_name("kept"))  # as after a kill: a close would take the log in
    store.close()
    shutil.rmtree(folder)
    folder.with_name("kept").rename(folder)
    return "another"


@pytest.mark.parametrize("how", ["moved", "emptied", "made anew", "replaced"])
def test_nothing_is_made_or_read_at_the_path_of_a_folder_that_is_away(kept: Path, how: str) -> None:
    settings, aside = Settings(home=kept), kept.with_name("aside")
    store = open_current(url(kept))
    before = desk(store)
    kept.rename(aside)
    if how == "replaced":
        home.forget()
        other(kept)
        home.keep(kept, {home.VARIABLE: str(home.read(aside).id)})  # type: ignore[union-attr]
    elif how != "moved":
        (kept / "codex" if how == "made anew" else kept).mkdir(parents=True)
    there = sorted(kept.rglob("*")) if kept.exists() else None
    with pytest.raises(OperationalError, match="data folder"):
        desk(store)
    with pytest.raises(OSError, match="data folder"), replacing(kept / "run" / "services.json"):
        pass
    with pytest.raises(OSError, match="data folder"):
        home.make_folder(kept / "artifacts" / "a")
    (short,) = [one for one in shortages.shortages(settings) if one.what == shortages.HOME]
    assert short.out
    assert "no order is sent" in str(short)
    assert halting.is_filed(settings), "of a folder that is away nobody knows whether it has a HALT file"
    store.close()
    assert (sorted(kept.rglob("*")) if kept.exists() else None) == there
    if how == "replaced":
        home.forget()
        assert desk(open_current(url(kept))) == "another", "its write-ahead log is there"
        return
    shutil.rmtree(kept, ignore_errors=True)
    aside.rename(kept)
    assert desk(open_current(url(kept))) == before
    assert home.why_away(kept) is None


def test_an_open_store_goes_on_when_the_folder_or_a_copy_of_it_is_back(kept: Path) -> None:
    store, aside = open_current(url(kept)), kept.with_name("aside")
    before = desk(store)
    kept.rename(aside)
    shutil.copytree(aside, kept)
    assert desk(store) == before
    assert home.put_back_as_copy(kept, home.read(kept))  # type: ignore[arg-type]
    with store.session() as session:
        session.connection().exec_driver_sql("update identity set desk = 'written to the copy'")
    assert desk(open_current(url(kept))) == "written to the copy"
    assert desk(open_current(url(aside))) == before


def test_a_copy_is_named_and_a_moved_folder_is_not(kept: Path) -> None:
    home.forget()
    known = home.read(kept)
    copy = kept.with_name("copy")
    shutil.copytree(kept, copy)
    with pytest.raises(UsageError, match=f"is a copy of {kept}") as refused:
        home.claim(copy)
    assert "desk db renew" in str(refused.value.remedy)
    assert home.read(copy) == known, "a refusal writes nothing"
    assert home.claim(kept) == known, "the folder that was copied goes on"
    moved = kept.rename(kept.with_name("moved"))
    assert known is not None
    assert (home.claim(moved).id, home.claim(moved).path) == (known.id, str(moved))
    home.renew(copy)
    assert home.claim(copy).id != known.id


def test_no_command_makes_a_database_but_an_upgrade(tmp_path: Path) -> None:
    with pytest.raises(OperationalError):
        desk(Store(url(tmp_path / "nowhere")))
    assert not (tmp_path / "nowhere").exists()


def test_a_path_that_is_no_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "unmounted")
    for name, why in (("file", "is not a folder"), ("link", "is a link to .*unmounted, which is not there")):
        with pytest.raises(DatabaseDown, match=why):
            open_current(url(tmp_path / name))
        with pytest.raises(UsageError, match=why):
            prepare_folders(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]
