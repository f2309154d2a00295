"""Experiments: backtests of the same days and names, each with settings of its own. Their arms are runs, no more."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError

from chordesk.agents.prompting import instructions, require_prompts
from chordesk.agents.role_models import require_maskable
from chordesk.agents.roles import ROLES, research_roles
from chordesk.models.errors import SettingError, UsageError
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import owner_of, snapshot, with_values
from chordesk.models.settings.schema import Owner
from chordesk.models.tables.columns import new_id
from chordesk.models.tables.runs import Run
from chordesk.tasks.worker.messages import DeskApp
from chordesk.tasks.workflows.backtest import open_backtest

# Arms by name alone: whether the models are shown whose past they judge.
READY = {"masked": {"mask": "names,dates,levels"}, "unmasked": {"mask": ""}}
ABLATED = ("research_roles", "lenses", "voices")
# Of a walk itself, the same for all arms: as options of the command, not as settings of an arm.
_OF_THE_WALK = (
    "universe", "replay_date", "market", "data", "data_prices", "starting_cash", "account", "broker", "approval",
    "trader_live", "max_orders_per_minute",
)  # fmt: skip


class Arm(NamedTuple):
    """A name, and the settings that this arm has in place of the desk's, as a user writes them."""

    name: str
    settings: Mapping[str, str]


def parsed(text: str) -> Arm:
    """Read "NAME: DESK_A=x; DESK_B=y". Without settings it is the desk as it is."""
    name, _, rest = text.partition(":")
    settings = {}
    for part in (part.strip() for part in rest.split(";") if part.strip()):
        variable, equals, value = part.partition("=")
        setting = variable.strip().upper().removeprefix("DESK_").lower()
        if not equals or setting not in Settings.model_fields:
            raise UsageError(f"--arm {text!r}: {part!r} sets nothing", remedy="write NAME: DESK_SETTING=value; ...")
        if owner_of(setting) not in (Owner.RUN, Owner.ORDERS) or setting in _OF_THE_WALK:
            reason = f"--arm {text!r}: DESK_{setting.upper()} cannot differ between arms"
            raise UsageError(reason, remedy="choose a setting of runs or of orders: `desk config` names the owners")
        settings[setting] = value.strip()
    if not name.strip():
        raise UsageError(f"--arm {text!r} has no name", remedy="write NAME: DESK_SETTING=value; ...")
    return Arm(name.strip(), settings)


def ready(names: str) -> list[Arm]:
    if unknown := [one for one in names.split(",") if one not in READY]:
        raise UsageError(f"--arms {names!r} has {', '.join(unknown)}", remedy=f"name {', '.join(READY)}, by comma")
    return [Arm(one, READY[one]) for one in names.split(",")]


def ablated(what: str, settings: Settings) -> list[Arm]:
    """Return the desk as it is, and an arm without each role, lens or voice that it has."""
    if what not in ABLATED:
        raise UsageError(f"--ablate {what!r}", remedy=f"choose among {', '.join(ABLATED)}")
    names: Sequence[str] = _in_use(what, settings)
    if len(names) < 2:
        raise UsageError(f"--ablate {what}: the desk has only {', '.join(names)}", remedy=f"set DESK_{what.upper()}")
    without = (Arm(f"without {one}", {what: ",".join(other for other in names if other != one)}) for one in names)
    return [Arm("all", {}), *without]


def _in_use(what: str, settings: Settings) -> Sequence[str]:
    if what == "research_roles":
        return research_roles(settings)
    if what == "voices":
        from chordesk.agents.board.voices import voices_of

        return tuple(voice.key for voice in voices_of(settings))
    return tuple(settings.lenses)


def open_experiment(app: DeskApp, arms: Sequence[Arm], first: dt.date, last: dt.date, **options: Any) -> list[Run]:
    """Start a backtest for each arm. options: of `open_backtest`, the same for all. Raises UsageError for fewer than
    two, for two of one name, and for two that differ in nothing, before the first starts; SettingError for a value that
    a setting refuses."""
    names = [arm.name for arm in arms]
    if len(arms) < 2 or len(set(names)) < len(names):
        raise UsageError(f"the arms are {', '.join(names) or 'none'}", remedy="give two or more, each with its name")
    require_differences(app.desk.settings, arms)
    shared = {**options, "experiment": new_id()}
    return [open_backtest(app, first, last, **shared, arm=arm.name, changes=arm.settings) for arm in arms]


def require_differences(settings: Settings, arms: Iterable[Arm]) -> None:
    seen: dict[str, str] = {}
    for arm in arms:
        try:
            used = with_values(settings, arm.settings)
        except ValidationError as error:
            first = error.errors()[0]
            reason = f"arm {arm.name}: {first['input']!r}: {first['msg']}"
            raise SettingError(reason, remedy="`desk config` has an example of each setting") from None
        require_prompts(used)
        prompts = {key: instructions(ROLES[key], used) for key in sorted(ROLES)}
        made = str(sorted({**snapshot(used), "prompts": prompts}.items()))
        require_maskable(used)
        if (other := seen.setdefault(made, arm.name)) != arm.name:
            raise UsageError(f"the arms {other} and {arm.name} differ in nothing", remedy="change a setting in one")
