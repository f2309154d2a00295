"""Telegram's updates, as far as the desk reads them: plain texts of people and presses of buttons. Whatever else comes
is counted and ignored: what a far side sends is never trusted to have its form."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

from chordesk.tasks.messengers.inbound import Incoming

_LAST = 2**62
_FORWARDED = ("forward_origin", "forward_date", "forward_from", "forward_from_chat", "via_bot", "sender_chat")


def incoming(result: Any) -> Iterator[Incoming]:
    """Yield the updates of an answer of getUpdates; one without a number is left out."""
    for one in result if isinstance(result, list) else ():
        number = _whole(one.get("update_id")) if isinstance(one, dict) else None
        if number is None:
            continue
        message, press = one.get("message"), one.get("callback_query")
        if isinstance(press, dict):
            yield _press(number, press)
        elif isinstance(message, dict):
            yield _text(number, message)
        else:
            yield Incoming(number, None, None, private=False)


def _text(number: int, message: dict[str, Any]) -> Incoming:
    user, (chat, private) = _user(message.get("from")), _chat(message.get("chat"))
    text = None if any(message.get(name) for name in _FORWARDED) else message.get("text")
    return Incoming(number, user, chat, private, at=_moment(message.get("date")), text=_clean(text))


def _press(number: int, press: dict[str, Any]) -> Incoming:
    message, data, id_ = press.get("message"), press.get("data"), press.get("id")
    chat, private = _chat(message.get("chat")) if isinstance(message, dict) else (None, False)
    return Incoming(
        number, _user(press.get("from")), chat, private, press=_clean(data), press_id=(_clean(id_) or "")[:64]
    )


def _user(found: Any) -> str | None:
    number = _whole(found.get("id")) if isinstance(found, dict) and found.get("is_bot") is not True else None
    return None if number is None else str(number)


def _chat(found: Any) -> tuple[str | None, bool]:
    number = _whole(found.get("id")) if isinstance(found, dict) else None
    return (None, False) if number is None else (str(number), found.get("type") == "private")


def _moment(found: Any) -> dt.datetime | None:
    number = _whole(found)
    if number is None or not 0 < number < 2**34:
        return None
    return dt.datetime.fromtimestamp(number, dt.UTC)


def _whole(found: Any) -> int | None:
    return found if isinstance(found, int) and not isinstance(found, bool) and abs(found) < _LAST else None


def _clean(text: Any) -> str | None:
    """Return a text as the database can keep it, without NUL and halves of characters; None for what is no text."""
    if not isinstance(text, str):
        return None
    return text.replace("\x00", " ").encode("utf-8", "replace").decode()
