"""The row of features in `desk doctor`."""

from __future__ import annotations

from chordesk.tasks.doctor.checklist import _listed


def test_each_reason_is_told_once_with_the_number_of_its_remedy() -> None:
    one, two, three = (
        ("a is left out", "correct it"),
        ("b can keep nothing", "upgrade"),
        ("c is left out", "correct it"),
    )
    row = _listed([one, two, one, three], "board")
    assert row.detail.splitlines() == ["in force: board", f"1. {one[0]}", f"2. {two[0]}", f"3. {three[0]}"]
    assert row.remedy.splitlines() == ["1, 3. correct it", "2. upgrade"]
    alone = _listed([one], "board")
    assert (alone.detail, alone.remedy) == ("a is left out; in force: board", "correct it")
