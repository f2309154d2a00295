"""What a process keeps of a run is gone soon after the run."""

from __future__ import annotations

import weakref

from chordesk.tasks.bootstrap import Recent


class Answer:
    """To what was asked about a key."""

    def __init__(self, key: str) -> None:
        self.key = key


def test_an_answer_is_kept_for_its_time_and_no_longer() -> None:
    kept, gone = Recent(Answer, 60.0), Recent(Answer, 0.0)
    assert kept("run") is kept("run")
    first = weakref.ref(gone("run"))
    gone("another")
    assert first() is None
