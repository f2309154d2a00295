"""The desk's gauges that Redis has: messages by queue, parked models, reserved turns."""

from __future__ import annotations

import redis

from chordesk.tasks.engine.kinds import QUEUES
from chordesk.tasks.engine.limits.admission import parked_models, turns_in_flight, turns_waiting
from chordesk.tasks.telemetry.gauges.gauge import Gauge, Reading

UNACKED = "unacked"  # kombu's hash of the messages that workers hold
MESSAGES = Gauge("desk_queue_messages", "Messages that wait in Redis for a worker.", ("queue",))
HELD = Gauge("desk_messages_held", "Messages that workers hold.")
PARKED = Gauge("desk_models_parked", "Models on which no turn starts for now, because the provider limits its rate.")
PARKED_FOR = Gauge("desk_model_parked_seconds", "Time until turns may start again on a parked model.", ("model",))
RESERVED = Gauge("desk_turns_reserved", "Turns in flight by model, where they are limited.", ("model",))
WAITING = Gauge("desk_turns_waiting", "Turns that wait for a place by model, where they are limited.", ("model",))
GAUGES = (MESSAGES, HELD, PARKED, PARKED_FOR, RESERVED, WAITING)


def read_broker(client: redis.Redis) -> Reading:
    """Return the gauges as Redis has them now. Raises redis.RedisError."""
    parked = parked_models(client)
    return {
        MESSAGES: {(queue,): int(client.llen(queue)) for queue in QUEUES},
        HELD: {(): int(client.hlen(UNACKED))},
        PARKED: {(): len(parked)},
        PARKED_FOR: {(one.model,): one.seconds for one in parked},
        RESERVED: {(model,): count for model, count in turns_in_flight(client).items()},
        WAITING: {(model,): count for model, count in turns_waiting(client).items()},
    }
