"""Views of runs."""

from __future__ import annotations

import pytest
from sqlmodel import Session

from chordesk.models.errors import UsageError
from chordesk.tasks.reading.runs import find_run
from tests.tasks.views.chain import Chain


def test_a_run_is_found_by_the_beginning_of_its_id(session: Session, chain: Chain) -> None:
    assert find_run(session, chain.run_id[:24]).id == chain.run_id
    with pytest.raises(UsageError, match=f"more than one run begins with '{chain.run_id[:2]}'"):
        find_run(session, chain.run_id[:2])
    for wrong in ("%", "_" * 32, "x"):
        with pytest.raises(UsageError, match="there is no run"):
            find_run(session, wrong)
