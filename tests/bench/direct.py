"""The baseline of graphs: one after another in a plain program, by ChatCodex on a runtime of its own, without a desk.

Run as a process; prints one JSON line with the seconds of each, after one that is not counted.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

from chordesk.agents.langchain.bridge import using
from chordesk.agents.langchain.runtimes import Connection, own_bridge
from tests.bench.graphs import FACTORY, input_of
from tests.toy import graphs


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", required=True)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--graphs", type=int, required=True)
    given = parser.parse_args()
    graph = getattr(graphs, FACTORY)().compile()
    seconds = []
    with using(own_bridge(Connection(graphs.MODEL, "endpoint", given.url, None, given.home))):
        for number in range(1 + given.graphs):
            began = time.perf_counter()
            found = graph.invoke(input_of(f"T{number}"), {"recursion_limit": 100})
            seconds.append(time.perf_counter() - began)
            assert found["nodes"] == list(graphs.NODES)
    print(json.dumps(seconds[1:]), flush=True)


if __name__ == "__main__":
    main()
