"""The fleet of compose.yaml in real containers, by the commands of docs/deploying.md: `make containers`.

A copy of the repository is started as the page says, runs screens with paper orders by the rulebook, is scaled, killed,
cut off, stopped, restored and taken down. It ends with its figures and bounds. Images that were built stay, as the next
run's cache; all else that was started is removed, also after Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import yaml

from chordesk.tasks.services import stop_signals
from tests.containers import guide
from tests.containers.compose import filled
from tests.containers.engine import Engine, Missing
from tests.containers.fleet import DESK, DOUBLED, LOST, Fleet
from tests.containers.kube import played, screened
from tests.ordeal.sheet import Sheet

ROOT = Path(__file__).parents[2]
IMAGE = "localhost/chordesk-containers/desk"
PROFILES = ("--profile", "api")
STAYING = ("ops", "trade", "beat", "research", "api")  # without channels there is no notify
LATENCY = 1.0
CANDIDATES, RESEARCH = 6, 3
# Sections of the page, in its order; what befalls the fleet comes before the upgrade.
BEFORE, AFTER = ("Start", "First run", "The page", "Doctor", "Back up"), ("Upgrade", "Stop")
IMAGE_MB, WORKER_MB, STOP_SECONDS = 1100.0, 350.0, 10.0
REPAIRED_SECONDS = 60.0
CUT_SECONDS = 20.0
IDLE_SECONDS = 60.0


@contextmanager
def copied(folder: Path) -> Iterator[Path]:
    """A clone of the repository with what is not committed yet: secrets and settings of its own."""
    copy = folder / "chordesk"
    subprocess.run(["git", "clone", "--quiet", "--no-checkout", str(ROOT), str(copy)], check=True)
    subprocess.run(["git", "reset", "--quiet"], cwd=copy, check=True)
    subprocess.run(["git", "remote", "set-url", "origin", str(copy)], cwd=copy, check=True)  # has nothing to pull
    command = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        source, target = ROOT / name, copy / name
        if source.is_symlink() or source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)
    yield copy


def removed(fleet: Fleet) -> None:
    with stop_signals.ignored():
        fleet.remove()


def wanted(folder: Path) -> dict[str, str]:
    """Return the images that Dockerfile and compose.yaml name, by what stands for them."""
    model = yaml.safe_load((folder / "compose.yaml").read_text(encoding="utf-8"))
    services = filled(model, dict(os.environ))["services"]
    lines = (folder / "deploy/Dockerfile").read_text(encoding="utf-8").splitlines()
    base = next(line.removeprefix("ARG BASE=") for line in lines if line.startswith("ARG BASE="))
    return {"python": base, "valkey": services["redis"]["image"], "postgres": services["postgres"]["image"]}


def follow(fleet: Fleet, sheet: Sheet, names: Sequence[str]) -> None:
    """Run the commands of these sections of the page, one after the other, in the copy."""
    page = guide.sections(fleet.engine.folder)
    for name in names:
        sheet.head(f"The page: {name}")
        for line in page[name]:
            if line.startswith("git clone"):
                continue  # the copy is one
            if name == "First run" and not fleet.containers("model"):
                fleet.serve_model(LATENCY)
            if " down " in line:  # which knows no model, and leaves a network that one is in
                fleet.docker("rm", "--force", f"{fleet.project}-model-1")
            began = time.monotonic()
            fleet.engine.run("bash", "-ec", line)
            sheet.line(line.partition("#")[0].strip()[:70], f"{time.monotonic() - began:.1f} s")


def locked(fleet: Fleet, sheet: Sheet) -> None:
    """Compare what the kernel says of each container's process with what compose.yaml says."""
    services = yaml.safe_load((fleet.engine.folder / "compose.yaml").read_text(encoding="utf-8"))["services"]
    wrong: list[str] = []
    for container in fleet.containers(*(set(services) - {"model"})):
        said, found = services[fleet.service(container)], fleet.process(container)
        wrong += [f"{container} runs as root"] * (found["user"] == 0)
        wrong += [f"{container} has capabilities"] * (found["capabilities"] != 0)
        wrong += [f"{container} may gain privileges"] * (not found["no_new_privileges"])
        wrong += [f"the root of {container} can be written"] * (not found["read_only"])
        more = set(found["secrets"]) ^ set(said.get("secrets", ()))
        wrong += [f"secrets of {container}: {', '.join(sorted(more))}"] * bool(more)
    for service in DESK:
        if (reached := fleet.resolves(service, "model")) != (service == "research"):
            wrong.append(f"{service} {'reaches' if reached else 'does not reach'} the model")
    for service in ("beat", "redis", "postgres"):
        wrong += [f"{service} has a way out"] * fleet.leads_out(service)
    for line in wrong:
        print(f"    {line}")
    sheet.most("processes with a right, secret or network too many", len(wrong), 0, form=".0f")


