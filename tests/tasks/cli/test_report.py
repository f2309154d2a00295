"""`desk report` as a person types it: to the terminal, to files, and with what is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chordesk.models.database.store import Store
from tests.databases import make_database
from tests.tasks.cli.running import desk
from tests.tasks.documents.reading import read
from tests.tasks.views.chain import Chain, a_chain


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("home")
    make_database(f"sqlite:///{found / 'desk.db'}")
    return found


@pytest.fixture(scope="module")
def chain(home: Path) -> Chain:
    store = Store(f"sqlite:///{home / 'desk.db'}")
    with store.session() as session:
        made = a_chain(session)
    store.close()
    return made


def test_all_formats_come_out_to_the_terminal_or_a_file(home: Path, chain: Chain, tmp_path: Path) -> None:
    printed = desk(home, "report", chain.run_id)
    assert printed.returncode == 0, printed.stderr
    assert printed.stdout.startswith(f"<!-- chordesk.report 1 -->\n# Screen {chain.run_id}: running\n")
    written = desk(home, "report", chain.run_id, "--format", "html", "--out", str(tmp_path))
    assert written.returncode == 0, written.stderr
    path = Path(written.stdout.strip())
    assert path.parent == tmp_path
    assert "symbol-ACME" in read(path.read_text()).ids
    day = desk(home, "report", "--day", "2010-08-12", "--format", "json")
    assert json.loads(day.stdout)["kind"] == "day"
    symbol = desk(home, "report", "--symbol", "acme", "--format", "json")
    assert json.loads(symbol.stdout)["symbol"]["symbol"] == "ACME"


@pytest.mark.parametrize("command", ["runs show", "report", "orders show"])
def test_what_nobody_names_is_the_last_and_the_command_says_which(home: Path, chain: Chain, command: str) -> None:
    done = desk(home, *command.split())
    assert done.returncode == 0, done.stderr
    what, _, named = done.stderr.strip().rpartition(": ")
    assert what in ("the last run, a screen", "the last order")
    assert named[:12] in done.stdout
    assert desk(home, *command.split(), named).stderr == ""
