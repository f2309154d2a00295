"""`docker compose` by plain podman, for a machine without Docker: what compose.yaml and docs/deploying.md use of it.

podman-compose reads the file, but its networks, dependencies and tmpfs fail on Debian's podman (4.3). Without systemd
podman asks no health checks, so this does. Anything that it does not know is an error, and nothing is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dotenv
import yaml

HEALTHY_SECONDS = 180.0
ASKED_SECONDS = 0.5
KNOWN = frozenset({
    "build", "cap_drop", "command", "depends_on", "deploy", "env_file", "environment", "healthcheck", "image", "init",
    "networks", "ports", "profiles", "read_only", "restart", "secrets", "security_opt", "shm_size", "stop_grace_period",
    "tmpfs", "user", "volumes",
})  # fmt: skip
_VARIABLE = re.compile(r"\$\{(\w+)(?:(:?-)([^{}]*))?\}")


class Refused(Exception):
    """What cannot be done, and why."""


def podman(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(["podman", *arguments], capture_output=True, text=True)
    if check and done.returncode:
        raise Refused(f"podman {' '.join(arguments[:2])}: {done.stderr.strip()}")
    return done


def filled(value: Any, variables: dict[str, str]) -> Any:
    """Return a value of the file with its ${NAME}, ${NAME-default} and ${NAME:-default} in place."""
    if isinstance(value, dict):
        return {key: filled(each, variables) for key, each in value.items()}
    if isinstance(value, list):
        return [filled(each, variables) for each in value]
    if not isinstance(value, str):
        return value

    def found(match: re.Match[str]) -> str:
        name, sign, default = match.groups()
        there = variables.get(name)
        return (there if there or (sign != ":-" and there is not None) else default) or ""

    return _VARIABLE.sub(found, value)


@dataclass(frozen=True, slots=True)
class Project:
    """A compose file with its variables in place. scales: copies by service, where not one."""

    name: str
    folder: Path
    model: dict[str, Any]

    @classmethod
    def read(cls, folder: Path) -> Project:
        env = folder / ".env"
        written = {key: value or "" for key, value in dotenv.dotenv_values(env, interpolate=False).items()}
        variables = {**written, **os.environ}
        file = folder / variables.get("COMPOSE_FILE", "compose.yaml")
        model = filled(yaml.safe_load(file.read_text(encoding="utf-8")), variables)
        for name, service in model["services"].items():
            if unknown := set(service) - KNOWN:
                raise Refused(f"{file}: {', '.join(sorted(unknown))} of service {name} is not known here")
        return cls(variables.get("COMPOSE_PROJECT_NAME", folder.resolve().name), folder, model)

    @property
    def services(self) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = self.model["services"]
        return found

    def chosen(self, profiles: Iterable[str], names: Sequence[str]) -> list[list[str]]:
        """Return the services of these profiles, or those named and what they need, in waves: what a wave needs is in
        those before it."""
        active = {None, *profiles}
        wanted = set(names) or {n for n, said in self.services.items() if active & {*said.get("profiles", [None])}}
        while more := {need for name in wanted for need in self.services[name].get("depends_on") or ()} - wanted:
            wanted |= more
        waves: list[list[str]] = []
        done: set[str] = set()
        while wanted - done:
            wave = sorted(n for n in wanted - done if set(self.services[n].get("depends_on") or ()) <= done)
            waves.append(wave)
            done |= {*wave}
        return waves

    def containers(self, *services: str, all_states: bool = True) -> list[str]:
        """Return the names of the containers, of these services only where some are named."""
        shown = podman(
            "ps", *(["--all"] if all_states else []), "--filter", f"label=com.docker.compose.project={self.name}",
            "--format", '{{.Names}} {{index .Labels "com.docker.compose.service"}}',
        ).stdout  # fmt: skip
        rows = [line.split() for line in shown.splitlines()]
        return sorted(row[0] for row in rows if row[-1] in (services or self.services))

    def service_of(self, container: str) -> str:
        return container.removeprefix(f"{self.name}-").rpartition("-")[0]

    def options(self, service: str, container: str, *, ports: bool = True) -> list[str]:
        """Return podman's options for a container of a service: all that the file says of it but image and command."""
        said = self.services[service]
        labels = {"project": self.name, "service": service}
        options = ["--name", container, "--hostname", container]
        options += [f"--label=com.docker.compose.{key}={value}" for key, value in labels.items()]
        options += [f"--cap-drop={each}" for each in said.get("cap_drop", ())]
        options += [f"--security-opt={each.removesuffix(':true')}" for each in said.get("security_opt", ())]
        options += ["--read-only", "--read-only-tmpfs=false"] if said.get("read_only") else []
        options += ["--init"] if said.get("init") else []
        options += [f"--env={key}={value}" for key, value in self.environment(said).items()]
        for each in said.get("secrets", ()):
            options.append(f"--volume={self.folder / self.model['secrets'][each]['file']}:/run/secrets/{each}:ro")
        for each in said.get("volumes", ()):
            source, _, target = each.partition(":")
            place = f"{self.name}_{source}" if source in self.model["volumes"] else (self.folder / source).resolve()
            options.append(f"--volume={place}:{target}")
        for each in said.get("tmpfs", ()):
            place, _, more = each.partition(":")
            # /var/run is a link: Docker follows it, podman 4.3 does not.
            place = place.replace("/var/run/", "/run/")
            options.append(f"--tmpfs={place}:{','.join(filter(None, ('rw,mode=1777,notmpcopyup', more)))}")
        options += [f"--user={said['user']}"] if "user" in said else []
        options += [f"--shm-size={said['shm_size']}"] if "shm_size" in said else []
        if memory := said.get("deploy", {}).get("resources", {}).get("limits", {}).get("memory"):
            options += [f"--memory={memory}", f"--memory-swap={memory}"]
        if "stop_grace_period" in said:
            options.append(f"--stop-timeout={said['stop_grace_period'].removesuffix('s')}")
        options += [f"--publish={each}" for each in said.get("ports", ()) if ports]
        health = said.get("healthcheck", {})
        if health.get("disable"):
            options.append("--no-healthcheck")
        elif "test" in health:
            options += [f"--health-cmd={json.dumps(health['test'][1:])}", "--health-interval=disable"]
            options.append(f"--health-timeout={health.get('timeout', '30s')}")
        options += [f"--network={self.name}_{each}:alias={service}" for each in said.get("networks", ())]
        return options

    def environment(self, said: dict[str, Any]) -> dict[str, str]:
        found: dict[str, str] = {}
        files = said.get("env_file", [])
        for each in files if isinstance(files, list) else [files]:
            path = self.folder / (each if isinstance(each, str) else each["path"])
            if path.exists():
                found |= {key: value or "" for key, value in dotenv.dotenv_values(path, interpolate=False).items()}
            elif isinstance(each, str) or each.get("required", True):
                raise Refused(f"{path} is not there")
        return found | {key: "" if value is None else str(value) for key, value in said.get("environment", {}).items()}

    def make_networks(self) -> None:
        for name, said in self.model["networks"].items():
            network = f"{self.name}_{name}"
            if podman("network", "exists", network, check=False).returncode:
                internal = ["--internal"] if (said or {}).get("internal") else []
                podman("network", "create", *internal, f"--label=com.docker.compose.project={self.name}", network)

    def up(self, profiles: Iterable[str], names: Sequence[str], scales: dict[str, int], *, wait: bool) -> None:
        self.make_networks()
        for wave in self.chosen(profiles, names):
            for service in wave:
                for need, how in (self.services[service].get("depends_on") or {}).items():
                    self._await(need, how["condition"])
                self._scale(service, scales.get(service))
        if wait:
            for service in (each for wave in self.chosen(profiles, names) for each in wave):
                if self.services[service].get("restart") != "no":
                    self._await(service, "service_healthy")

    def _scale(self, service: str, count: int | None) -> None:
        """Bring a service to so many copies (as many as there are, else one), each of the image that it has now."""
        there = self.containers(service)
        wanted = [f"{self.name}-{service}-{number}" for number in range(1, (count or len(there) or 1) + 1)]
        for container in there:
            if container not in wanted or self._older(container, service):
                podman("stop", container)
                podman("rm", "--volumes", container)
        for container in wanted:
            if container not in self.containers(service):
                said = self.services[service]
                podman("run", "--detach", f"--restart={said.get('restart', 'no')}", *self.options(service, container),
                       said["image"], *said.get("command", ()))  # fmt: skip
            elif container not in self.containers(service, all_states=False) or said_once(self.services[service]):
                podman("start", container)

    def _older(self, container: str, service: str) -> bool:
        image = podman("image", "inspect", "--format", "{{.Id}}", self.services[service]["image"]).stdout.strip()
        return podman("inspect", "--format", "{{.Image}}", container).stdout.strip() != image

    def _await(self, service: str, condition: str) -> None:
        for container in self.containers(service):
            if condition == "service_completed_successfully":
                if (code := podman("wait", container).stdout.strip()) != "0":
                    raise Refused(f"{container} ended with {code}:\n{podman('logs', container).stdout}")
            elif condition == "service_healthy" and (why := unhealthy(container, HEALTHY_SECONDS)):
                logs = podman("logs", "--tail", "20", container)
                raise Refused(f"{container} is not healthy: {why}\n{logs.stdout}{logs.stderr}")

    def in_waves(self, do: Callable[[str], Any], names: Sequence[str], *, last_first: bool) -> None:
        """Do something with the containers of each wave at once, as compose does."""
        waves = self.chosen((), list({self.service_of(each) for each in self.containers(*names)}))
        with ThreadPoolExecutor(16) as pool:
            for wave in reversed(waves) if last_first else waves:
                list(pool.map(do, self.containers(*(set(wave) & set(names or wave)))))

    def start(self, names: Sequence[str]) -> None:
        def one(container: str) -> None:
            podman("start", container)
            if not said_once(self.services[self.service_of(container)]):
                unhealthy(container, HEALTHY_SECONDS)

        self.in_waves(one, names, last_first=False)

    def down(self, *, volumes: bool) -> None:
        self.in_waves(lambda each: podman("stop", each), (), last_first=True)
        for container in self.containers():
            podman("rm", "--force", "--volumes", container)
        mine = ("--filter", f"label=com.docker.compose.project={self.name}")
        for network in podman("network", "ls", "--quiet", *mine).stdout.split():
            podman("network", "rm", network)
        for name in self.model["volumes"] if volumes else ():
            podman("volume", "rm", "--force", f"{self.name}_{name}", check=False)


