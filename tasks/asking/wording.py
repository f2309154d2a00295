"""What people read of a question that the schedule or an alert asked."""

from __future__ import annotations

from chordesk.models.tables.runtime import Notice
from chordesk.models.text import one_line


def answered(notice: Notice) -> str:
    facts = notice.facts
    return f"{one_line(facts['question'], 80)}: {one_line(facts['text'])}"
