"""Ask a process of this container for its health: `python deploy/health.py [URL]`, for probes without a shell.

Exit code 0 for an answer of 200, else 1 with the reason. Without a URL it is /health at DESK_METRICS_PORT. Standard
library only, and no proxy: it is asked every few seconds.
"""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request

SECONDS = 5.0


def reason(url: str, seconds: float = SECONDS) -> str | None:
    """Return why the process at this address is not well; None if it is."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=seconds) as answer:
            answer.read()
        return None
    except urllib.error.HTTPError as error:
        return f"{url} answers {error.code}: {error.read(2000).decode(errors='replace').strip()}"
    except (OSError, ValueError) as error:
        return f"{url} does not answer: {error}"


def main(arguments: list[str]) -> int:
    port = os.environ.get("DESK_METRICS_PORT", "")
    if not arguments and not port:
        print("neither a URL nor DESK_METRICS_PORT: there is nothing to ask; set one of them", file=sys.stderr)
        return 1
    found = reason(arguments[0] if arguments else f"http://127.0.0.1:{port}/health")
    if found is not None:
        print(found, file=sys.stderr)
    return 0 if found is None else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
