"""A running desk answers the commands that only look, with what they would print themselves."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import types
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from chordesk.models.database.store import Store, upgrade
from chordesk.models.states import RunState
from chordesk.models.tables.columns import utcnow
from chordesk.tasks.cli import answering, ask_running_desk
from chordesk.tasks.cli.answering import _Code
from chordesk.tasks.cli.root import build
from chordesk.tasks.cli.shell import ANSWERED
from tests import builders
from tests.parts import has_command
from tests.patience import PATIENCE
from tests.stack import wait_for
from tests.tasks.cli.running import desk, environment

pytestmark = pytest.mark.process

SERVE = """
import sys, time
from pathlib import Path
from chordesk.tasks.cli import ask_running_desk
from chordesk.tasks.cli.answering import Answering
with Answering(Path(sys.argv[1])) as answering:
    print(answering.pid, flush=True)
    sys.stdin.read()
"""
HEAVY = ("celery", "sqlmodel", "sqlalchemy", "pydantic", "typer", "rich", "langchain_core", "structlog")
# What a command loads to look itself is not there for this one: so its answer is the desk's.
ASK = f"""
import sys
sys.modules.update(dict.fromkeys({HEAVY!r}))
from chordesk.tasks.cli import ask_running_desk
from chordesk.tasks.cli.main import main
ask_running_desk.TAKEN_SECONDS = ask_running_desk.ANSWER_SECONDS = {PATIENCE}
main()
"""
WHETHER = """
import sys
from chordesk.tasks.cli import ask_running_desk
ask_running_desk.TAKEN_SECONDS, ask_running_desk.ANSWER_SECONDS = float(sys.argv.pop(1)), 240
print(ask_running_desk.answer(sys.argv[1:]))
"""
MORE = {"ask": ["runs"]}


@dataclass(slots=True)
class Served:
    home: Path
    pid: int

    @property
    def commands(self) -> list[str]:
        return (self.home / "run" / ask_running_desk.COMMANDS).read_text().splitlines()

    def itself(self, *arguments: str, **environ: str) -> tuple[str, str, int]:
        """What a command prints that finds nobody to ask."""
        listing = self.home / "run" / ask_running_desk.COMMANDS
        aside = listing.rename(listing.with_suffix(".aside"))
        try:
            done = desk(self.home, *arguments, **environ)
        finally:
            aside.rename(listing)
        return done.stdout, done.stderr, done.returncode

    def asked(self, *arguments: str, code: str = ASK, **environ: str) -> tuple[str, str, int]:
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            env=environment(self.home, **environ), cwd=self.home, capture_output=True, text=True, timeout=PATIENCE,
            check=False,
        )  # fmt: skip
        return done.stdout, done.stderr, done.returncode

    def answers(self, *arguments: str, seconds: float = PATIENCE, **environ: str) -> bool:
        return self.asked(str(seconds), *arguments, code=WHETHER, **environ)[0].strip().endswith("0")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("desk")
    (home / "run").mkdir(mode=0o700)
    url = f"sqlite:///{home / 'desk.db'}"
    upgrade(url)
    with closing(Store(url)) as store, store.session() as session:
        builders.a_run(session, state=RunState.DONE, finished_at=utcnow())
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE, str(home)],
        env=environment(home), cwd=home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    wait_for(lambda: (home / "run" / ask_running_desk.COMMANDS).exists(), "the desk answers")
    yield Served(home, pid)
    process.communicate(timeout=PATIENCE)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_an_answer_is_what_the_command_prints_itself(served: Served) -> None:
    """Of every command that has the mark, for people and for programs, with its exit code."""
    whole: Any = get_command(build())
    for name in served.commands:
        command = whole
        for word in name.split():
            command = command.commands[word]
        assert getattr(command.callback, ANSWERED), name
        needed = [one for one in command.params if one.param_type_name == "argument" and one.required]
        arguments = [*name.split(), *MORE.get(name, ["zzz"] * len(needed))]
        assert served.asked(*arguments) == served.itself(*arguments), name
        answer, own = (look(*arguments, "--json") for look in (served.asked, served.itself))
        if own[0]:  # the fields of a row are in no order
            answer, own = ((json.loads(one[0]), *one[1:]) for one in (answer, own))
        assert answer == own, (name, answer, own)
    assert {"runs list", "runs show", "status", "orders list", "approvals"} <= set(served.commands)
    assert not {"halt", "approve", "orders", "runs adopt", "audit verify"} & set(served.commands)


def test_an_answer_is_for_the_settings_and_the_folder_of_its_caller(served: Served, tmp_path: Path) -> None:
    other = {"DESK_DATABASE_URL": f"sqlite:///{tmp_path}/other.db"}
    shown = served.asked("runs", "list", **other)
    assert shown == served.itself("runs", "list", **other)
    assert "no runs yet: no desk has run on" in shown[0]
    wrong = {"DESK_CODEX_TURNS": "many"}
    shown = served.asked("runs", "list", **wrong)
    assert shown == served.itself("runs", "list", **wrong)
    assert shown[2] == 2
    assert "DESK_CODEX_TURNS='many'" in shown[1]
    assert not (tmp_path / "other.db").exists()


def test_what_does_not_fit_is_left_to_the_command(served: Served) -> None:
    assert served.answers("runs", "list")
    assert not served.answers("runs", "list", DESK_FEATURES_OFF="board")
    assert not served.answers("runs", "list", PYTHONOPTIMIZE="1")
    assert not served.answers("runs", "list", "--limit", "none")
    assert not served.answers("runs", "list", "--help")
    assert not served.answers("approvals", "--json", "show", "x")
    assert not served.answers("halt")
    assert served.asked("halt", "--help", code=ASK.replace(repr(HEAVY), "()"))[2] == 0


def test_a_frozen_desk_holds_no_command_up(served: Served) -> None:
    os.kill(served.pid, signal.SIGSTOP)
    try:
        assert not served.answers("runs", "list", seconds=0.1)
    finally:
        os.kill(served.pid, signal.SIGCONT)
    assert served.answers("runs", "list")


def test_an_answer_is_as_wide_as_its_callers_terminal(served: Served) -> None:
    def drawn(code: str) -> bytes:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, 61, 0, 0))
        done = subprocess.run(
            [sys.executable, "-c", code, "runs", "list"],
            env=environment(served.home, TERM="xterm-256color"), cwd=served.home, stdin=theirs, stdout=theirs,
            stderr=theirs, timeout=PATIENCE, check=True,
        )  # fmt: skip
        assert done.returncode == 0
        os.close(theirs)
        text = b""
        with contextlib.suppress(OSError):  # the end of a terminal
            while part := os.read(ours, 1 << 16):
                text += part
        os.close(ours)
        return text

    itself = ASK.replace(repr(HEAVY), "()").replace("main()\n", "ask_running_desk.answer = lambda _: None\nmain()\n")
    answer = drawn(ASK)
    assert answer == drawn(itself)
    assert b"\x1b[" in answer  # colours
    assert max(map(len, re.sub(r"\x1b\[[0-9;]*m", "", answer.decode()).split("\r\n"))) == 61


HALF = ask_running_desk.TAKEN + (99).to_bytes(ask_running_desk.SIZE_BYTES, "big") + b'{"written": [[1, "half'
NOT_ONE = ask_running_desk.TAKEN + (4).to_bytes(ask_running_desk.SIZE_BYTES, "big") + b"null"


@pytest.mark.parametrize("sent", [b"", ask_running_desk.TAKEN, HALF, NOT_ONE])
def test_of_half_an_answer_nothing_is_printed(
    sent: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    run.mkdir(mode=0o700)
    (run / ask_running_desk.COMMANDS).write_text("runs list\n")
    monkeypatch.setenv("DESK_HOME", str(tmp_path))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(run / ask_running_desk.SOCKET))
        listener.listen()

        def serve() -> None:
            line, _ = listener.accept()
            with line, contextlib.suppress(OSError):
                size = int.from_bytes(line.recv(ask_running_desk.SIZE_BYTES), "big")
                json.loads(ask_running_desk.received(line, size))
                line.sendall(sent)

        thread = threading.Thread(target=serve)
        thread.start()
        assert ask_running_desk.answer(["runs", "list"]) is None
        thread.join()
    assert ask_running_desk.answer(["runs", "list"]) is None  # nobody listens
    assert capfd.readouterr() == ("", "")


def test_code_that_changed_since_it_was_loaded_answers_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "chordesk" / "some.py"
    file.parent.mkdir()
    file.touch()
    os.utime(file, (1, 1))
    module = types.ModuleType("some")
    module.__file__ = str(file)
    monkeypatch.setattr(answering.sys, "modules", {"some": module})
    monkeypatch.setattr(answering.sys, "path", [])
    code = _Code()
    assert not code.changed()
    os.utime(file, (2, 2))
    assert code.changed()


@pytest.mark.parametrize(
    ("environ", "files", "found"),
    [
        ({"DESK_HOME": "/a"}, {".env": "DESK_HOME=/b"}, "/a"),
        ({}, {".env": "# x\nexport DESK_HOME='/b'\n"}, "/b"),
        ({"DESK_CONFIG": "x.toml"}, {}, None),
        ({}, {"desk.toml": "home = '/c'"}, None),
        ({}, {".env": "DESK_MARKET=replay", "desk.toml": "market = 'replay'"}, "/data/chordesk"),
    ],
)
def test_the_home_whose_desk_is_asked(
    environ: dict[str, str], files: dict[str, str], found: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/data")
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert ask_running_desk.probable_home(environ, tmp_path) == (Path(found) if found else None)


LOOKS = [
    "runs list", "runs show", "runs show abc", "runs leaks", "watch", "report", "orders list", "orders show",
    "orders show abc", "approvals", "approvals show abc", "audit verify", "audit show", "scores", "board",
    "questions list", "questions show abc", "schedule list", "mandate", "threads list", "threads show",
    "cassette list", "notify list",
]  # fmt: skip


@pytest.mark.parametrize("line", [line for line in LOOKS if has_command(line)])
def test_where_no_desk_has_run_a_look_says_so_and_makes_nothing(line: str, tmp_path: Path) -> None:
    fresh = tmp_path / "fresh"
    done = desk(tmp_path, *line.split(), DESK_HOME=str(fresh))
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 1), done
    assert " yet: no desk has run on the database sqlite:" in done.stdout
    assert "desk up" in done.stdout
    assert not fresh.exists()
    (tmp_path / "desk.db").touch()  # an empty one is none either
    assert desk(tmp_path, *line.split()).stdout == done.stdout.replace(str(fresh), str(tmp_path))


def test_programs_read_that_there_is_nothing_too(tmp_path: Path) -> None:
    rows, one = (desk(tmp_path, "runs", what, "--json") for what in ("list", "show"))
    assert (rows.returncode, json.loads(rows.stdout)) == (0, [])
    assert (one.returncode, json.loads(one.stdout)) == (0, None)
    assert desk(tmp_path, "approve", "abcdefgh").returncode == 2  # what acts has nothing to act on
    upgrade(f"sqlite:///{tmp_path}/desk.db")
    shown = desk(tmp_path, "runs", "show")
    assert (shown.returncode, shown.stdout) == (0, "there is no run yet; start one with: desk screen\n")
