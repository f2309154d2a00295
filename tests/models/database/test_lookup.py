"""A row by the beginning or the end of its id."""

from __future__ import annotations

import pytest

from chordesk.models.database.lookup import ACTS, by_prefix
from chordesk.models.database.store import Store
from chordesk.models.errors import NotFound, UsageError
from chordesk.models.tables.runs import Run, Turn
from chordesk.models.text import ID_LETTERS
from tests.builders import a_run, a_step, a_turn


def test_a_row_is_found_by_the_only_beginning_of_an_id(store: Store) -> None:
    with store.session() as session:
        one, other = a_run(session, id="aaaa1"), a_run(session, id="aaaa1bc")
        assert by_prefix(session, Run, "aaaa1").id == one.id, "a whole id, though another begins so"
        assert by_prefix(session, Run, "aaaa1b").id == other.id
        with pytest.raises(UsageError, match="more than one run begins or ends with 'aaaa'"):
            by_prefix(session, Run, "aaaa")
        for wrong in ("", "%", "_" * 5, "bbbb"):
            with pytest.raises(NotFound, match=f"there is no run '{wrong}'"):
                by_prefix(session, Run, wrong)
        with pytest.raises(UsageError, match="'aaaa1b' is too little of the id of one run"):
            by_prefix(session, Run, "aaaa1b", least=ACTS)
        assert by_prefix(session, Run, "aaaa1", least=ACTS).id == one.id, "a whole id is enough, however short"
        last = a_run(session, id="0123456789abcdef")
        assert by_prefix(session, Run, last.id[-ID_LETTERS:], least=ACTS).id == last.id, "the letters beside its title"
        for wrong in (last.id[1 - ID_LETTERS :], "89abcd_f", "89%cdef"):
            with pytest.raises(NotFound):
                by_prefix(session, Run, wrong)
        a_run(session, id="f123456789abcdef")
        with pytest.raises(UsageError, match="begins or ends with '89abcdef'"):
            by_prefix(session, Run, "89abcdef")
        turn = a_turn(session, a_step(session, one), codex_turn_id="codex-1")
        assert by_prefix(session, Turn, "codex", Turn.codex_turn_id).id == turn.id
