"""The check of notifications: channels that cannot be sent to, messages that were given up, and a desk without any."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console

from chordesk.models.database.store import Store
from chordesk.models.notice_channels import NotificationState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runtime import Notification, NotificationChannel
from chordesk.tasks.cli.show.status_display import status_report
from chordesk.tasks.doctor.check import CheckStatus
from chordesk.tasks.reading.desk_status import status
from tests.builders import uninstalled
from tests.databases import make_database
from tests.tasks.doctor.test_doctor import check_context, one

NAME = "notifications"


@pytest.mark.parametrize(
    ("given", "why", "remedy"),
    [
        ({"notify_channels": "phone=nosuch://hunter2"}, "cannot read its nosuch:// URL", "correct it in DESK_NOTIFY"),
        (
            {"notify_channels": "phone=json://hunter2", "notify_kinds": "mail=halt"},
            "there is no channel 'mail'",
            "the channels are: phone",
        ),
    ],
)
def test_a_channel_that_cannot_be_sent_to_fails(tmp_path: Path, given: dict[str, str], why: str, remedy: str) -> None:
    found = one(NAME, check_context(tmp_path, **given))
    assert found.status is CheckStatus.FAIL
    assert why in found.detail
    assert remedy in found.remedy
    assert "hunter2" not in found.detail + found.remedy


def test_without_the_package_the_remedy_installs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uninstalled(monkeypatch)
    found = one(NAME, check_context(tmp_path, notify_channels="phone=json://127.0.0.1"))
    assert found.status is CheckStatus.FAIL
    assert "apprise, which is not installed" in found.detail
    assert found.remedy == "pip install 'chordesk[notify]'"


def test_a_message_that_was_given_up_is_seen_by_doctor_and_status(tmp_path: Path) -> None:
    context = check_context(tmp_path)
    make_database(context.settings.database)
    store = Store(context.settings.database)
    with store.session() as session:
        session.add(NotificationChannel(name="phone", service="ntfy", kinds=["halt"]))
        session.add(
            Notification(
                channel="phone", kind="fill", run_id="r", subject="IBM", title="Desk: An order was filled", text="x",
                tally={"fill": 1}, lines=["x"], urgent=False, state=NotificationState.GIVEN_UP, attempts=12,
                next_at=utcnow(), ended_at=utcnow(), error="error=503",
            )
        )  # fmt: skip
    store.close()
    found = one(NAME, context)
    assert (found.status, found.detail) == (
        CheckStatus.WARN,
        "no channel is set here; given up in the last 24 hours: 1 to phone",
    )
    assert "desk notify list" in found.remedy
    console = Console(width=200, record=True, file=(tmp_path / "out").open("w"))
    console.print(status_report(status(context.settings, running=False)))
    shown = console.export_text()
    assert "notifications: no process sends; 0 events wait" in shown
    assert "notifications to phone: 0 wait, 1 given up in 24 h (error=503)" in shown
