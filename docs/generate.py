"""Writes the tables of docs/reference from the code: `python docs/generate.py`; with `--check` it only compares.

A page keeps its prose; what stands between `<!-- generated: NAME -->` and `<!-- end -->` is replaced, and what stands
after `<!-- figures: NAME -->` by what `tests/ordeal/figures.py` kept of a bench in `docs/figures/NAME.json`.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import typer.main

from chordesk.models import features, looks, model_prices
from chordesk.models.database.store import every_table
from chordesk.models.events import EventType
from chordesk.models.settings import ALIASES, Settings
from chordesk.models.settings.running_desk import owner_of
from chordesk.models.states import MODES
from chordesk.models.telemetry_events import EVENTS, Canonical, OfTurn, RunCompleted
from chordesk.models.text import ID_LETTERS
from chordesk.tasks.cli.root import build
from chordesk.tasks.engine import kinds
from chordesk.tasks.engine.kinds import StepSpec
from chordesk.tasks.reading.setting_values import grouped
from chordesk.tasks.telemetry.gauges import DESK_GAUGES as OF_DESK
from chordesk.tasks.telemetry.gauges import WORKER_GAUGES as OWN
from chordesk.tasks.telemetry.gauges import Gauge
from chordesk.tasks.telemetry.metrics import Metrics
from chordesk.tasks.telemetry.process_health import ProcessHealth
from chordesk.tasks.web.app import ROUTERS
from chordesk.tasks.workflows import every_kind
from chordesk.tasks.workflows.runs import FINISH
from chordesk.tools.risk.codes import CODES, shown, variable_name

DOCS = Path(__file__).parent
REFERENCE = DOCS / "reference"
_BLOCK = re.compile(r"(<!-- generated: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_MEASURED = re.compile(r"(<!-- figures: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
FIGURES = DOCS / "figures"
COMMON = frozenset({"event", "at", "run_id"})  # fields of every telemetry event


def code(text: object) -> str:
    return f"`{text}`" if str(text) else ""


# Commands


def commands() -> str:
    """Return a list of all commands; `--help` describes their options."""
    found = _walk(typer.main.get_command(build()), "desk")
    return "\n".join(f"- {code(_usage(path, one))}: {_first_line(one.help)}" for path, one in found)


def _walk(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    children: Mapping[str, Any] = getattr(command, "commands", {})
    if not children:
        yield path, command
    for name, child in children.items():
        if not child.hidden:
            yield from _walk(child, f"{path} {name}")


def _usage(path: str, command: Any) -> str:
    return " ".join([path, *(_argument(param) for param in command.params if param.param_type_name == "argument")])


def _argument(param: Any) -> str:
    name = (param.metavar or param.name.upper().rstrip("_")).removesuffix("...") + ("..." if param.nargs == -1 else "")
    return name if param.required else f"[{name}]"


def _text(text: str | None) -> str:
    return inspect.cleandoc(text or "").replace("\b", "")


def _first_line(text: str | None) -> str:
    return " ".join(_text(text).split("\n\n")[0].split())


# Settings


def settings() -> str:
    """Return one list of settings for each group of the class, in its order: (owner; any default): meaning [others]."""
    schema = Settings.model_json_schema()["properties"]
    aliases = {name: alias for alias, name in ALIASES.items()}
    titles, groups = grouped(), dict[str, list[str]]()
    for name, info in Settings.model_fields.items():
        also = f" (`{aliases[name]}`)" if name in aliases else ""
        default = _setting_default(name)
        head = f"{code(variable_name(name))} ({owner_of(name)}{default and '; '}{default})"
        groups.setdefault(titles[name], []).append(f"- {head}: {info.description}{also}{_others(name, schema[name])}")
    return "\n\n".join(f"## {title}\n\n" + "\n".join(rows) for title, rows in groups.items())


def _others(name: str, schema: Mapping[str, Any]) -> str:
    """Return what else a setting may be, in brackets: all values or an example; nothing for a number or a switch."""
    kind = next(kind for kind in schema.get("anyOf", [schema]) if kind.get("type") != "null")
    if choices := kind.get("enum", kind.get("items", {}).get("enum")):
        usual = _setting_default(name)
        others = ", ".join(each for each in map(code, choices) if each != usual)
        return "" if usual == code(",".join(choices)) else f" [{others}]"
    if kind["type"] in ("boolean", "integer", "number"):
        return ""
    return f" [{code(schema['examples'][0])}]" + (", secret" if kind.get("format") == "password" else "")


def _setting_default(name: str) -> str:
    info = Settings.model_fields[name]
    if info.default_factory is not None:
        return "the platform's user-data folder"
    value = ",".join(info.default) if isinstance(info.default, tuple) else info.default
    return "" if value in (None, "") else code(shown(value))


# Risk codes


def risk_codes() -> str:
    """Return every denial code with what it refuses and the settings that move it; a star: it binds exits, too."""
    return "\n".join(
        f"- {code(one.value)}{' *' if meaning.exits else ''}: "
        + "; ".join([meaning.denies, *(code(variable_name(name)) for name in meaning.settings)])
        for one, meaning in CODES.items()
    )


# Telemetry


def telemetry_events() -> str:
    """Return a list of the canonical events with their own fields, after the fields that several have alike."""
    shared = [f"- every `*.run.completed`: {_fields(RunCompleted)}", f"- every other event: {_fields(OfTurn)}"]
    return "\n".join([*shared, *(f"- {code(_event_name(one))} ({_when(one)}): {_fields(one)}" for one in EVENTS)])


def _event_name(event: type[Canonical]) -> str:
    return str(event.model_fields["event"].default)


def _when(event: type[Canonical]) -> str:
    first = " ".join((event.__doc__ or "").split()).split(". ")[0].rstrip(".")
    return first[:1].lower() + first[1:]


def _fields(event: type[Canonical]) -> str:
    base = event.__mro__[1] if event.__mro__[1] in (OfTurn, RunCompleted) else Canonical
    own = ((name, info) for name, info in event.model_fields.items() if name not in {*COMMON, *base.model_fields})
    return ", ".join(code(info.alias or name) for name, info in own)


def _gauges_of_features() -> Iterator[Gauge]:
    """Yield those of the processes that features bring, which stand in a module `watching` of the feature."""
    for feature in filter(features.is_own, features.in_force()):
        for package in feature.modules:
            spec = find_spec(package)
            if spec is not None and spec.submodule_search_locations and find_spec(f"{package}.watching") is not None:
                module = import_module(f"{package}.watching")
                yield from (one for one in vars(module).values() if isinstance(one, Gauge))


def metrics() -> str:
    """Return a list of the Prometheus metrics of a process with their types and labels."""
    registry = Metrics(lambda: {"any": 0}, ProcessHealth("any")).registry
    families = [family for family in registry.collect() if family.name.startswith("desk_")]
    # The registry gives a metric's labels only with its first sample.
    labels = {one._name: one._labelnames for one in registry._collector_to_names if hasattr(one, "_labelnames")}
    gauges = (*OWN, *OF_DESK, *_gauges_of_features())
    rows = [(code(one.name), "", ", ".join(map(code, one.labels)), one.what) for one in gauges]
    for family in families:
        names = labels.get(family.name) or tuple(family.samples[0].labels)
        suffix = "_total" if family.type == "counter" else ""
        kind = "" if family.type == "gauge" else family.type
        rows.append((code(family.name + suffix), kind, ", ".join(map(code, names)), family.documentation))
    return "\n".join(f"- {name}{_within(filter(None, (kind, labels)))}: {what}" for name, kind, labels, what in rows)


def _within(parts: Iterable[str]) -> str:
    joined = "; ".join(parts)
    return f" ({joined})" if joined else ""


def event_types() -> str:
    """Return a list of the types of a run's events that have a comment in the source, then the names of the rest."""
    notes = dict(re.findall(r'= "([a-z.]+)"  # (.*)', inspect.getsource(EventType))) | EventType.of_features()
    explained = "\n".join(f"- {code(name)}: {note}" for name, note in notes.items())
    return explained + "\n\nThe others: " + ", ".join(code(one.value) for one in EventType if one not in notes) + "."


