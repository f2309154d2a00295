"""The texts of channels, kinds and quiet hours, and what is wrong with them, at the start of any process."""

from __future__ import annotations

from pathlib import Path

import pytest

from chordesk.models.errors import SettingError
from chordesk.models.notice_channels import NoticeKind, QuietHours, channel_urls, kinds_by_channel, quiet_by_channel
from chordesk.models.settings.sources import load_settings


def test_channels_are_separated_by_spaces_or_lines_and_may_have_comments() -> None:
    text = "# mine\nphone=ntfy://topic?a=b  mail=mailto://me:pw@example.com\n  # no=json://more\nops=json://h/x=y"
    assert channel_urls(text) == {
        "phone": "ntfy://topic?a=b",
        "mail": "mailto://me:pw@example.com",
        "ops": "json://h/x=y",
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no channel"),
        ("# phone=ntfy://x", "no channel"),
        ("phone", "entry 1 is no channel"),
        ("ntfy://hunter2", "entry 1 is no channel"),
        ("phone=hunter2", "entry 1 is no channel"),
        ("a=json://x phone= ntfy://hunter2", "entry 2 is no channel"),
        ("My Phone=ntfy://hunter2", "entry 1 is no channel"),
        ("Phone=ntfy://hunter2", "'Phone' is no name"),
        ("a=json://hunter2 a=json://hunter2", "the channel a is there twice"),
    ],
)
def test_a_text_that_is_no_channel_is_named_without_its_url(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why) as error:
        channel_urls(text)
    assert "hunter2" not in str(error.value)


def test_kinds_are_for_all_channels_or_for_one() -> None:
    found = kinds_by_channel("halt,fill; mail=all ;phone=halt")
    assert found.of("phone") == {NoticeKind.HALT}
    assert found.of("mail") == set(NoticeKind)
    assert found.of("other") == {NoticeKind.HALT, NoticeKind.FILL}
    assert kinds_by_channel("phone=halt").of("mail") == set(NoticeKind)


def test_quiet_hours_are_for_all_channels_or_for_one() -> None:
    found = quiet_by_channel("22:00-07:00;mail=off")
    assert found.of("phone") == QuietHours.parse("22:00-07:00")
    assert found.of("mail") is None
    assert quiet_by_channel("off").of("phone") is None


@pytest.mark.parametrize(
    ("variable", "value", "why"),
    [
        ("KINDS", "phone=hallt", "'hallt' is no kind: write all, or some of order_waiting"),
        ("KINDS", "halt;fill", "'fill' is a second one for all channels"),
        ("KINDS", "phone=halt;phone=fill", "the channel phone is there twice"),
        ("QUIET", "22:00", "'22:00' are no hours: write HH:MM-HH:MM"),
        ("QUIET", "phone=25:00-07:00", "'25:00-07:00' are no hours"),
        ("QUIET", "PHONE=22:00-07:00", "'PHONE' is no name of a channel"),
        ("ZONE", "Mars/Olympus", "is no time zone: write a name such as Europe/Berlin"),
        ("ZONE", "../../etc/passwd", "is no time zone"),
        ("CHANNELS", "phone=hunter2", r"\*{8} \(from environment\): entry 1 is no channel"),
    ],
)
def test_a_wrong_setting_is_one_error_that_names_it(tmp_path: Path, variable: str, value: str, why: str) -> None:
    with pytest.raises(SettingError, match=why) as error:
        load_settings({"DESK_HOME": str(tmp_path), f"DESK_NOTIFY_{variable}": value}, tmp_path)
    assert f"DESK_NOTIFY_{variable}=" in str(error.value)
    assert "hunter2" not in str(error.value)
    assert error.value.remedy
