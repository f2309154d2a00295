"""A `.env` that is changed keeps all that nobody asked to change."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.models.errors import UsageError
from chordesk.tasks.cli.setup import command
from chordesk.tasks.cli.setup.command import Change, changed, changes, values

MINE = """# my desk
export DESK_PROVIDER=codex   # the plan of the firm

DESK_SHARD_SIZE=99
no variable at all
DESK_MODEL='gpt-5.5'
OTHER="two
lines"
"""


def test_single_values_change_and_all_else_stays() -> None:
    after = changed(MINE, {"DESK_PROVIDER": "local", "DESK_PROVIDER_URL": "http://127.0.0.1:1/v1", "DESK_MODEL": None})
    assert after == MINE.replace("codex ", "local ").replace("DESK_MODEL='gpt-5.5'\n", "") + (
        "DESK_PROVIDER_URL=http://127.0.0.1:1/v1\n"
    )
    assert changes(MINE, after) == [
        Change("DESK_PROVIDER", "codex", "local"),
        Change("DESK_PROVIDER_URL", None, "http://127.0.0.1:1/v1"),
        Change("DESK_MODEL", "gpt-5.5", None),
    ]
    assert command.unread(MINE) == [5]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "A=new\n"),
        ("B=1", "B=1\nA=new\n"),
        ("\n\n", "\n\nA=new\n"),
        ("A=", "A=new"),
        ("A= # empty\n", "A=new # empty\n"),
        ("A=#old\r\nB=1\r\n", "A=new\r\nB=1\r\n"),
        ("B=1\r\n", "B=1\r\nA=new\r\n"),
        ("A=first\nA=last\n", "A=first\nA=new\n"),
        ('A = "old # no comment" # one\n', "A = new # one\n"),
        ("A='it\\'s'\n", "A=new\n"),
        ("A\n", "A=new\n"),
        ("\ufeffA=old\n", "\ufeffA=new\n"),
    ],
)
def test_a_line_is_changed_where_it_stands(before: str, after: str) -> None:
    assert changed(before, {"A": "new"}) == after
    assert changed(after, {"A": "new"}) == after


LINES = st.sampled_from(
    ("A=1", "export A=2 # why", "A=", "A", "# note", "", "B='x y'", 'C="1\n2"', "??", "=", "D='open", "B=2", "'A'=3")
)


VALUES = (None, "new", "a b", "it's", "back\\slash", "# no comment", 'say "yes"', "$HOME", "x\\")


@given(st.lists(LINES, max_size=8), st.sampled_from(("\n", "\r\n")), st.sampled_from(VALUES))
def test_whatever_the_file_other_variables_stay_and_a_second_time_changes_nothing(
    lines: list[str], end: str, value: str | None
) -> None:
    text = end.join(lines)
    try:
        after = changed(text, {"A": value})
    except UsageError:
        assert "D='open" in text
        return
    old, new = values(text), values(after)
    assert (new.pop("A", None) or None) == value
    old.pop("A", None)
    assert new == old
    assert changed(after, {"A": value}) == after


def test_a_file_that_cannot_be_changed_safely_is_refused(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    assert command.read_env_file(path) == ""
    path.mkdir()
    with pytest.raises(UsageError, match="not a regular file"):
        command.read_env_file(path)
    (tmp_path / "link").symlink_to(tmp_path / "own")
    with pytest.raises(UsageError, match=f"is a link to {tmp_path / 'own'}.*--env"):
        command.read_env_file(tmp_path / "link")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="not a regular file"):
        command.read_env_file(tmp_path / "pipe")
    for content, why in ((b"\xff\xfe", "no UTF-8 text"), (b"A=\0", "zero byte")):
        (tmp_path / "broken").write_bytes(content)
        with pytest.raises(UsageError, match=why):
            command.read_env_file(tmp_path / "broken")


def test_the_file_of_a_folder_is_the_nearest_one_upward(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / ".env").touch()
    assert command.find_env_file(inner) == tmp_path / ".env"
    (inner / ".env").touch()
    assert command.find_env_file(inner) == inner / ".env"


def test_a_new_file_and_a_secret_are_for_their_owner_alone_and_a_known_one_keeps_its_rights(tmp_path: Path) -> None:
    new, known, secret = tmp_path / "new" / ".env", tmp_path / ".env", tmp_path / "keys" / "one.key"
    known.touch(0o640)
    known.chmod(0o640)
    for path in (new, known):
        command.write_env_file(path, "A=1\r\n")
        assert path.read_bytes() == b"A=1\r\n"
    command.write_secret(secret, "sk-1")
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (new, known, secret, secret.parent)]
    assert modes == [0o600, 0o640, 0o600, 0o700]
    assert secret.read_text() == "sk-1\n"
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot be written"):
        command.write_env_file(tmp_path / "file" / ".env", "")
