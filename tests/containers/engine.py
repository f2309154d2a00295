"""The engine that runs containers here, Docker's or podman, and the images that it needs."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent
BASE = "localhost/chordesk-containers"
BASES = {"python": "", "valkey": "REDIS_IMAGE", "postgres": "POSTGRES_IMAGE"}  # and the variable that names it
# Debian's crun refuses a machine with both kinds of control groups; the limits are below its hard ones.
CONTAINERS = '[engine]\nruntime = "runc"\n[containers]\ndefault_ulimits = ["nofile=16384:16384", "nproc=4096:4096"]\n'
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"


class Missing(Exception):
    """What this machine lacks, and how to get it."""


def answers(*command: str) -> bool:
    """Return whether a command is there and succeeds."""
    try:
        return subprocess.run(command, capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


@dataclass(slots=True)
class Engine:
    """environ: of all commands, in which `docker` is Docker's or stands for it. made: images that were built here."""

    name: str
    folder: Path
    environ: dict[str, str] = field(default_factory=lambda: dict(os.environ))
    made: list[str] = field(default_factory=list)

    @classmethod
    def find(cls, folder: Path) -> Engine:
        """Return the engine of this machine. Raises Missing."""
        if answers("docker", "info") and answers("docker", "compose", "version"):
            return cls("docker", folder)
        if os.geteuid() != 0:
            raise Missing("no Docker answers here, and its networks by podman need root: run `sudo make containers`")
        lacks = [each for each in ("podman", "runc", "aardvark-dns", "catatonit") if not there(each)]
        if lacks:
            raise Missing(f"neither Docker nor {', '.join(lacks)}: apt-get install podman runc aardvark-dns catatonit")
        engine = cls("podman", folder)
        (folder / "containers.conf").write_text(CONTAINERS, encoding="utf-8")
        root = HERE.parents[1]
        engine.environ |= {
            "CONTAINERS_CONF": str(folder / "containers.conf"),
            "PATH": f"{HERE / 'bin'}:{os.environ['PATH']}",
            "CHORDESK_PYTHON": shutil.which("python3", path=str(root / ".venv/bin")) or "python3",
        }
        if not engine._answers("podman", "info"):
            raise Missing("podman does not answer: `podman info` says why")
        return engine

    def run(self, *command: str, check: bool = True, folder: Path | None = None) -> str:
        """Run a command of the machine; return what it printed. Raises RuntimeError with its last lines."""
        done = subprocess.run(
            command, cwd=folder or self.folder, env=self.environ, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if check and done.returncode:
            last = "\n".join(done.stdout.splitlines()[-30:])
            raise RuntimeError(f"{' '.join(command)[:300]} ended with {done.returncode}:\n{last}")
        return done.stdout

    def has(self, image: str) -> bool:
        return self._answers(self.name, "image", "inspect", image)

    def bases(self, wanted: dict[str, str]) -> None:
        """Pull the images that Dockerfile and compose.yaml name, or build what stands for them from Debian's packages
        where no registry answers. wanted: image by base. Raises Missing."""
        if all(self.has(image) or self._pulled(image) for image in wanted.values()):
            return
        for name, variable in BASES.items():
            image = f"{BASE}/{name}"
            if not self.has(image):
                self._bootstrap()
                # The host's network, as its resolver may be none that a container reaches.
                self.run(self.name, "build", "--network=host", f"--tag={image}", str(HERE / name))
            if variable:
                self.environ[variable] = image
        self.environ["BASE"] = f"{BASE}/python"
        self.environ["BUILD"] = f"--network=host --volume={CERTIFICATES}:{CERTIFICATES}:ro"

    def _answers(self, *command: str) -> bool:
        return subprocess.run(command, env=self.environ, capture_output=True).returncode == 0

    def _pulled(self, image: str) -> bool:
        return self._answers("timeout", "600", self.name, "pull", image)

    def _bootstrap(self) -> None:
        image = f"{BASE}/base"
        if self.has(image):
            return
        if os.geteuid() != 0 or not there("debootstrap"):
            raise Missing("no registry of images answers, and Debian's packages take debootstrap: apt-get install it")
        with tempfile.TemporaryDirectory(dir="/var/lib/containers") as folder:
            self.run("debootstrap", "--variant=minbase", "--include=ca-certificates", "bookworm", folder)
            for each in ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/locale", "usr/share/man"):
                self.run("find", f"{folder}/{each}", "-type", "f", "-delete")
            self.run("sh", "-c", f"tar -C {folder} -c . | {self.name} import - {image}")


def there(program: str) -> bool:
    places = f"{os.environ['PATH']}:/usr/lib/podman:/usr/libexec/podman:/usr/sbin"
    return shutil.which(program, path=places) is not None
