"""Slack's envelopes, as far as the desk reads them: plain texts of people in direct messages, presses of buttons, and
slash commands. Whatever else comes is ignored: what a far side sends is never trusted to have its form.

A person is a user of a workspace, written TEAM:USER, so that nobody of another workspace is taken for them. An update
has no number: it gets one from what Slack calls it, so that a repeat of it has the same.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import html
import re
from typing import Any

from chordesk.tasks.messengers.inbound import Incoming

_LINK = re.compile(r"<([^<>|]*)(?:\|([^<>]*))?>")
_ID = re.compile(r"[A-Z0-9]{2,32}")
DESK = "/desk"  # a slash command whose text is what is written


def incoming(envelope: dict[str, Any], team: str) -> Incoming | None:
    """Return the update of an envelope; None for what people did not write in this workspace."""
    payload = envelope.get("payload")
    if not isinstance(payload, dict):
        return None
    reader = {"events_api": _event, "interactive": _press, "slash_commands": _slash}.get(str(envelope.get("type")))
    return reader(payload, team) if reader is not None else None


def _event(payload: dict[str, Any], team: str) -> Incoming | None:
    event, id_ = payload.get("event"), payload.get("event_id")
    if not isinstance(event, dict) or event.get("type") != "message" or payload.get("team_id") != team:
        return None
    number = _number("event", id_)
    if number is None or event.get("subtype") is not None or event.get("bot_id") is not None or event.get("files"):
        return None  # edits, joins, bots and files are no plain text of a person
    if event.get("user_team", team) != team or event.get("team", team) != team:
        return None
    channel, user = _name(event.get("channel")), _name(event.get("user"))
    text = event.get("text")
    if channel is None or user is None or not isinstance(text, str):
        return None
    private = event.get("channel_type") == "im" and channel.startswith("D")
    at = _moment(event.get("ts")) or _moment(payload.get("event_time"))
    return Incoming(number, f"{team}:{user}", channel, private, at=at, text=plain(text))


def _press(payload: dict[str, Any], team: str) -> Incoming | None:
    actions, user, where = payload.get("actions"), payload.get("user"), payload.get("channel")
    if payload.get("type") != "block_actions" or not isinstance(user, dict) or not isinstance(where, dict):
        return None
    if not isinstance(actions, list) or len(actions) != 1 or not isinstance(actions[0], dict):
        return None
    of_team = payload.get("team")
    if not isinstance(of_team, dict) or of_team.get("id") != team or user.get("team_id", team) != team:
        return None
    value, at = actions[0].get("value"), actions[0].get("action_ts")
    name, channel = _name(user.get("id")), _name(where.get("id"))
    number = _number("press", f"{at}/{name}/{value}") if isinstance(value, str) and at else None
    if number is None or name is None or channel is None or not isinstance(value, str):
        return None
    private = channel.startswith("D")
    moment = _moment(at) or dt.datetime.fromtimestamp(0, dt.UTC)  # without its time it is old
    return Incoming(number, f"{team}:{name}", channel, private, at=moment, press=value[:255], press_id="")


def _slash(payload: dict[str, Any], team: str) -> Incoming | None:
    user, channel = _name(payload.get("user_id")), _name(payload.get("channel_id"))
    command, text = payload.get("command"), payload.get("text") or ""
    number = _number("slash", payload.get("trigger_id"))
    if payload.get("team_id") != team or user is None or channel is None or number is None:
        return None
    if not isinstance(command, str) or not isinstance(text, str):
        return None
    whole = plain(text) if command == DESK else f"{command} {plain(text)}"
    return Incoming(number, f"{team}:{user}", channel, channel.startswith("D"), text=whole.strip(), at=None)


def plain(text: str) -> str:
    """Return a text as the person wrote it: Slack writes links and names between < and >, and escapes those."""
    found = _LINK.sub(_written, text)
    return html.unescape(found).replace("\x00", " ").encode("utf-8", "replace").decode()


def _written(link: re.Match[str]) -> str:
    """Return what was typed of a link that Slack made of it, and of one with a text of its own its address: no text of
    somebody else's link is a command."""
    address, label = link[1], link[2]
    if label is not None and address.endswith(label):
        return label
    return address if address[:1] in "@#!" or ":" in address else link[0]


def _number(kind: str, id_: Any) -> int | None:
    """Return a number below 2**62 of what Slack calls an update."""
    if not isinstance(id_, str) or not 0 < len(id_) <= 2_000:
        return None
    digest = hashlib.sha256(f"{kind}/{id_}".encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:8], "big") >> 2


def _name(found: Any) -> str | None:
    return found if isinstance(found, str) and _ID.fullmatch(found) else None


def _moment(found: Any) -> dt.datetime | None:
    try:
        seconds = float(found)
        return dt.datetime.fromtimestamp(seconds, dt.UTC) if 0 < seconds < 2**34 else None
    except (TypeError, ValueError, OverflowError):
        return None
