"""The pre-flight on real services, and each way in which it must say no."""

from __future__ import annotations

import datetime as dt
import errno
import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import codex_cli_bin
import pytest

from chordesk.models.database import store
from chordesk.models.errors import DatabaseUnfit, LoginMissing, ModelMissing, RedisDown
from chordesk.models.settings import Settings
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.doctor import check, trading
from chordesk.tasks.doctor.check import Check, CheckContext, CheckEntry, CheckStatus, run_checks
from chordesk.tasks.doctor.checklist import ALL
from chordesk.tasks.redis_clients import why_forgetful, why_unfit
from chordesk.tools.ledger import ensure_account
from chordesk.tools.market.clock import exchange_hours
from tests.agents.rulebook.turns import Live
from tests.builders import uninstalled
from tests.fakes.responses import FakeResponses
from tests.fakes.responses import Status as Http
from tests.parts import needs
from tests.patience import PATIENCE
from tests.tasks.cli.running import desk
from tests.tools.market.files.folders import HEADER, sessions, walk, write_table


def check_context(home: Path, **settings: Any) -> CheckContext:
    made = Settings(**{"home": home, "redis_url": f"unix://{home}/none.sock", **settings})
    return CheckContext(made, Desk(made, "doctor-test"))


def one(name: str, context: CheckContext) -> Check:
    return run_checks(context, [each for each in ALL if each.name == name])[0]


@pytest.fixture
def fake() -> Iterator[FakeResponses]:
    with FakeResponses() as far:
        yield far


