"""Random sequences of settings in two terminals: the value shown, the value used and the value that a run keeps are the
running desk's, or the terminal is refused with both values."""

from __future__ import annotations

import fcntl
import json
import random
from pathlib import Path
from typing import Any

import pytest

from chordesk.models.errors import SettingError
from chordesk.models.settings import Settings, running_desk
from chordesk.models.settings.running_desk import PUBLISHED, in_run, owner_of, plain, snapshot
from chordesk.models.settings.schema import Owner
from chordesk.models.settings.sources import load
from chordesk.models.settings.variables import PINNED_VARIABLE

SEQUENCES = 300
# What the schema does not say of a text, and values that fit together whichever are chosen.
TEXTS = {
    "provider": ("rulebook", "codex"),
    "step_deadline_seconds": ("1600", "1800"),
}
SCHEMA = Settings.model_json_schema()["properties"]


def choices(name: str) -> tuple[str, ...]:
    """Return values that a variable may have."""
    if name in TEXTS:
        return TEXTS[name]
    (kind, *_) = [one for one in SCHEMA[name].get("anyOf", [SCHEMA[name]]) if one.get("type") != "null"]
    if kind["type"] == "boolean":
        return ("true", "no", "1", "false")
    if "enum" in kind:
        return tuple(kind["enum"])
    if kind["type"] not in ("integer", "number"):
        info = Settings.model_fields[name]
        usual = ",".join(info.default) if isinstance(info.default, tuple) else str(info.default or "")
        return (*(info.examples or ()), usual)
    low = kind.get("minimum", kind.get("exclusiveMinimum", 0) + (1 if kind.get("maximum") != 1 else 0.125))
    high = min(kind.get("maximum", low + 20), low + 20)
    return (str(low), str(high), str(float(low)) if kind["type"] == "number" else str(low + 1))


def some(chance: random.Random, most: int) -> dict[str, str]:
    """Return variables of a terminal, for some of the desk's own settings."""
    names = chance.sample(PUBLISHED, chance.randint(0, most))
    found = {f"DESK_{name.upper()}": chance.choice(choices(name)) for name in names if name != "trader_live"}
    return {**found, **({"TRADER_LIVE": chance.choice("01")} if "trader_live" in names else {})}


def same_value(name: str, one: str, other: Any) -> bool:
    """Return whether a variable's text means the desk's value."""
    field = "trader_live" if name == "TRADER_LIVE" else name.removeprefix("DESK_").lower()
    given = one == "1" if field == "trader_live" else one
    return bool(snapshot(Settings(**{field: given}))[field] == other[field])


def terminal(environ: dict[str, str], folder: Path) -> Settings | str:
    """Return a terminal's settings, or the error with which it is refused."""
    try:
        return load(environ, folder).settings
    except SettingError as error:
        return str(error)


def counts(name: str, desk: Settings) -> bool:
    """Return whether a variable has an effect with the desk's provider and market."""
    own = desk.market == "files"
    needed = {
        "DESK_PROVIDER_URL": desk.provider in ("endpoint", "local"),
        "DESK_REPLAY_DATE": desk.market in ("replay", "files"),
        "DESK_DATA": own,
        "DESK_DATA_PRICES": own,
    }
    return needed.get(name, True)


@pytest.mark.long
def test_shown_used_and_kept_settings_agree_in_random_sequences(tmp_path: Path) -> None:
    (tmp_path / ".env").touch()
    (tmp_path / "desk.toml").touch()
    lock = running_desk.lock_path(tmp_path)
    lock.parent.mkdir(parents=True)
    own = {"DESK_HOME": str(tmp_path)}
    refused = agreed = 0
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        for seed in range(SEQUENCES):
            chance = random.Random(seed)
            first = some(chance, 12)
            desk = load({**own, **first}, tmp_path, join=False).settings
            running_desk.write(tmp_path, snapshot(desk))
            # A worker that the desk started; in its folder a file has come to stand meanwhile.
            pinned = {PINNED_VARIABLE: json.dumps(plain(desk)), "TRADER_LIVE": "1" if desk.trader_live else "0"}
            worker = load({**own, **some(chance, 5), **pinned}, tmp_path, own_switch=True).settings
            second = {**some(chance, 3), **dict(chance.sample(sorted(first.items()), min(len(first), 3)))}
            second = second if chance.random() < 0.7 else {key: first[key] for key in second if key in first}
            differs = [
                name for name, value in second.items()
                if value and not same_value(name, value, snapshot(desk)) and counts(name, desk)
            ]  # fmt: skip
            shell = terminal({**own, **second}, tmp_path)
            if isinstance(shell, str):
                assert differs, (seed, shell)
                assert all(f"{name}=" in shell for name in differs), (seed, differs, shell)
                refused += 1
                continue
            assert differs == [], (seed, differs)
            shown, kept, ours = snapshot(shell), snapshot(shell), snapshot(desk)
            assert snapshot(worker) == ours, seed
            used = snapshot(in_run(worker, kept))
            for name in (name for name in PUBLISHED if counts(f"DESK_{name.upper()}", desk)):
                assert shown[name] == kept[name] == used[name] == ours[name], (seed, name)
            agreed += 1
    assert min(refused, agreed) > SEQUENCES / 10


def test_every_setting_of_a_run_or_of_orders_takes_part() -> None:
    mine = {name for name in PUBLISHED if owner_of(name) in (Owner.RUN, Owner.ORDERS)}
    assert len(mine) > 40
    assert all(len(choices(name)) > 1 for name in mine)
