"""Records the streams anew, from the real binary against the model's stand-in.

`python -m tests.golden.record [SCENE ...]`; without a name, all of them. What the desk makes of a stream
is then written beside it. Both are committed: read the difference before you do.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.agents.codex.kit import FINAL
from tests.fakes.responses import FakeResponses, Text
from tests.golden import wire
from tests.golden.plain import Plain
from tests.golden.scenes import SCENES, Scene
from tests.golden.stage import stage

FOLDER = Path(__file__).parent
PLACE = "/var/tmp"  # the binary makes no helpers below the usual temporary folder


def stream_of(name: str) -> Path:
    return FOLDER / "streams" / f"{name}.jsonl"


def expected_of(name: str) -> Path:
    return FOLDER / "expected" / f"{name}.json"


async def record(name: str, folder: Path) -> None:
    scene = SCENES[name]
    raw = folder / "raw.jsonl"
    with FakeResponses(scene.policy or (lambda _body: Text(FINAL))) as model:
        model.script(*scene.replies)
        async with stage("record", raw, folder, model.url, **scene.changes) as recorded:
            await scene.play(recorded)
    lines = [json.loads(line) for line in raw.read_text(encoding="utf-8").splitlines()]
    kept = Plain(str(folder), wire.HOME).stream(line for line in lines if not _of_no_thread(line))
    stream_of(name).write_text("".join(json.dumps(line) + "\n" for line in kept), encoding="utf-8")


async def replay(name: str, scene: Scene, folder: Path) -> dict[str, Any]:
    """Return the summary of a recorded stream."""
    async with stage("play", stream_of(name), folder, "http://127.0.0.1:9/v1", **scene.changes) as played:
        await scene.play(played)
        return played.summary()


def _of_no_thread(line: dict[str, Any]) -> bool:
    """Notifications of no thread: of the machine that recorded. The answer to the handshake is, too."""
    message = line.get(wire.TO_CLIENT, {})
    if "userAgent" in message.get("result", {}):
        message["result"] = {"userAgent": "codex"}
    return "method" in message and "threadId" not in message.get("params", {})


async def main(names: list[str]) -> None:
    for name in names or SCENES:
        folder = Path(tempfile.mkdtemp(dir=PLACE))
        try:
            await record(name, folder)
        finally:
            shutil.rmtree(folder)
        folder = Path(tempfile.mkdtemp(dir=PLACE))
        try:
            seen = await replay(name, SCENES[name], folder)
        finally:
            shutil.rmtree(folder)
        expected_of(name).write_text(json.dumps(seen, indent=1) + "\n", encoding="utf-8")
        print(f"{name}: {[result['status'] for result in seen['results']]}, {len(seen['events'])} events")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
