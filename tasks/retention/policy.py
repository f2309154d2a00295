"""The one policy of retention: what is kept until when, by which setting, and what is never deleted.

Each table of the database has its place here. Orders with their lineage, the audit log, money, questions and that of
which scores are made are never deleted.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from chordesk.models.settings import Settings

HOUR, DAY = dt.timedelta(hours=1), dt.timedelta(days=1)
# A blob is stored before the row that names it.
UNNAMED = HOUR
# A file without a row may be one that a running turn has just been given.
LEAST_PICTURE_AGE = DAY
# Runs that ended less long ago may be looked at, traded on or gone on with at any moment.
LEAST_RUN_AGE = DAY

# Rows that belong to one run and go with it, or with it and its last trace.
RUN = frozenset({
    "run", "step", "turn", "screen_hit", "candidate", "candidate_hit", "report", "verdict", "verdict_report",
    "analysis", "decision", "trader_note", "event_batch", "event_head", "run_document_copy",
})  # fmt: skip
# How a run came to its results. It goes also from a run that is kept for its scores alone.
EVIDENCE = frozenset({
    "tool_call", "artifact", "attempt", "conversation", "runtime_turn", "runtime_item", "runtime_approval",
    "graph_checkpoint", "graph_write",
})  # fmt: skip
# Scores are made of these, together with the reports, hits and verdicts of their run.
SCORES = frozenset({
    "verdict_question", "episode_question", "signal", "signal_citation", "forecast", "karma_entry", "episode",
    "event_position", "backtest_session",
})  # fmt: skip
# A run with one of these is kept whole, with every run that it rests on.
ORDERS = frozenset({"order", "preview", "order_check", "fill", "approval"})
# Deleted by an age or a number of their own.
OF_THREADS = frozenset({"rollout", "blob"})
# Deleted with events, by their own age.
OF_EVENTS = frozenset({"notice", "notification", "notification_part"})
# Of no run: money, mandates, halts, anchors of the audit log, questions and what the desk has learned.
LASTING = frozenset({
    "account", "position", "settlement", "submitter", "trading", "mandate", "equity_mark", "reconciliation",
    "audit_anchor", "question", "question_pair", "calibration", "option_mark", "role_schedule", "thread", "sweep",
    "notification_channel", "notification_sender",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Policy:
    """The limits as of `now`: what ended or was last used before a moment goes; None keeps all.

    events_per_run: newest events that a run keeps. copies: newest copies that a thread keeps.
    """

    now: dt.datetime
    events_before: dt.datetime
    events_per_run: int
    threads_before: dt.datetime
    copies: int
    blobs_before: dt.datetime
    pictures_before: dt.datetime | None
    runs_before: dt.datetime | None


def policy_of(settings: Settings, now: dt.datetime, older_than: dt.timedelta | None = None) -> Policy:
    """Return the policy of the settings as of now; `older_than` takes the place of every age of theirs."""

    def age(days: float) -> dt.timedelta:
        return dt.timedelta(days=days) if older_than is None else older_than

    def before(days: float, least: dt.timedelta) -> dt.datetime | None:
        return now - max(age(days), least) if days or older_than is not None else None

    return Policy(
        now=now,
        events_before=now - age(settings.event_days),
        events_per_run=settings.events_per_run,
        threads_before=now - age(settings.rollout_days),
        copies=settings.rollouts_kept,
        blobs_before=now - UNNAMED,
        pictures_before=before(settings.keep_artifact_days, LEAST_PICTURE_AGE),
        runs_before=before(settings.keep_run_days, LEAST_RUN_AGE),
    )
