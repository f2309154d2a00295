"""Kinds of events that people are notified of, and the states of a notification."""

from __future__ import annotations

from enum import StrEnum


class NoticeKind(StrEnum):
    """What happened. Each channel gets all of them, or those that DESK_NOTIFY_KINDS names for it."""

    ORDER_WAITING = "order_waiting"  # for a person
    REQUEST_WAITING = "request_waiting"  # a model's, in the middle of a turn, for a person
    HALT = "halt"  # an account may not trade, or may only give exposure back
    RESUME = "resume"
    ORDER_UNKNOWN = "order_unknown"  # sent, without an answer of the broker
    ORDER_REJECTED = "order_rejected"
    FILL = "fill"
    RUN_FINISHED = "run_finished"  # done, or stopped by a person
    RUN_PARTIAL = "run_partial"
    RUN_FAILED = "run_failed"
    WORKER_LOST = "worker_lost"
    MODEL_PARKED = "model_parked"
    BUDGET_REACHED = "budget_reached"


# They pass through quiet hours and count toward no cap.
URGENT = frozenset({NoticeKind.HALT, NoticeKind.ORDER_UNKNOWN})
# They are sent at once, each in a message of its own, and retried for as long as their channel is set.
ALONE = frozenset({NoticeKind.HALT})
# The kind of a message in place of several that were held back.
SUMMARY = "summary"


class NotificationState(StrEnum):
    """The states of a message to one channel."""

    WAITING = "waiting"  # for the end of its window, of quiet hours, of a full hour, or for its next attempt
    SENDING = "sending"  # written before the request; what a process leaves so when it dies is sent again
    SENT = "sent"
    MERGED = "merged"  # into a summary, which `into` names
    GIVEN_UP = "given_up"


NOTIFICATION_OPEN = frozenset({NotificationState.WAITING, NotificationState.SENDING})
