"""The small set of deploy/kubernetes by `podman kube play`: its pods, on one network, each under its component's name.

podman 4.3 knows no Job, StatefulSet and Service, shares an emptyDir with each pod that names one alike, and reads a
Secret otherwise than Kubernetes does. So each workload is a Pod with volumes of its own, and a Secret is a folder.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import yaml

from tests.containers.fleet import ENDS_SECONDS, MODEL, Fleet, until
from tests.deploy.kubernetes import rendered, workloads
from tests.deploy.kustomize import Object, pod

SERVERS = ("redis", "postgres")
# Nobody asks a probe without systemd, and podman 4.3 opens each port on the host.
LEFT_OUT = ("startupProbe", "livenessProbe", "readinessProbe", "ports")
SETTINGS = {"DESK_MARKET": "replay", "TRADER_LIVE": "1"}  # as a user would write them into an overlay's desk.env


@dataclass(slots=True)
class Kube:
    """fleet: whose engine and images it uses. name: of the network, and the prefix of all else."""

    fleet: Fleet
    name: str

    def podman(self, *words: str, check: bool = True) -> str:
        return self.fleet.engine.run("podman", *words, check=check)

    def write_secrets(self) -> None:
        maker = self.fleet.engine.folder / "deploy/kubernetes/make_secrets.py"
        given = ("env", "DESK_PROVIDER_URL=http://model:8000/v1", "DESK_PROVIDER_KEY=of-no-provider")
        told = self.fleet.engine.run(*given, sys.executable, str(maker), "small")
        for one in json.loads(told[told.index("{") : told.rindex("}") + 1])["items"]:
            folder = self.fleet.engine.folder / "kube" / one["metadata"]["name"]
            folder.mkdir(parents=True)
            for file, text in one["stringData"].items():
                (folder / file).write_text(text, encoding="utf-8")
                (folder / file).chmod(0o444)

    def play(self, component: str) -> str:
        """Start a component's pod and return the name of its container."""
        path = self.fleet.engine.folder / "kube" / f"{component}.yaml"
        settings = [copy.deepcopy(each) for each in rendered("small") if each["kind"] == "ConfigMap"]
        for each in settings:
            each["data"] |= SETTINGS
        path.write_text(yaml.safe_dump_all([*settings, self.pod(component)]), encoding="utf-8")
        self.podman("kube", "play", f"--network={self.name}:alias={component}", str(path))
        return f"{self.name}-{component}-{component if component in SERVERS else 'desk'}"

    def pod(self, component: str) -> Object:
        workload = workloads("small")[component]
        spec = copy.deepcopy(pod(workload))
        spec["restartPolicy"] = "OnFailure"  # with Always podman 4.3 starts a container that has prepared the pod again
        claims = [each["metadata"]["name"] for each in workload["spec"].get("volumeClaimTemplates", ())]
        spec["volumes"] = [self.volume(component, each) for each in (*spec["volumes"], *({"name": n} for n in claims))]
        if component == "postgres":
            spec["securityContext"]["runAsUser"] = self.user_of(spec["containers"][0], "postgres")
        for each in (*spec.get("initContainers", ()), *spec["containers"]):
            each["image"] = self.image(each)
            each["envFrom"] = [source for source in each.get("envFrom", ()) if "configMapRef" in source]
            for part in LEFT_OUT:
                each.pop(part, None)
            for mount in each["volumeMounts"]:  # /var/run is a link, which podman 4.3 does not follow
                mount["mountPath"] = mount["mountPath"].replace("/var/run/", "/run/")
        about = {"name": f"{self.name}-{component}", "labels": workload["spec"]["template"]["metadata"]["labels"]}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec}

    def volume(self, component: str, said: Object) -> Object:
        if "secret" in said:
            folder = self.fleet.engine.folder / "kube" / said["secret"]["secretName"]
            return {"name": said["name"], "hostPath": {"path": str(folder), "type": "Directory"}}
        claim = f"{self.name}_{component}_{said['name']}"
        return {"name": said["name"], "persistentVolumeClaim": {"claimName": claim}}

    def image(self, container: Object) -> str:
        name, environ = container["image"].partition(":")[0], self.fleet.engine.environ
        stands = {"valkey/valkey": environ.get("REDIS_IMAGE"), "postgres": environ.get("POSTGRES_IMAGE")}
        return self.fleet.image if name == "chordesk" else stands[name] or container["image"]

    def user_of(self, container: Object, user: str) -> int:
        """Return the id of a user in an image: the official ones and those that stand for them differ in it."""
        return int(self.podman("run", "--rm", "--network=none", "--entrypoint=id", self.image(container), "-u", user))

    def desk(self, *words: str, check: bool = True) -> str:
        return self.podman("exec", f"{self.name}-ops-desk", "desk", *words, check=check)

    def remove(self) -> None:
        for each in self.podman("pod", "ls", "--format={{.Name}}").split():
            if each.startswith(f"{self.name}-"):
                self.podman("pod", "rm", "--force", "--time=5", each, check=False)
        self.podman("rm", "--force", "--time=1", f"{self.name}-model", check=False)
        for each in self.podman("volume", "ls", "--format={{.Name}}").split():
            if each.startswith(f"{self.name}_"):
                self.podman("volume", "rm", each, check=False)
        self.podman("network", "rm", "--force", self.name, check=False)


@contextmanager
def played(fleet: Fleet, components: Sequence[str], latency: float) -> Iterator[Kube]:
    """The servers, the migration, then the components, and a model on their network."""
    kube = Kube(fleet, f"{fleet.project}k")
    kube.write_secrets()
    try:
        kube.podman("network", "create", kube.name)
        kube.podman(
            "run", "--detach", f"--name={kube.name}-model", f"--network={kube.name}:alias=model", "--no-healthcheck",
            "--read-only", fleet.image, "python", "-c", MODEL.format(latency=latency),
        )  # fmt: skip
        for each in SERVERS:
            kube.play(each)
        ready = ("exec", f"{kube.name}-postgres-postgres", "pg_isready", "-U", "desk", "-d", "desk", "-h", "127.0.0.1")
        until(lambda: "accepting" in kube.podman(*ready, check=False), "PostgreSQL in its pod", ENDS_SECONDS)
        migration = kube.play("migrate")
        done = "{{.State.Status}} {{.State.ExitCode}}"
        until(
            lambda: kube.podman("inspect", f"--format={done}", migration).split()[:2] == ["exited", "0"],
            "end of the migration", ENDS_SECONDS, lambda: kube.podman("logs", migration, check=False)[-2000:],
        )  # fmt: skip
        for each in components:
            kube.play(each)
        yield kube
    finally:
        kube.remove()


def screened(kube: Kube, most: int) -> dict[str, Any]:
    """Do a screen and return it."""
    until(lambda: "research" in kube.desk("status", check=False), "the workers", ENDS_SECONDS)
    told = kube.desk("screen", "--json", "--max", str(most))
    found: dict[str, Any] = json.loads(told[told.index("{") :])
    return found
