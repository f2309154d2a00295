"""A row by the beginning of its id."""

from __future__ import annotations

import pytest

from chordesk.models.database.lookup import ACTS, by_prefix
from chordesk.models.database.store import Store
from chordesk.models.errors import NotFound, UsageError
from chordesk.models.tables.runs import Run, Turn
from tests.builders import a_run, a_step, a_turn


def test_a_row_is_found_by_the_only_beginning_of_an_id(store: Store) -> None:
    with store.session() as session:
        one, other = a_run(session, id="aaaa1"), a_run(session, id="aaaa1bc")
        assert by_prefix(session, Run, "aaaa1").id == one.id, "a whole id, though another begins so"
        assert by_prefix(session, Run, "aaaa1b").id == other.id
        with pytest.raises(UsageError, match="more than one run begins with 'aaaa'"):
            by_prefix(session, Run, "aaaa")
        for wrong in ("", "%", "_" * 5, "bbbb"):
            with pytest.raises(NotFound, match=f"there is no run '{wrong}'"):
                by_prefix(session, Run, wrong)
        with pytest.raises(UsageError, match="'aaaa1b' is too little of the id of one run"):
            by_prefix(session, Run, "aaaa1b", least=ACTS)
        assert by_prefix(session, Run, "aaaa1", least=ACTS).id == one.id, "a whole id is enough, however short"
        turn = a_turn(session, a_step(session, one), codex_turn_id="codex-1")
        assert by_prefix(session, Turn, "codex", Turn.codex_turn_id).id == turn.id
