"""Denials: a refusal as data, with the figure measured and the limit it broke."""

from __future__ import annotations

import datetime as dt

from chordesk.models.orders import DenialCode, Denied


def deny(code: DenialCode, reason: str, measured: str, limit: str) -> Denied:
    return Denied(code=code, reason=reason, measured=measured, limit=limit)


def format_span(length: dt.timedelta) -> str:
    """Return hours, minutes and seconds as text, so that a short remainder never reads as nothing."""
    seconds = length / dt.timedelta(seconds=1)
    sign, whole = ("-" if seconds < 0 else ""), max(1, round(abs(seconds))) if seconds else 0
    parts = ((whole // 3600, "h"), (whole // 60 % 60, "min"), (whole % 60, "s"))
    return sign + (" ".join(f"{count} {unit}" for count, unit in parts if count) or "0 h")
