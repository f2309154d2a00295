"""A fleet of containers under test: what it is asked to do, what befalls it, and what is counted afterwards."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.containers.engine import Engine

# Serves on the network of research alone: the rulebook behind an address that is not loopback.
MODEL = (
    "import uvicorn; from chordesk.agents.rulebook.server import create_app; "
    "uvicorn.run(create_app({latency}), host='0.0.0.0', port=8000, lifespan='off', ws='none', log_level='warning')"
)
DESK = ("research", "ops", "trade", "beat", "flower", "api")
ENDS_SECONDS = 900.0  # of a screen with a fault, on a machine that is busy with other things
ASKED_SECONDS = 1.0
# What each run must leave once. Of an order that is filled the paper account has one fill.
DOUBLED = {
    "candidate": "select 1 from candidate group by run_id, symbol having count(*) > 1",
    "report": "select 1 from report group by run_id, symbol, role having count(*) > 1",
    "verdict": "select 1 from verdict group by run_id, symbol having count(*) > 1",
    "decision": "select 1 from decision group by run_id having count(*) > 1",
    "order": 'select 1 from "order" group by decision_id, symbol having count(*) > 1',
    "fill": "select 1 from fill group by order_id having count(*) > 1",
    "turn": "select 1 from turn where outcome = 'completed' group by step_id having count(*) > 1",
}
LOST = {
    "run that did not end as done": "select 1 from run where state <> 'done'",
    "step of an ended run": "select 1 from step join run on run.id = step.run_id where run.state = 'done'"
    " and step.state in ('waiting', 'ready', 'running')",
    "verdict": "select 1 from candidate c where not exists"
    " (select 1 from verdict v where v.run_id = c.run_id and v.symbol = c.symbol)",
    "decision": "select 1 from run where not exists (select 1 from decision d where d.run_id = run.id)",
    "fill of a filled order": "select 1 from \"order\" o where o.state = 'filled' and not exists"
    " (select 1 from fill f where f.order_id = o.id)",
    "position that is not the sum of its fills": "select 1 from (select account, symbol,"
    " sum(case side when 'buy' then quantity else -quantity end) held from fill group by 1, 2) f"
    " left join position p using (account, symbol) where abs(f.held - coalesce(p.quantity, 0)) > 1e-6",
}


@dataclass(slots=True)
class Fleet:
    """engine: runs commands; project: the prefix of its containers; runs: ids of the screens so far."""

    engine: Engine
    project: str
    image: str
    runs: list[str] = field(default_factory=list)

    def compose(self, *words: str, check: bool = True) -> str:
        return self.engine.run("docker", "compose", *words, check=check)

    def docker(self, *words: str, check: bool = True) -> str:
        return self.engine.run("docker", *words, check=check)

    def desk(self, *words: str, service: str = "ops", check: bool = True) -> str:
        return self.compose("exec", "-T", service, "desk", *words, check=check)

    def sql(self, statement: str) -> list[str]:
        asked = ("psql", "-U", "desk", "-d", "desk", "-At", "-c", statement)
        return self.compose("exec", "-T", "postgres", *asked).split("\n")[:-1]

    def containers(self, *services: str) -> list[str]:
        names = self.docker("ps", "--filter", f"label=com.docker.compose.project={self.project}",
                            "--format", "{{.Names}}").split()  # fmt: skip
        return sorted(each for each in names if not services or self.service(each) in services)

    def service(self, container: str) -> str:
        return container.removeprefix(f"{self.project}-").rpartition("-")[0]

    def serve_model(self, latency: float) -> None:
        label = f"com.docker.compose.project={self.project}"
        self.docker(
            "run", "--detach", "--name", f"{self.project}-model-1", "--label", label, "--network",
            f"{self.project}_models", "--network-alias", "model", "--no-healthcheck", "--read-only", self.image,
            "python", "-c", MODEL.format(latency=latency),
        )  # fmt: skip

    def screen(self, most: int) -> str:
        """Open a screen and return its id."""
        told = self.desk("screen", "--no-wait", "--json", "--max", str(most))
        run = str(json.loads(told[told.index("{") :])["run_id"])
        self.runs.append(run)
        return run

    def state(self, run: str) -> str:
        return next(iter(self.sql(f"select state from run where id = '{run}'")), "")

    def await_end(self, run: str) -> float:
        """Wait for a run's end and return the seconds. Raises TimeoutError with what it waits for."""
        began = time.monotonic()
        until(lambda: self.state(run) not in ("", "running", "stopping"), f"the end of run {run}", ENDS_SECONDS,
              lambda: self.desk("runs", "show", run, check=False)[-2000:])  # fmt: skip
        return time.monotonic() - began

    def await_turns(self, run: str) -> None:
        """Wait until turns of a run are in flight."""
        held = f"select 1 from step where run_id = '{run}' and state = 'running'"
        until(lambda: self.sql(held) != [], f"steps of run {run}", ENDS_SECONDS)

    def kill(self, container: str) -> None:
        """SIGKILL to a container's first process, as the kernel's for want of memory; its engine starts it again."""
        os.kill(self.pid(container), signal.SIGKILL)

    def pid(self, container: str) -> int:
        return int(self.docker("inspect", "--format", "{{.State.Pid}}", container))

    def await_up(self, container: str, not_pid: int) -> float:
        """Wait until a killed container runs again; return the seconds."""
        began = time.monotonic()
        until(lambda: self.pid(container) not in (0, not_pid), f"{container} again", 60.0)
        return time.monotonic() - began

    def cut(self, container: str, network: str = "data") -> Callable[[], str]:
        """Take a container from a network; returns what puts it back, under the name that others know it by."""
        place = f"{self.project}_{network}"
        self.docker("network", "disconnect", place, container)
        return lambda: self.docker("network", "connect", "--alias", self.service(container), place, container)

    def counted(self, table: dict[str, str]) -> list[str]:
        """Return what is lost or doubled, by name and number."""
        found = {name: len(self.sql(statement)) for name, statement in table.items()}
        return [f"{number} {name}" for name, number in found.items() if number]

    def memory(self) -> dict[str, float]:
        """Return the megabytes of each container, without the pages that the kernel may drop: what limits act on."""
        shown = self.docker("stats", "--no-stream", "--format", "{{.Name}} {{.MemUsage}}", *self.containers())
        return {name: megabytes(used) for name, used in re.findall(r"^(\S+) (\S+) ?/", shown, re.MULTILINE)}

    def image_mb(self) -> float:
        return int(self.docker("image", "inspect", "--format", "{{.Size}}", self.image)) / 1e6

    def resolves(self, service: str, name: str) -> bool:
        """Return whether a service finds another by its name: it shares a network with it."""
        asked = f"import socket; socket.getaddrinfo({name!r}, 80)"
        return "Traceback" not in self.compose("exec", "-T", service, "python", "-c", asked, check=False)

    def leads_out(self, service: str) -> bool:
        """Return whether a container has a route to what is on none of its networks."""
        with open(f"/proc/{self.pid(self.containers(service)[0])}/net/route", encoding="ascii") as routes:
            return any(line.split()[1] == "00000000" for line in list(routes)[1:])

    def remove(self) -> None:
        """Take down whatever bears the project's name."""
        mine = ("--filter", f"label=com.docker.compose.project={self.project}")
        for container in self.docker("ps", "--all", "--quiet", *mine).split():
            self.docker("kill", container, check=False)  # podman's rm would wait for its grace time
            self.docker("rm", "--force", "--volumes", container, check=False)
        for network in self.docker("network", "ls", "--quiet", *mine).split():
            self.docker("network", "rm", network, check=False)
        for volume in self.docker("volume", "ls", "--format", "{{.Name}}").split():
            if volume.startswith(f"{self.project}_"):
                self.docker("volume", "rm", volume, check=False)

    def process(self, container: str) -> dict[str, Any]:
        """Return what the kernel says of a container's process: capabilities, privileges, root, secrets, ways out."""
        pid = self.pid(container)
        status = dict(line.split(":\t", 1) for line in open(f"/proc/{pid}/status") if ":\t" in line)  # noqa: SIM115
        mounts = [line.split() for line in open(f"/proc/{pid}/mountinfo")]  # noqa: SIM115
        root = next(row for row in mounts if row[4] == "/")
        return {
            "user": int(status["Uid"].split()[0]),
            "capabilities": int(status["CapEff"], 16) | int(status["CapBnd"], 16),
            "no_new_privileges": status["NoNewPrivs"].strip() == "1",
            "read_only": "ro" in root[5].split(","),
            "secrets": [row[4].removeprefix("/run/secrets/") for row in mounts if row[4].startswith("/run/secrets/")],
        }


def megabytes(text: str) -> float:
    number, unit = re.fullmatch(r"([\d.]+)([kMG]?)i?B", text).groups()  # type: ignore[union-attr]
    return float(number) * {"": 1e-6, "k": 1e-3, "M": 1.0, "G": 1e3}[unit]


def until(met: Callable[[], bool], what: str, seconds: float, why: Callable[[], str] = lambda: "") -> None:
    end = time.monotonic() + seconds
    while not met():
        if time.monotonic() > end:
            raise TimeoutError(f"no {what} within {seconds:g} s\n{why()}")
        time.sleep(ASKED_SECONDS)