# HTTP


def routes() -> str:
    """Return a list of the routes of `desk api`, but for those of the page's files and logins."""
    return "\n".join(
        f"- `{method} {route.path}`: {re.sub('^(Show|List) ', '', _first_line(inspect.getdoc(route.endpoint)))}"
        for router in ROUTERS
        for route in router.routes
        for method in sorted(route.methods)
        if not route.path.startswith(("/page", "/session"))
    )


EXAMPLE = DOCS.parent / "chordesk" / "example"
LANGUAGES = {".py": "python", ".js": "js", ".toml": "toml", ".md": ""}


def example_package() -> str:
    """Every file of the example package, its project first; tests build a package from the printed files."""
    files = [path for path in sorted(EXAMPLE.rglob("*")) if path.suffix in LANGUAGES]
    files.sort(key=lambda path: (path.suffix != ".toml", path.suffix == ".md"))
    return "\n\n".join(
        f"`{path.relative_to(EXAMPLE).as_posix()}`:\n\n```{LANGUAGES[path.suffix]}\n{path.read_text('utf-8').strip()}\n```"
        for path in files
    )


def own_features() -> str:
    """Return what each feature of the desk is, its other names, and what it brings that a reader may look for."""
    found = [_feature(import_module(place)) for place in features.OWN]
    return "\n\n".join([*found, *absent_features().values()])