def befallen(fleet: Fleet, sheet: Sheet) -> None:
    """A screen for each kind of container that is killed, and for each that is cut off while it runs."""
    sheet.head("Faults, a screen each")
    for service in (*DESK, "redis", "postgres"):
        run = fleet.screen(CANDIDATES)
        fleet.await_turns(run)
        victim = fleet.containers(service)[0]
        pid = fleet.pid(victim)
        fleet.kill(victim)
        fleet.await_up(victim, pid)
        ended = fleet.await_end(run)
        sheet.most(f"{service} killed: the screen ends after", ended, REPAIRED_SECONDS, " s")
    for service in ("research", "redis", "postgres"):
        run = fleet.screen(CANDIDATES)
        fleet.await_turns(run)
        again = fleet.cut(fleet.containers(service)[0])
        time.sleep(CUT_SECONDS)
        again()
        ended = fleet.await_end(run)
        sheet.most(f"{service} cut off for {CUT_SECONDS:.0f} s: ends after", ended, REPAIRED_SECONDS, " s")


def idle(fleet: Fleet, sheet: Sheet) -> None:
    """Memory a minute after a screen, and how long a stop and a start of all take."""
    sheet.head("Idle")
    time.sleep(IDLE_SECONDS)
    for container, used in sorted(fleet.memory().items()):
        if fleet.service(container) == "research":
            sheet.most(f"memory of {container}", used, WORKER_MB, " MB", ".0f")
        elif fleet.service(container) != "model":
            sheet.line(f"memory of {container}", f"{used:.0f} MB")
    began = time.monotonic()
    fleet.compose(*PROFILES, "stop")
    sheet.most("stop of all", time.monotonic() - began, STOP_SECONDS, " s")
    began = time.monotonic()
    fleet.compose(*PROFILES, "start")
    sheet.line("start of all", f"{time.monotonic() - began:.1f} s")
    fleet.docker("start", f"{fleet.project}-model-1")
    sheet.line("a screen after it", f"{fleet.await_end(fleet.screen(CANDIDATES)):.1f} s")


def in_pods(fleet: Fleet, sheet: Sheet) -> None:
    """A screen in the pods of the small set of Kubernetes."""
    sheet.head("The small set of Kubernetes")
    if fleet.engine.name != "podman":
        sheet.line("podman kube play", "not run", "there is no podman")
        return
    began = time.monotonic()
    with played(fleet, STAYING, LATENCY) as kube:
        sheet.line("servers, migration, services", f"{time.monotonic() - began:.1f} s")
        began = time.monotonic()
        state = screened(kube, CANDIDATES)["state"]
        sheet.line("a screen", f"{time.monotonic() - began:.1f} s")
        sheet.most("not done", int(state != "done"), 0, form=".0f", note=state)
        kube.desk("status")  # which fails where it is not well


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.containers", description=__doc__)
    parser.add_argument("--no-faults", action="store_true", help="only the page, from start to stop")
    parser.add_argument("--kube", action="store_true", help="only the small set of Kubernetes")
    asked = parser.parse_args()
    sheet = Sheet()
    try:
        with ExitStack() as stack:
            stack.enter_context(stop_signals.raised())
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="containers-"))
            copy = stack.enter_context(copied(Path(folder)))
            engine = Engine.find(copy)
            project = f"desk{os.getpid()}"
            engine.environ |= {
                "COMPOSE_PROJECT_NAME": project, "CHORDESK_IMAGE": IMAGE, "DESK_MARKET": "replay", "TRADER_LIVE": "1",
                "DESK_PROVIDER_URL": "http://model:8000/v1", "OPENAI_API_KEY": "of-no-provider",
            }  # fmt: skip
            fleet = Fleet(engine, project, IMAGE)
            stack.callback(removed, fleet)
            engine.bases(wanted(copy))
            if asked.kube:
                if not engine.has(IMAGE):
                    engine.run("make", "image")
                in_pods(fleet, sheet)
                sheet.close()
                return 1 if sheet.missed else 0
            follow(fleet, sheet, BEFORE)
            sheet.most("image", fleet.image_mb(), IMAGE_MB, " MB", ".0f")
            locked(fleet, sheet)
            if not asked.no_faults:
                fleet.compose(*PROFILES, "up", "--detach", "--wait", "--scale", f"research={RESEARCH}")
                befallen(fleet, sheet)
            idle(fleet, sheet)
            sheet.head("What is left behind")
            for name, table in (("lost", LOST), ("doubled", DOUBLED)):
                found = fleet.counted(table)
                sheet.most(f"{name} in {len(fleet.runs)} screens", len(found), 0, form=".0f", note="; ".join(found))
            orders = fleet.sql('select state, count(*) from "order" group by 1 order by 1')
            sheet.line("orders", ", ".join(each.replace("|", " ") for each in orders) or "none")
            follow(fleet, sheet, AFTER)
            in_pods(fleet, sheet)
    except Missing as error:
        print(f"nothing was started: {error}", file=sys.stderr)
        return 2
    except stop_signals.StopRequested as stop:
        return 128 + stop.number
    except (RuntimeError, TimeoutError) as error:
        print(f"\n{error}", file=sys.stderr)
        sheet.close()
        return 1
    sheet.close()
    return 1 if sheet.missed else 0


if __name__ == "__main__":
    sys.exit(main())
