"""Kinds that features bring: what is stored keeps its name and is shown where its package is gone."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest
from pydantic import TypeAdapter, ValidationError

from chordesk.models import event_log, notices
from chordesk.models.database.store import Store
from chordesk.models.events import DESK, Domain, Envelope, EventType, KnownType, event
from chordesk.models.kinds import OF_NONE
from chordesk.models.notice_channels import NoticeKind, kinds_by_channel
from chordesk.models.orders import DenialCode, Denied
from chordesk.models.tables.runtime import Notice
from chordesk.tasks.cli.show.status_display import event_line
from chordesk.tools.risk.codes import meaning
from tests.parts import needs, of_feature

GONE = EventType("gone.sang")


def test_an_event_of_a_feature_that_is_gone_is_read_and_shown_and_none_is_written(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.session() as session, pytest.raises(ValueError, match=r"gone\.sang is no type of event"):
        event_log.append(session, [event(GONE, DESK)])
    with monkeypatch.context() as here, store.session() as session:
        here.setattr(EventType, "is_known", True)
        event_log.append(session, [event(GONE, DESK, song="la"), event(EventType.RUN_STARTED, DESK)])
    with store.read() as session:
        first, second = event_log.read(session, DESK, 0, 10)
    assert (first.type, first.domain, second.type) == ("gone.sang", "gone", EventType.RUN_STARTED)
    assert second.type is EventType.RUN_STARTED, "the desk's own are the same as ever"
    line = event_line(first, with_run=False).plain
    assert "gone.sang" in line
    assert OF_NONE in line
    assert OF_NONE not in event_line(second, with_run=False).plain


@needs("board")
def test_only_what_is_known_may_be_asked_for() -> None:
    asked = TypeAdapter(list[KnownType])
    assert asked.validate_python(["run", "run.started", "artifact.written"]) == [
        Domain.RUN, EventType.RUN_STARTED, EventType("artifact.written"),
    ]  # fmt: skip
    for wrong in ("gone.sang", "gone", "no such", ""):
        with pytest.raises(ValidationError):
            asked.validate_python([wrong])
    with pytest.raises(ValueError, match="'gone_sung' is no kind: write all, or some of"):
        kinds_by_channel("gone_sung")
    assert "artifact.written" in Envelope.model_json_schema()["$defs"]["EventType"]["enum"]


def test_a_notice_and_a_denial_of_a_feature_that_is_gone_have_words(store: Store) -> None:
    with store.session() as session, pytest.raises(ValueError, match="gone_sung is no kind of notice"):
        notices.note(session, Notice(key="a", kind="gone_sung", run_id=DESK))
    kept = Notice(key="a", kind="gone_sung", subject="la", run_id=DESK, occurred_at=dt.datetime.now(dt.UTC))
    wording = of_feature("chordesk.tasks.notifications.wording")
    assert f"gone sung, {OF_NONE}: la" in wording.Wording(ZoneInfo("UTC"), None).line(kept)
    assert wording.title({"gone_sung": 1}) == f"Desk: gone sung, {OF_NONE}"
    assert NoticeKind("gone_sung") in kinds_by_channel("all").of("phone"), "it is lost to no channel that has all"
    denied = Denied(code=DenialCode("gone_shy"), reason="shy", measured="1", limit="0")
    assert OF_NONE in meaning(denied.code).denies


@needs("board")
def test_what_is_off_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    assert EventType("artifact.written").note == ""
    monkeypatch.setenv("DESK_FEATURES_OFF", "board")
    assert EventType("artifact.written").note == OF_NONE
