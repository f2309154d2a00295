"""Kinds of steps and of runs as data: each workflow declares its own, and code that depends on a kind reads it here,
which loads the workflows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, get_args

from chordesk.models import features
from chordesk.models.settings import Settings
from chordesk.models.states import MODES, RunMode

if TYPE_CHECKING:
    from celery import Celery

QueueName = Literal["screen", "research", "ops", "trade"]
QUEUES: tuple[QueueName, ...] = get_args(QueueName)
# What each role of worker serves, as Celery's -Q takes it.
WORKER_QUEUES = {"research": "screen,research", "ops": "ops", "trade": "trade", "all": ",".join(QUEUES)}


@dataclass(frozen=True, slots=True)
class StepSpec:
    """One kind of step: one Celery task, `desk.KIND`."""

    kind: str
    queue: QueueName
    handler: Callable[..., Any]  # does one step, as `tasks.worker.work.Handler`
    mode: RunMode | None = None  # in telemetry
    title: str = ""  # of its line in a run's progress, which has none without it
    released: Callable[..., None] | None = None  # called with the desk after a step was let go
    # opens a run for a slot of the schedule, for a task that beat sends; given the schedule's name, it returns the
    # run's id or None
    opens: Callable[[Celery, str], str | None] | None = None
    # called with the desk and a step that is to begin; returns what of its feature this process lacks, for which the
    # step then waits
    lacks: Callable[..., str | None] | None = None
    daily: tuple[str, ...] = ()  # the settings with the first times of day of what it opens
    turn: bool = False  # its handler runs a role's turn
    spine: bool = False  # a run of which every such step failed has failed
    join: bool = False  # waits for its children and takes no turn: the sweep sends it again sooner
    # how several under one parent that become ready together are sent: one by one (None), as a Celery group with
    # failures that the parent sums up in its notes, or as a flat chord with the parent as its body, of kind `body`
    fan_out: Literal["group", "chord"] | None = None
    body: str = ""
    also_in: tuple[str, ...] = ()  # kinds of runs that have such steps, besides its workflow's own
    after: str = ""  # for people: what it waits for
    # tables, besides those of every step (`run`, `step`, `attempt`) and of every turn (`turn`, `tool_call`, `artifact`)
    writes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Workflow:
    """One kind of run, and the kinds of steps that come with it."""

    kind: str
    mode: RunMode | None = None  # in telemetry; None for runs without a model
    steps: tuple[StepSpec, ...] = ()
    # called with the session and the run at its end; returns what its summary has besides, or in place of, the figures
    # of every run
    figures: Callable[..., dict[str, Any]] | None = None
    # called with the parameters and settings of a run, and the number of holdings; returns the most turns that each
    # role may have in it
    turns: Callable[[Mapping[str, Any], Settings, int], Mapping[str, int]] | None = None
    request: type[Any] | None = None  # what a program gives to start one, a `Request`
    # fields of the request with which a run makes no order; None where there are none such, or nobody says
    without_orders: Mapping[str, Any] | None = None
    by_hand: str = ""  # why a person alone starts one: neither the schedule nor what else starts runs by itself


# By name, for they lie above: the workflows.
WORKFLOWS = "chordesk.tasks.workflows"


class Kinds:
    """The kinds of runs and of steps. finish: the step that every run has."""

    def __init__(self, finish: StepSpec) -> None:
        self.runs: dict[str, Workflow] = {}
        self.steps: dict[str, StepSpec] = {finish.kind: finish}
        self.features: dict[str, str] = {}  # of the kinds of runs and steps that features add

    def add(self, workflows: Sequence[Workflow], feature: str | None = None) -> None:
        """Add kinds of runs with their steps. Raises ValueError, and adds none, where there is such a kind already."""
        runs = [workflow.kind for workflow in workflows]
        steps = [spec.kind for workflow in workflows for spec in workflow.steps]
        for noun, given, known in (("run", runs, self.runs), ("step", steps, self.steps)):
            if again := [kind for kind in given if kind in known or given.count(kind) > 1]:
                first = features.whose(self.features.get(again[0]))
                raise ValueError(f"the kind of {noun} {again[0]!r} is declared twice{first and f', first{first[1:]}'}")
        self.runs |= {workflow.kind: workflow for workflow in workflows}
        self.steps |= {spec.kind: spec for workflow in workflows for spec in workflow.steps}
        if feature is not None:
            self.features |= dict.fromkeys((*runs, *steps), feature)


@cache
def _kinds() -> Kinds:
    found: Kinds = import_module(WORKFLOWS).every_kind()
    return found


def find_step(kind: str) -> StepSpec | None:
    """Return the kind's spec; None for a kind of another version of the desk."""
    return _kinds().steps.get(kind)