def test_a_fresh_desk_passes_with_the_real_binary_and_leaves_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    done = desk(home, "doctor", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    states = {each["name"]: each["status"] for each in found["checks"]}
    assert list(states) == [each.name for each in ALL]
    assert states.pop("database") == "warn"
    assert set(states.values()) == {"ok"}
    assert "no such table" not in done.stderr
    assert "rulebook" in found["model"]
    assert not (home / "run" / "services.json").exists()


def test_a_redis_that_is_down_fails_and_a_port_that_another_program_has_is_named(
    tmp_path: Path,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        given = {"DESK_REDIS_URL": f"unix://{tmp_path}/none.sock", "DESK_API_PORT": port}
        done = desk(tmp_path / "home", "doctor", "--json", **given)
    found = {each["name"]: each for each in json.loads(done.stdout)["checks"]}
    assert (done.returncode, found["redis"]["status"], found["redis"]["remedy"]) == (1, "fail", RedisDown.remedy)
    assert (found["ports"]["status"], port in found["ports"]["detail"]) == ("warn", True)


def test_a_missing_binary_names_the_path_and_the_remedy(tmp_path: Path) -> None:
    found = one("codex binary", check_context(tmp_path, codex_binary=tmp_path / "codex"))
    assert found.status is CheckStatus.FAIL
    assert str(tmp_path / "codex") in found.detail
    assert "DESK_CODEX_BINARY" in found.remedy


def test_another_version_of_the_binary_is_a_warning(tmp_path: Path) -> None:
    other = tmp_path / "codex"
    other.write_text("#!/bin/sh\necho codex-cli 0.1.0\n", encoding="utf-8")
    other.chmod(0o755)
    assert one("codex binary", check_context(tmp_path, codex_binary=other)).status is CheckStatus.WARN


def test_no_login_names_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    found = one("model", check_context(tmp_path / "home", provider="codex"))
    assert found.status is CheckStatus.FAIL
    assert found.remedy == LoginMissing.remedy


@pytest.mark.parametrize(("code", "remedy"), [(404, ModelMissing.remedy), (401, "check DESK_PROVIDER_KEY")])
def test_a_model_that_is_not_there_or_a_wrong_key(tmp_path: Path, fake: FakeResponses, code: int, remedy: str) -> None:
    fake.policy = lambda _request: Http(code, {"error": {"message": "no such model"}})
    found = one("model", check_context(tmp_path, provider="endpoint", provider_url=fake.url, model="gpt-nowhere"))
    assert found.status is CheckStatus.FAIL
    assert found.remedy == remedy


def test_a_model_without_a_price_is_named_with_the_setting_that_gives_it_one(tmp_path: Path) -> None:
    mixed = {"provider": "codex", "model": "gpt-6.2-sol", "voice_models": "codex:gpt-5.5;codex:gpt-next"}
    found = one("prices", check_context(tmp_path, **mixed))
    assert (found.status, "gpt-6.2-sol, gpt-next" in found.detail) == (CheckStatus.WARN, True)
    own = found.remedy.partition('"')[2].partition('"')[0].replace("INPUT/CACHED/OUTPUT", "1/0.5/2")
    found = one("prices", check_context(tmp_path, **mixed, prices=own))
    assert (found.status, "gpt-6.2-sol 1 input, 0.5 cached, 2 output; " in found.detail) == (CheckStatus.OK, True)


@needs("litellm")
def test_the_models_of_litellm_are_asked_and_a_missing_key_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert one("litellm", check_context(tmp_path)).detail == "no role uses it"
    with Live() as rules:
        context = check_context(tmp_path, rulebook_url=rules.url, role_models="risk=litellm:rulebook")
        assert one("litellm", context).detail == "answered: rulebook"
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    found = one("litellm", check_context(tmp_path, role_models="risk=litellm:openai/gpt-5.5"))
    assert found.status is CheckStatus.WARN
    assert "OPENAI_API_KEY" in found.detail
    assert "in a shell that has the key" in found.remedy


def test_a_binary_that_shows_other_tools_is_found_out(tmp_path: Path) -> None:
    """The real binary behind a script that gives it one built-in tool back."""
    real = codex_cli_bin.bundled_codex_path()
    script = tmp_path / "bin"
    script.write_text(
        "#!/bin/sh\nfor a; do shift; "
        '[ "$a" = app-server ] && set -- "$@" -c "tools.update_plan={enabled=true}"; set -- "$@" "$a"; done\n'
        f'exec {real} "$@"\n',
        encoding="utf-8",
    )
    script.chmod(0o755)
    found = one("tools", check_context(tmp_path, codex_binary=script))
    assert found.status is CheckStatus.FAIL
    assert "update_plan" in found.detail


def test_a_database_of_another_revision_fails(tmp_path: Path) -> None:
    context = check_context(tmp_path)
    assert check.database(context).status is CheckStatus.WARN
    store.upgrade(context.settings.database)
    assert check.database(context).status is CheckStatus.OK
    with context.desk.store.session() as session:
        session.connection().exec_driver_sql("update alembic_version set version_num = 'older'")
    with pytest.raises(DatabaseUnfit, match="is at revision older, which this version"):
        check.database(context)


def test_a_check_that_hangs_or_breaks_is_a_failed_check(tmp_path: Path) -> None:
    never = threading.Event()

    def hangs(_context: CheckContext) -> Check:
        never.wait(PATIENCE)
        raise AssertionError

    def breaks(_context: CheckContext) -> Check:
        raise ValueError("a surprise")

    def has_no_room(_context: CheckContext) -> Check:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/desk/codex")

    checks = [CheckEntry("hangs", hangs, 0.2), CheckEntry("breaks", breaks, 5), CheckEntry("writes", has_no_room, 5)]
    found = run_checks(check_context(tmp_path), checks)
    never.set()
    assert [each.status for each in found] == [CheckStatus.FAIL] * 3
    assert "make room" in found[2].remedy
    assert "within 0.2 s" in found[0].detail
    assert "a surprise" in found[1].detail


def test_an_eviction_policy_or_an_old_server_is_noticed() -> None:
    good = {"redis_version": "7.2.4", "maxmemory_policy": "noeviction", "aof_enabled": 1}
    assert why_forgetful(good) is None
    assert why_unfit(good, None) is None
    assert why_unfit({**good, "redis_version": "6.0.16"}, None) is not None
    assert why_forgetful({**good, "maxmemory_policy": "allkeys-lru"}) is not None
    assert why_forgetful({**good, "aof_enabled": 0}) is not None
    assert why_unfit({**good, "aof_enabled": 0, "saves": False}, None) is not None
    assert why_unfit({**good, "role": "slave", "master_host": "first", "master_port": 6379}, None) is not None


@pytest.mark.parametrize(
    ("name", "given", "variable", "extra"),
    [
        ("filings", {"sec_identity": "Ada Lovelace ada@example.org"}, "DESK_SEC_IDENTITY", "filings"),
        ("venues", {"venues": ("manifold", "hyperliquid")}, "DESK_VENUES", "events"),
    ],
)
def test_what_is_off_is_fine_and_what_lacks_its_package_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, given: dict[str, Any], variable: str, extra: str
) -> None:
    off, context = one(name, check_context(tmp_path)), check_context(tmp_path, **given)
    assert (off.status, variable in off.detail) == (CheckStatus.OK, True)
    assert one(name, context).status is CheckStatus.OK
    uninstalled(monkeypatch)
    lacking = one(name, context)
    assert (lacking.status, f"pip install 'chordesk[{extra}]'" in lacking.remedy) == (CheckStatus.WARN, True)


def test_pages_name_their_hosts_and_what_their_browser_lacks(tmp_path: Path) -> None:
    assert "DESK_PAGE_HOSTS" in one("pages", check_context(tmp_path)).detail
    browser = tmp_path / "browser"
    for script, said in (("echo Chromium 1.2.3", "(Chromium 1.2.3)"), ("exit 1", "does not run: it ended with 1")):
        browser.write_text(f"#!/bin/sh\n{script}\n")
        browser.chmod(0o700)
        found = one("pages", check_context(tmp_path, page_hosts="www.sec.gov", page_browser=str(browser)))
        assert (found.status, "www.sec.gov" in found.detail, said in found.detail) == (CheckStatus.OK, True, True)


def test_own_data_are_checked_file_by_file(tmp_path: Path) -> None:
    def found(market: str) -> Check:
        return one("data", check_context(tmp_path, market=market, data=tmp_path / "own"))

    bars = write_table(tmp_path / "own" / "bars" / "A.csv", HEADER, walk(sessions("2020-01-02", 70)))
    assert found("replay").detail.startswith("no folder of own data is in use")
    assert found("files").status is CheckStatus.OK
    assert "bars: 1 symbols, 70 bars, 2020-01-02 to" in found("files").detail
    write_table(bars, HEADER, walk(sessions("2020-01-02", 10)))
    assert found("files").status is CheckStatus.WARN
    write_table(tmp_path / "own" / "headlines.csv", ("symbol", "time", "headline"), [("A", "2020-01-03 09:00", "x")])
    assert found("files").status is CheckStatus.FAIL
    assert "1 errors: headlines.csv, row 2, column time: '2020-01-03 09:00' has no zone" in found("files").detail


def test_the_account_is_read_once_it_is_there(tmp_path: Path) -> None:
    context = check_context(tmp_path)
    assert "not opened yet" in trading.broker(context).detail
    store.upgrade(context.settings.database)
    with context.desk.store.session() as session:
        ensure_account(session, "paper", 12_345.0)
    found = trading.broker(context)
    assert (found.status, "12,345.00" in found.detail) == (CheckStatus.OK, True)


def test_what_another_exchange_rests_on_is_looked_at(tmp_path: Path) -> None:
    days = exchange_hours("XHKG").between(dt.date(2026, 10, 12), dt.date(2026, 11, 27))
    own = tmp_path / "own"
    for symbol in ("0700.HK", "0005.HK"):
        write_table(own / "bars" / f"{symbol}.csv", HEADER, [(day, 400, 402, 398, 400, 1_000_000) for day in days])
    told = {"exchange": "XHKG", "universe": "0700.HK,0005.HK", "market": "files", "data": own, "replay_date": days[-1]}
    (tmp_path / "home").mkdir()
    context = check_context(tmp_path / "home", **told)
    found = one("exchanges", context)
    assert found.status is CheckStatus.WARN
    for words in (
        "Hong Kong", "sessions left", "stamp duty of Hong Kong, 2023-11-17", "is known of 0700.HK, 0005.HK",
        "HKDUSD: no rate of HKDUSD is known", "2026-10-30",
    ):  # fmt: skip
        assert words in found.detail
    for remedy in ("lot in listings.csv", "fx.csv"):
        assert remedy in found.remedy
    (own / "fx.csv").write_text("date,pair,rate\n2026-11-26,HKDUSD,0.128\n")
    (own / "listings.csv").write_text("symbol,lot\n0700.HK,100\n0005.HK,400\n")
    found = one("exchanges", check_context(tmp_path / "home", **told))
    assert "HKDUSD" not in found.detail
    assert "is known of" not in found.detail
    # 400 shares of 400 Hong Kong dollars at 0.128.
    assert "one lot is more than an order may be (10,000.00): 0005.HK (400 for 20,480.00)" in found.detail
    assert "DESK_MAX_ORDER_NOTIONAL" in found.remedy
    (own / "fx.csv").write_text("date,pair,rate\n2026-10-12,HKDUSD,0.128\n")  # 46 days ago, the ECB's newest 28
    found = one("exchanges", check_context(tmp_path / "home", max_fx_age=30, **told))
    assert "HKDUSD: the newest rate of fx.csv is of 2026-10-12, longer ago than DESK_MAX_FX_AGE" in found.detail
    assert "of 2026-10-30 stands in" in found.detail
    assert "add newer rates to fx.csv" in found.remedy
