"""`desk ask` without a question, on a terminal: one question after the other, in one dialogue."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlmodel import col, select

from chordesk.models.asking.tables import AskingEntry
from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.tasks.asking import commands


def test_questions_of_a_terminal_are_of_one_dialogue_and_a_fault_ends_none_of_the_others(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed = iter(["schedule", "  ", "a" * 20_001, "waiting", EOFError()])

    def read(prompt: str) -> str:
        found = next(typed)
        if isinstance(found, EOFError):
            raise found
        return found

    monkeypatch.setattr("builtins.input", read)
    settings = Settings(home=tmp_path, market="replay", provider="rulebook")
    commands._talk(settings, store, None, model=False, new=True, budget=None)
    with store.read() as session:
        kept = session.exec(select(AskingEntry).order_by(col(AskingEntry.id))).all()
    assert [one.intent for one in kept] == ["schedule", "waiting"]
    assert len({one.dialogue for one in kept}) == 1
    assert "the question has 20,001 characters; ask with at most 20,000" in capsys.readouterr().err
    assert list(typed) == []