def said_once(said: dict[str, Any]) -> bool:
    """Return whether a service runs once and ends."""
    return said.get("restart") == "no"


def unhealthy(container: str, seconds: float) -> str:
    """Wait until a container is healthy; return why it is not after so many seconds, else nothing."""
    until = time.monotonic() + seconds
    while True:
        asked = podman("healthcheck", "run", container, check=False)
        if not asked.returncode or "no defined healthcheck" in asked.stderr:
            return ""
        if time.monotonic() > until:
            return (asked.stdout + asked.stderr).strip() or f"exit code {asked.returncode}"
        time.sleep(ASKED_SECONDS)


def own(asked: argparse.Namespace) -> list[str]:
    """Return the options of one command in a container."""
    return [*([f"--user={asked.user}"] if asked.user else []), *(f"--env={each}" for each in asked.env)]


def scale(text: str) -> tuple[str, int]:
    service, _, count = text.partition("=")
    return service, int(count)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="docker compose", allow_abbrev=False)
    top.add_argument("--profile", action="append", default=[])
    commands = top.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up")
    up.add_argument("--detach", "-d", action="store_true", required=True)
    up.add_argument("--wait", action="store_true")
    up.add_argument("--scale", action="append", default=[], type=scale)
    up.add_argument("services", nargs="*")
    for name in ("stop", "start", "ps"):
        commands.add_parser(name).add_argument("services", nargs="*")
    commands.add_parser("down").add_argument("--volumes", "-v", action="store_true")
    commands.add_parser("logs").add_argument("services", nargs="*")
    for name in ("exec", "run"):
        one = commands.add_parser(name)
        one.add_argument("--no-TTY", "-T", action="store_true")
        one.add_argument("--rm", action="store_true")
        one.add_argument("--user", "-u")
        one.add_argument("--env", "-e", action="append", default=[])
        one.add_argument("service")
        one.add_argument("words", nargs=argparse.REMAINDER)
    copy = commands.add_parser("cp")
    copy.add_argument("source")
    copy.add_argument("target")
    return top