ABSENT = "Not in this tree."


def absent_features() -> dict[str, str]:
    """Return the sections of features that have a contract and no folder: nothing but the page knows them any more."""
    contracts = tomllib.loads((DOCS.parent / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    named = [one["name"].rpartition(": ")[2] for one in contracts if one["name"].startswith("Core knows no feature")]
    here = {place.split(".")[2] for place in features.OWN}
    page = (REFERENCE / "features.md").read_text("utf-8").partition("<!-- end -->")[0]
    sections = dict(re.findall(r"^## ([a-z]+)\n\n(.+?)\n\n(?=## |\Z)", page, re.MULTILINE | re.DOTALL))
    found = {}
    for name in named:
        if name not in here and name in sections:
            about = sections[name].removeprefix(ABSENT).strip()
            there = (line for line in about.splitlines() if not line.startswith("- pages") or _are_there(line))
            found[name] = f"## {name}\n\n{ABSENT} " + "\n".join(there)
    return found


def _are_there(line: str) -> bool:
    return all((REFERENCE / page).exists() for page in re.findall(r"\(([^)]+)\)", line))


def _feature(module: ModuleType) -> str:
    found: features.Feature = module.FEATURE
    brings = {
        "other names": found.aliases,
        "commands": [f"desk {name}" for name in found.commands],
        "settings": [variable_name(name) for name in found.settings],
        "events": found.event_kinds,
        "views": [view.path for view in found.views if view.menu or view.key],
    }
    lines = [f"- {what}: {', '.join(map(code, names))}" for what, names in brings.items() if names]
    if found.documents:
        lines.append("- pages: " + ", ".join(f"[{page.removesuffix('.md')}](../{page})" for page in found.documents))
    about = " ".join((module.__doc__ or "").split())
    return "\n\n".join([f"## {found.name}", about, *(["\n".join(lines)] if lines else [])])


def workflows() -> str:
    """Return a table of the kinds of runs with their steps, then one of each step."""
    tables = {*every_table()}
    runs = every_kind().runs
    rows = ["| run | its steps |", "|---|---|"]
    rows += [f"| {code(kind)} | {', '.join(code(one.kind) for one in _in_order(kind))} |" for kind in runs]
    own = [one for one in runs.values() if one.steps]
    steps = [f"## Steps of {one.kind}\n\n{_steps(one.steps, tables)}" for one in own]
    return "\n\n".join(["\n".join(rows), *steps, "## The last step of every run\n\n" + _steps([FINISH], tables)])


def _in_order(run: str) -> list[StepSpec]:
    """Return the steps of a kind of run, each after those that it waits for."""
    left = sorted(kinds.steps_of(run), key=lambda one: MODES.index(one.mode) if one.mode else 0)
    found: list[StepSpec] = []
    while left:
        found.append(next(one for one in left if not any(_waits(one, other) for other in left)))
        left.remove(found[-1])
    return [*found, FINISH] if every_kind().runs[run].steps else found


def _waits(one: StepSpec, other: StepSpec) -> bool:
    """Return whether a step waits for another; of two that wait for each other, as a round and the next one's voices,
    the join does."""
    mutual = code(one.kind) in other.after and other.join
    return one is not other and code(other.kind) in one.after and not mutual


def _steps(specs: Iterable[StepSpec], tables: set[str]) -> str:
    rows = ["| step | who does it | waits for | writes |", "|---|---|---|---|"]
    for one in specs:
        if unknown := {*one.writes} - tables:
            raise ValueError(f"the step {one.kind} writes {', '.join(sorted(unknown))}, and there is no such table")
        who = f"a turn, queue `{one.queue}`" if one.turn else f"code, queue `{one.queue}`"
        rows.append(f"| `{one.kind}` | {who} | {one.after} | {', '.join(map(code, one.writes))} |")
    return "\n".join(rows)


LOOKS = DOCS.parent / "tasks" / "web" / "page" / "static" / "lib" / "looks.js"


def looks_module() -> str:
    """Return the page's copy of the table of looks."""
    parts = {
        "FIGURES": {
            name: {"digits": [one.least, one.most], "perCent": one.per_cent, "signed": one.signed}
            for name, one in looks.FIGURES.items()
        },
        "SHAPES": {name: one.shape for name, one in looks.TONES.items()},
        "STATES": {of: {name: [*one] for name, one in states.items()} for of, states in looks.STATES.items()},
        "ID_LETTERS": ID_LETTERS,
    }
    head = "// How figures, states and ids look. Written by docs/generate.py from models/looks.py: change it there.\n"
    return head + "".join(f"\nexport const {name} = {_literal(value)};\n" for name, value in parts.items())


def _literal(value: Any, pad: str = "") -> str:
    """Return a literal of JavaScript; an object that is too wide for a line has one for each entry."""
    if isinstance(value, dict):
        line = "{ " + ", ".join(f"{_key(name)}: {_literal(one)}" for name, one in value.items()) + " }"
        rows = "".join(f"{pad}  {_key(name)}: {_literal(one, pad + '  ')},\n" for name, one in value.items())
        return line if len(line) < 100 else f"{{\n{rows}{pad}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(_literal, value))}]"
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else _quoted(value)


def _key(name: str) -> str:
    return name if name.isidentifier() else _quoted(name)


def _quoted(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else str(value)


def looks_of_figures() -> str:
    rows = ["| figure | what it is of | looks |", "|---|---|---:|"]
    for name, one in looks.FIGURES.items():
        rows.append(f"| {name} | {one.what} | {looks.written(name, one.sample)} |")
    return "\n".join(rows)


def looks_of_states() -> str:
    """Return a table of the colours with their shapes, then one of the states of each thing."""
    tables = ["| shape | colour | what has it |", "|---|---|---|"]
    tables = ["\n".join([*tables, *(f"| {one.shape} | {name} | {one.means} |" for name, one in looks.TONES.items())])]
    for of, states in looks.STATES.items():
        rows = ["| stored | shown |", "|---|---|"]
        for value in states:
            words, tone = looks.state(of, value)
            rows.append(f"| {code(value)} | {looks.TONES[tone].shape} {words} |")
        tables.append(f"## {_TITLES.get(of) or of.capitalize()}\n\n" + "\n".join(rows))
    return "\n\n".join(tables)


_TITLES = {"any": "Steps, turns, reports and programs"}


def listed_prices() -> str:
    """Return the models with a price, by provider, with the date and the page of the prices."""
    return "\n".join(
        f"- {provider} ({page}, {model_prices.AS_OF}): "
        + ", ".join(code(model) for model in model_prices.listed_of(provider))
        for provider, page in model_prices.SOURCES.items()
    )


GENERATED: Mapping[str, Callable[[], str]] = {
    "example-package": example_package,
    "commands": commands,
    "settings": settings,
    "risk-codes": risk_codes,
    "telemetry-events": telemetry_events,
    "metrics": metrics,
    "event-types": event_types,
    "routes": routes,
    "workflows": workflows,
    "features": own_features,
    "figures": looks_of_figures,
    "states": looks_of_states,
    "prices": listed_prices,
}


def broker_keys() -> list[str]:
    """Return the keys of brokers that features of the desk have, in their order."""
    own = (import_module(place).FEATURE for place in features.OWN)
    return list(dict.fromkeys(key for each in own for broker in each.brokers.values() for key in broker.credentials))


# By the name of a part of the files that deploy a fleet, the line of each key.
DEPLOYED: Mapping[str, Callable[[str], str]] = {
    "no files of brokers' keys": lambda key: f'{key}_FILE: ""',
    "files of brokers' keys": lambda key: f"{key}_FILE: ${{{key}_FILE:-}}",
    "mounted keys of brokers": lambda key: f"- {key.lower()}",
    "places of brokers' keys": lambda key: f'{key.lower()}: {{ file: "${{SECRETS:-.secrets}}/{key.lower()}" }}',
}
# The same of a tuple in code.
LISTED: Mapping[str, Callable[[str], str]] = {"names of brokers' files": str.lower, "names of brokers' keys": str}
FLEET = ("compose.yaml", "deploy/credentials.py", "deploy/kubernetes/make_secrets.py")
_PART = re.compile(r"( *)# generated: ([a-z' ]+)\n.*?# end\n", re.DOTALL)


def deployed(text: str) -> str:
    """Return a file that deploys a fleet with the keys of the brokers that are in this tree."""

    def part(found: re.Match[str]) -> str:
        pad, name = found[1], found[2]
        if name in LISTED:
            keys = "".join(f'"{LISTED[name](key)}", ' for key in broker_keys()).strip()
            lines = [f"OF_FEATURES: tuple[str, ...] = ({keys})"]
        else:
            lines = [DEPLOYED[name](key) for key in broker_keys()]
        return "".join(f"{pad}{line}\n" for line in (f"# generated: {name}", *lines, "# end"))

    return _PART.sub(part, text)


def pages() -> dict[Path, str]:
    """Return the text that each file with generated parts should have."""
    found = [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]
    fleet = {path: deployed(path.read_text(encoding="utf-8")) for path in (DOCS.parent / one for one in FLEET)}
    return {path: fresh(path.read_text(encoding="utf-8")) for path in found} | {LOOKS: looks_module()} | fleet


def fresh(page: str) -> str:
    """Return a page with its generated parts made anew."""
    page = _BLOCK.sub(lambda found: f"{found[1]}\n{GENERATED[found[2]]()}\n\n{found[3]}", page)
    return _MEASURED.sub(lambda found: f"{found[1]}\n{measured(found[2])}\n\n{found[3]}", page)


def measured(name: str) -> str:
    """Return what was measured as a table or text, then by which command, when and of which commit."""
    kept = json.loads((FIGURES / f"{name}.json").read_text(encoding="utf-8"))
    where = f", {kept['where']}" if kept.get("where") else ""
    note = f"{kept['note']}. " if kept.get("note") else ""
    told = f"{note}Measured by `{kept['command']}` on {kept['date']}, commit {kept['commit']}{where}."
    if text := kept.get("text"):
        return f"```\n{text}\n```\n\n{told}"
    columns = kept["columns"]
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *kept["rows"]]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + f"\n\n{told}"


def main(arguments: Sequence[str]) -> int:
    """Write the stale pages, or with --check name them; return the exit code."""
    stale = {path: text for path, text in pages().items() if path.read_text(encoding="utf-8") != text}
    for path, text in stale.items():
        print(f"{path.relative_to(DOCS.parent)} {'is stale' if '--check' in arguments else 'written'}")
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
