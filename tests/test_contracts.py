"""The import contracts bite: a module that breaks one is named. The migrations are one line of revisions."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path

from alembic.config import Config
from alembic.script import ScriptDirectory

from chordesk.models.features import OWN
from tests.patience import PATIENCE

ROOT = Path(__file__).parents[1]
LINT = Path(sys.executable).with_name("lint-imports")
MANDATES = "Only `desk arm` can write a mandate"
BROKERS = "Agents cannot reach a broker"
SERVICE = "Only `desk api`, `desk mcp` and `desk page` load the service"
RUNTIME = "Only the composition root knows the Codex runtime"
NOTIFY = "Only the process that sends and the checks load the library of notifications"
OUTSIDE = "No order, stop or mandate rests on an outside account"
READERS = "What reads an outside account has no broker and no order in its reach"
# Nothing can break the contract of a feature that is left out of the tree.
FEATURES = {place.split(".")[2]: import_module(place).FEATURE for place in OWN}
CONTRACTS = (
    *(BROKERS, MANDATES, SERVICE, RUNTIME),
    *([NOTIFY] if "notifications" in FEATURES else []),
    *([OUTSIDE, READERS] if "holdings" in FEATURES else []),
    *(f"Core knows no feature: {name}" for name in FEATURES),
)

ROGUES = {
    "agents/rogue_broker.py": ("from chordesk.tools.brokers import protocol", BROKERS),
    "agents/rogue_orders.py": ("from chordesk.tools.orders.flow import process_decision", BROKERS),
    "agents/rogue_submit.py": ("from chordesk.tools.orders.submitting import submit", BROKERS),
    "tools/rogue_helper.py": ("from chordesk.tools.orders import submitting", None),
    "agents/rogue_roundabout.py": ("import chordesk.tools.rogue_helper", BROKERS),
    "agents/rogue_signer.py": ("from chordesk.tasks.cli import arming", MANDATES),
    "tools/rogue_signer.py": ("from chordesk.tasks.cli.arming import arm", MANDATES),
    "tasks/worker/rogue_signer.py": ("from chordesk.tasks.cli.arming import signing_key", MANDATES),
    "tasks/services/rogue_server.py": ("from chordesk.tasks.web.app import serve", SERVICE),
    "agents/rogue_runner.py": ("from chordesk.agents.codex.runtime import CodexRuntime", RUNTIME),
    "tasks/events/rogue_list.py": ("from chordesk.agents.codex.threads import ThreadRegistry", RUNTIME),
    "tasks/worker/rogue_turns.py": ("from chordesk.agents.codex.threads import registry", RUNTIME),
    "tasks/worker/rogue_notifier.py": ("from chordesk.tasks.notifications.apprise_wire import ChannelWire", NOTIFY),
    "tools/orders/rogue_outside.py": ("from chordesk.tools.holdings import keeping", OUTSIDE),
    "tools/market/refreshing.py": ("from chordesk.tools.orders import submitting", READERS),
    "tasks/cli/rogue_page.py": ("from chordesk.tasks.web import app", SERVICE),
    **{
        f"tasks/worker/rogue_{name}.py": (f"import {FEATURES[name].modules[-1]}", f"Core knows no feature: {name}")
        for name in FEATURES
    },
}


def test_every_rogue_is_caught(tmp_path: Path) -> None:
    """That the code itself keeps them, `make check` shows."""
    shutil.copytree(ROOT / "chordesk", tmp_path / "chordesk", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    rogues = {name: row for name, row in ROGUES.items() if row[1] is None or row[1] in CONTRACTS}
    for name, (line, _) in rogues.items():
        (tmp_path / "chordesk" / name).write_text(f"{line}\n", encoding="utf-8")
    done = subprocess.run(
        [LINT, "--no-cache"], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 1
    output = " ".join(done.stdout.split())
    for contract in CONTRACTS:
        assert output.count(contract) == 2, "once in the list and once with what broke it"
    broken = output[output.index("Broken contracts") :]
    begins = sorted((broken.index(contract), contract) for contract in CONTRACTS)
    ends = (*(place for place, _ in begins[1:]), len(broken))
    sections = {each: broken[start:end] for (start, each), end in zip(begins, ends, strict=True)}
    for name, (_, contract) in rogues.items():
        if contract is not None:
            module = f"chordesk.{name}".removesuffix(".py").replace("/", ".")
            assert module in sections[contract], name


def test_migrations_are_one_line_of_revisions() -> None:
    config = Config()
    config.set_main_option("script_location", str(ROOT / "models" / "migrations"))
    revisions = ScriptDirectory.from_config(config)
    assert len(revisions.get_heads()) == 1, "give the newer revision the other as its down_revision"
    assert [one.revision for one in revisions.walk_revisions() if one.is_branch_point] == []
