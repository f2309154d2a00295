"""The commands of docs/crypto.md, each as it is printed there, in processes of their own against the stand-in."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path

import pytest
from far_kraken import TEN, FarKraken

PAGE = (Path(__file__).parents[3] / "docs" / "crypto.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
DESK = str(Path(sys.executable).with_name("desk"))


@pytest.fixture
def far() -> Iterator[FarKraken]:
    with FarKraken() as venue:
        for place, coin in enumerate(TEN):
            venue.days(f"{coin}-USD", 730, price=100.0 + 17 * place)
        yield venue


def exports(block: str) -> dict[str, str]:
    lines = [
        line.removeprefix("export ").partition("#")[0] for line in block.splitlines() if line.startswith("export ")
    ]
    return dict(one.split("=", 1) for line in lines for one in shlex.split(line))


def desk(environ: Mapping[str, str], *arguments: str, seconds: float = 300) -> str:
    done = subprocess.run([DESK, *arguments], env=environ, capture_output=True, text=True, timeout=seconds)
    assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def environment(home: Path, far: FarKraken, **more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    return {**kept, **more, "DESK_HOME": str(home), "DESK_CCXT_URL": far.url, "COLUMNS": "200"}


def test_a_stranger_screens_ten_pairs(tmp_path: Path, far: FarKraken) -> None:
    block = next(one for one in BLOCKS if "DESK_UNIVERSE=" in one)
    environ = environment(tmp_path, far, **exports(block))
    assert environ["DESK_UNIVERSE"].split(",") == [f"{coin}-USD" for coin in TEN]
    assert "desk doctor" in block
    found = desk(environ, "doctor")
    assert re.search(r"Kraken has 10 pairs, .* maker 0\.16%, taker 0\.26%", " ".join(found.split())), found
    assert "desk up" in block
    up = subprocess.Popen([DESK, "up"], env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 120
        while True:
            done = subprocess.run([DESK, "screen"], env=environ, capture_output=True, text=True, timeout=280)
            if done.returncode == 0 or time.monotonic() > until:
                break
            time.sleep(1)  # it is not up yet
        text = done.stdout + done.stderr
        assert done.returncode == 0, text
        assert re.search(r"screen 4/4 .* verdicts (\d)/\1", " ".join(text.split())), text
        assert "ccxt market at" in text
    finally:
        up.terminate()
        up.wait(60)


def test_an_account_is_compared_and_holdings_are_refreshed(tmp_path: Path, far: FarKraken) -> None:
    orders = next(one for one in BLOCKS if "DESK_BROKER=ccxt-kraken" in one)
    assert exports(orders)["DESK_BROKER"] == "ccxt-kraken"
    far.rights = ["query-funds", "modify-trades"]
    keys = {"KRAKEN_API_KEY": far.key, "KRAKEN_API_SECRET": far.secret}
    market = {"DESK_MARKET": "ccxt", "DESK_EXCHANGE": "crypto", "DESK_UNIVERSE": "BTC-USD"}
    environ = environment(tmp_path, far, DESK_BROKER="ccxt-kraken", DESK_STARTING_CASH="1000000", **keys, **market)
    desk(environ, "db", "upgrade")
    assert "agree" in desk(environ, "reconcile")
    far.balances["BTC"] = Decimal("0.5")
    done = subprocess.run([DESK, "reconcile"], env=environ, capture_output=True, text=True, timeout=120)
    assert "BTC-USD: 0 here, 0.5 at the broker" in " ".join((done.stdout + done.stderr).split())
    reading = {"KRAKEN_READ_KEY": far.key, "KRAKEN_READ_SECRET": far.secret, "CCXT_STAND_IN": far.url}
    refresh = re.search(r"desk (holdings refresh kraken.*)", PAGE)
    assert refresh is not None
    refused = subprocess.run(
        [DESK, *refresh[1].split()], env=environ | reading, capture_output=True, text=True, timeout=120
    )
    assert "may trade" in refused.stdout + refused.stderr
    far.rights = ["query-funds"]
    assert "2 holdings" in desk(environ | reading, *refresh[1].split())
