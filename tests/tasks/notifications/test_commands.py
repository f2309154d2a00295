"""`desk notify` as people use it: the test of channels, the record, and clear errors for what is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases import make_database
from tests.fakes.channel import FakeChannel
from tests.tasks.cli.running import desk


@pytest.fixture
def far() -> Iterator[FakeChannel]:
    with FakeChannel() as found:
        yield found


@pytest.fixture
def home(tmp_path: Path) -> Path:
    make_database(f"sqlite:///{tmp_path / 'home' / 'desk.db'}")
    return tmp_path / "home"


def test_a_test_prints_what_each_channel_answered(home: Path, far: FakeChannel) -> None:
    far.status["mail"] = [500]
    given = {"DESK_NOTIFY_CHANNELS": f"{far.variable('phone', 'mail')} gone=json://127.0.0.1:1/hunter2path"}
    done = desk(home, "notify", "test", **given)
    assert done.returncode == 1, done.stderr
    phone, mail, gone = done.stdout.splitlines()[1:]
    assert phone.split() == ["phone", "JSON", "sent"]
    assert "not sent" in mail
    assert "500" in mail
    assert "not sent" in gone
    assert "127.0.0.1" in gone
    assert "hunter2" not in done.stdout + done.stderr
    assert [one.title for one in far.of("phone")] == ["Desk: a test"]
    one = desk(home, "notify", "test", "phone", "--json", **given)
    assert one.returncode == 0
    assert json.loads(one.stdout) == [{"channel": "phone", "service": "JSON", "sent": True, "error": None}]


def test_a_desk_with_a_wrong_channel_does_not_start(home: Path) -> None:
    done = desk(home, "up", DESK_NOTIFY_CHANNELS="phone=json://127.0.0.1 mail=nosuch://hunter2")
    assert done.returncode == 2, done.stdout
    assert "the channel mail: apprise cannot read its nosuch:// URL" in done.stderr
    assert "correct it in DESK_NOTIFY_CHANNELS" in done.stderr
    assert "hunter2" not in done.stdout + done.stderr
