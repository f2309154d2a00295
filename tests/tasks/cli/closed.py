"""An interpreter for which the network is closed: every process that it starts, however deep, is watched.

Loopback and unix sockets work. Any other address is refused and written down, and so is an import of a broker's client.
It is a virtual environment of its own, because `desk demo` hands no variable of ours to its children.
"""

from __future__ import annotations

import site
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.patience import PATIENCE

GUARD = """
import ipaddress, os, socket, sys

LOG = {log!r}
OURS = {{"localhost", "", socket.gethostname()}}


def write(*words):
    line = " ".join(str(word).replace("\\n", " ") for word in (os.getpid(), *words)) + "\\n"
    handle = os.open(LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(handle, line.encode(errors="replace"))
    os.close(handle)


def is_ours(host):
    if host is None:
        return True
    host = host.decode() if isinstance(host, bytes) else str(host)
    if host in OURS:
        return True
    try:
        return ipaddress.ip_address(host.split("%")[0]).is_loopback
    except ValueError:
        return False


def watch(event, args):
    if event == "import" and args[0].split(".")[0] == "alpaca":
        write("import", args[0])
    elif event in ("socket.connect", "socket.sendto"):
        address = args[1]
        if isinstance(address, tuple) and not is_ours(address[0]):
            write("reached", event, *address)
            raise OSError(101, "the network is closed")
    elif event in ("socket.getaddrinfo", "socket.gethostbyname") and not is_ours(args[0]):
        write("reached", event, args[0])
        raise socket.gaierror(-3, "the network is closed")


sys.addaudithook(watch)
write("began", *sys.orig_argv[1:])
"""


@dataclass(frozen=True, slots=True)
class Closed:
    """python: the interpreter; log: what its processes did."""

    python: Path
    log: Path

    def lines(self, kind: str) -> list[str]:
        """Return the rest of each line of a kind: `began`, `reached` or `import`."""
        rows = self.log.read_text(encoding="utf-8").splitlines() if self.log.exists() else []
        split = [row.split(" ", 2) for row in rows]
        return [row[2] for row in split if len(row) == 3 and row[1] == kind]


def make_closed(folder: Path) -> Closed:
    """Build the environment; it sees this one's packages."""
    venv, log = folder / "closed", folder / "network.log"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True, timeout=PATIENCE)
    packages = next((venv / "lib").glob("python*/site-packages"))
    (packages / "closed_network.py").write_text(GUARD.format(log=str(log)), encoding="utf-8")
    seen = [path for path in site.getsitepackages() if Path(path).is_dir()]
    (packages / "closed.pth").write_text("\n".join([*seen, "import closed_network"]) + "\n", encoding="utf-8")
    return Closed(venv / "bin" / "python", log)