def missing(kind: str) -> features.Lack | None:
    """Return why a kind of run or of step that rows have is none here, and the remedy; None where it is one."""
    off = features.switched_off("kinds", kind) is not None  # of these the workflows say nothing
    known = not off and (kind in _kinds().runs or kind in _kinds().steps)
    return None if known else features.missing("kinds", kind)


def feature_of(kind: str) -> str | None:
    """Return the feature that adds a kind of run or of step; None for the desk's own."""
    return _kinds().features.get(kind)


def steps() -> list[StepSpec]:
    """Return all kinds of steps, in the order in which a run goes through its modes."""
    return sorted(_kinds().steps.values(), key=lambda spec: MODES.index(spec.mode) if spec.mode else len(MODES))


def steps_of(run_kind: str) -> list[StepSpec]:
    """Return the kinds of steps that a kind of run may have, but for `finish`, which every run has."""
    own = _kinds().runs[run_kind].steps
    return [*own, *(spec for spec in _kinds().steps.values() if run_kind in spec.also_in)]


def task_name(kind: str) -> str:
    return f"desk.{kind}"


SCHEDULED = task_name("scheduled")  # from beat: an entry of the schedule with days or a request of its own


def kinds_of(wanted: Callable[[StepSpec], bool]) -> tuple[str, ...]:
    return tuple(spec.kind for spec in _kinds().steps.values() if wanted(spec))


def grouped() -> tuple[str, ...]:
    """Return the kinds of steps that are sent as a group."""
    return kinds_of(lambda spec: spec.fan_out == "group")


def mode_of_step(kind: str) -> RunMode | None:
    return spec.mode if (spec := _kinds().steps.get(kind)) is not None else None


def run_kinds() -> tuple[str, ...]:
    return tuple(_kinds().runs)


def workflow_of(kind: str) -> Workflow | None:
    """Return a kind of run; None where nothing here declares it."""
    return _kinds().runs.get(kind)


def scheduled() -> dict[str, StepSpec]:
    """Return the kinds of runs that have a first time of day in the settings or may be scheduled without a request,
    each with the step whose task opens its run."""
    of_runs = ((workflow.kind, spec) for workflow in _kinds().runs.values() for spec in workflow.steps)
    return {kind: spec for kind, spec in of_runs if spec.opens is not None}


def requests() -> tuple[type[Any], ...]:
    return tuple(workflow.request for workflow in _kinds().runs.values() if workflow.request is not None)


def figures_of(kind: str) -> Callable[..., dict[str, Any]] | None:
    return workflow.figures if (workflow := _kinds().runs.get(kind)) is not None else None


def turns_of(kind: str, params: Mapping[str, Any], settings: Settings, held: int = 0) -> Mapping[str, int]:
    """Return the most turns of each role in a run of a kind; none of a kind whose turns are not known beforehand. held:
    the number of holdings."""
    workflow = _kinds().runs.get(kind)
    if workflow is None or workflow.turns is None:
        return {}
    found = dict(workflow.turns(params, settings, held))
    for feature, count in features.entries("turn_counts", kind, Callable):
        found |= features.call(feature, count, params, settings, held)
    return found


def mode_of_run(kind: str) -> RunMode | None:
    return workflow.mode if (workflow := _kinds().runs.get(kind)) is not None else None