def main(arguments: Sequence[str]) -> int:
    asked = parser().parse_args(arguments)
    project = Project.read(Path.cwd())
    match asked.command:
        case "up":
            project.up(asked.profile, asked.services, dict(asked.scale), wait=asked.wait)
        case "stop":
            project.in_waves(lambda each: podman("stop", each), asked.services, last_first=True)
        case "start":
            project.start(asked.services)
        case "ps":
            for container in project.containers(*asked.services):
                state = podman("inspect", "--format", "{{.State.Status}}", container).stdout.strip()
                well = "" if state != "running" else unhealthy(container, 0) or "healthy"
                print(f"{container:32} {state} {well}".rstrip())
        case "down":
            project.down(volumes=asked.volumes)
        case "logs":
            for container in project.containers(*asked.services):
                subprocess.run(["podman", "logs", "--names", container])
        case "exec":
            there = project.containers(asked.service, all_states=False)
            if not there:
                raise Refused(f"service {asked.service} is not running")
            return subprocess.run(["podman", "exec", "-i", *own(asked), there[0], *asked.words]).returncode
        case "run":
            project.make_networks()
            options = project.options(asked.service, f"{project.name}-{asked.service}-run-{os.getpid()}", ports=False)
            image = project.services[asked.service]["image"]
            return subprocess.run(
                ["podman", "run", "--rm", "-i", *options, *own(asked), image, *asked.words]
            ).returncode
        case "cp":
            places = []
            for place in (asked.source, asked.target):
                service, colon, path = place.partition(":")
                places.append(f"{project.containers(service)[0]}:{path}" if colon else place)
            podman("cp", *places)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Refused as error:
        print(error, file=sys.stderr)
        sys.exit(1)
