"""A damaged append-only file is set aside with a date, and Redis starts empty."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chordesk.tasks.services.plan import Plan
from chordesk.tasks.services.redis_files import why_unreadable
from chordesk.tasks.services.stack import Stack
from tests.tasks.services.test_stack import client


def test_a_damaged_file_is_set_aside_and_said(make_plan: Callable[..., Plan]) -> None:
    made, part = make_plan(), "incr.aof"
    with Stack(made) as stack:
        client(stack).set("key", "value")
    folder = made.folders.redis
    (path,) = folder.glob(f"appendonlydir/*{part}")
    data = bytearray(path.read_bytes())
    data[2:6] = bytes(255 - byte for byte in data[2:6])
    path.write_bytes(data)
    said: list[str] = []
    with Stack(make_plan(), notify=said.append) as stack:  # a plan's folder of sockets ends with its stack
        assert client(stack).get("key") is None
    assert any("own file is damaged" in line and "starts empty" in line for line in said)
    (aside,) = folder.glob("damaged-*")
    assert next(aside.glob(f"appendonlydir/*{part}")).read_bytes() == data


@pytest.mark.parametrize(
    "line", ["1:M 28 Nov # Can't open the append-only file: Permission denied", "1:M 28 Nov # Failed listening on port"]
)
def test_what_is_no_damage_sets_nothing_aside(line: str) -> None:
    assert why_unreadable(line) is None
