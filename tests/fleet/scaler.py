"""The number of workers that KEDA and the autoscaler behind it would want, from the same figures.

The query and the division are the desk's own (`tasks.engine.demand`), as in its Kubernetes manifests. The rest is the
algorithm of the HorizontalPodAutoscaler, which KEDA drives, by the documentation of Kubernetes: of all recommendations
within the stabilisation window the highest one holds against scaling down. Left out: its tolerance of 10 % and its
limit on the steps of an interval.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from chordesk.tasks.engine.step_queries import workers_wanted


@dataclass(frozen=True, slots=True)
class Rule:
    """turns: at once of one worker, the target of the trigger. least, most: workers; poll: seconds between looks;
    settle: seconds for which a higher recommendation holds against scaling down."""

    turns: int
    least: int = 1
    most: int = 4
    poll: float = 5.0
    settle: float = 30.0


@dataclass(frozen=True, slots=True)
class Decision:
    """at: seconds, by the clock of the caller. steps: the query's answer, None when it failed. workers: how many
    there should be from now on, and were before."""

    at: float
    steps: int | None
    before: int
    workers: int
    reason: str

    @property
    def changes(self) -> bool:
        return self.workers != self.before


@dataclass(slots=True)
class Scaler:
    """A rule with the memory of its recommendations. paused: a fixed number of workers instead, as the annotation
    `autoscaling.keda.sh/paused-replicas` has it."""

    rule: Rule
    paused: int | None = None
    _recent: deque[tuple[float, int]] = field(default_factory=deque)

    def decide(self, at: float, steps: int | None, workers: int) -> Decision:
        """Return the decision at a time that is not before the last one's. steps: None when the query failed: then
        everything stays as it is. workers: how many there should be by the decision before."""
        if self.paused is not None:
            return Decision(at, steps, workers, self.paused, f"paused at {self.paused}")
        if steps is None:
            return Decision(at, None, workers, workers, "the query failed: no change")
        rule = self.rule
        wanted = workers_wanted(steps, rule.turns, rule.least, rule.most)
        highest = self._remember(at, wanted)
        shown = f"{steps} steps due or in work, {rule.turns} a worker: {wanted} wanted"
        if wanted > workers:
            return Decision(at, steps, workers, wanted, shown)
        if highest < workers:
            return Decision(at, steps, workers, highest, f"{shown}, at most {highest} for {rule.settle:g} s")
        waits = f", {highest} within the last {rule.settle:g} s" if wanted < workers else ""
        return Decision(at, steps, workers, workers, shown + waits)

    def _remember(self, at: float, wanted: int) -> int:
        """Return the highest recommendation of the window, with this one."""
        while self._recent and self._recent[0][0] < at - self.rule.settle:
            self._recent.popleft()
        self._recent.append((at, wanted))
        return max(number for _, number in self._recent)
