"""A gauge, and what was read of several at one time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily


@dataclass(frozen=True, slots=True)
class Gauge:
    """One gauge. what: its meaning; labels: their names."""

    name: str
    what: str
    labels: tuple[str, ...] = ()


# The values of gauges by the values of their labels. What is not known is not there.
Reading = Mapping[Gauge, Mapping[tuple[str, ...], float]]


def families(reading: Reading) -> Iterator[GaugeMetricFamily]:
    """Yield the gauges as the client library takes them."""
    for gauge, values in reading.items():
        family = GaugeMetricFamily(gauge.name, gauge.what, labels=gauge.labels)
        for labels, value in values.items():
            family.add_metric(labels, value)
        yield family
