"""What is promised of a desk on any real model, each tried on a small one.

The model is weak, so its reports say little. What counts is that every run ends in time, that answers fit where the
server can hold them to a schema, that nothing is sent, and that each failure says what it was.
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager

from langchain_core.messages import ToolMessage
from langchain_core.tools import tool

from chordesk.agents.graphs.langchain.chat_codex import ChatCodex
from chordesk.agents.graphs.langchain.ephemeral_turns import ChatError
from chordesk.models.tables.runs import Report, Turn
from tests.real.desk import ONE_ROLE, RealDesk, desk_on, outcomes, said
from tests.real.figures import Figures
from tests.real.server import MODEL, LlamaServer, running

Promise = Callable[[RealDesk, Figures], str]
# llama.cpp stops to write at once, and notices that nobody listens any more only when it has read a prompt.
IDLE_SECONDS = 120.0
AWAY_SECONDS = 15.0
CHAT_SECONDS = 300.0
SMALL_CONTEXT = 2_048
# What a turn may fail of when its server goes away, and what such a model fails of by itself.
OF_THE_SERVER = {"stream_cut", "unreachable", "server_error", "overloaded"}
OF_THE_MODEL = {"invalid_output", "length", "context_window", "timeout"}


def the_doctor_shows_what_the_server_can_do(desk: RealDesk, _figures: Figures) -> str:
    done = desk.command("doctor")
    rows = done.stdout.splitlines()
    found = [place for place, row in enumerate(rows) if re.match(r"(server|model)\s+(ok|warn|fail)", row)]
    assert found, said(done)[-600:]
    _show(rows[found[0] : -1])
    text = said(done)
    for wanted in ("held to the JSON schema by the server", "8,192 tokens", "2 turns", "tokens a second"):
        assert wanted in text, f"the table has no {wanted!r}"
    return rows[-1]


def a_research_of_two_symbols_ends(desk: RealDesk, figures: Figures) -> str:
    before, began = desk.server.work(), time.monotonic()
    done = desk.command("research", "AAPL", "IBM")
    figures.research_seconds = time.monotonic() - began
    figures.work = desk.server.work().since(before)
    id_ = re.findall(r"run ([0-9a-f]{32}) started", done.stdout)
    assert id_, said(done)[-600:]
    _show(line for line in done.stdout.splitlines() if not re.match(r"\s*\d+\.\d s  ", line))
    reports, turns = desk.reports(id_[0]), desk.turns(id_[0])
    figures.reports, figures.turns = list(reports), list(turns)
    assert desk.run(id_[0]).state in ("done", "failed"), desk.run(id_[0]).state
    assert len({report.symbol for report in reports}) == 2, "each symbol has a report"
    _check_reasons(reports, turns)
    failed = [turn for turn in turns if turn.outcome == "failed"]
    # The server holds every answer to its schema.
    assert all(turn.failure_kind in OF_THE_MODEL for turn in failed), Counter(one.failure_kind for one in failed)
    assert len(failed) < len(turns) / 2, f"{len(failed)} of {len(turns)} turns failed"
    assert not any(report.verdict == "CONFIRMED" and not report.grounding for report in reports)
    return f"{desk.run(id_[0]).state}, exit code {done.returncode}, reports {outcomes(reports)}"


def _check_reasons(reports: Sequence[Report], turns: Sequence[Turn]) -> None:
    for report in reports:
        assert report.status == "completed" or report.reason, f"{report.role} {report.symbol} says no reason"
    for turn in turns:
        assert turn.outcome != "completed" or turn.way, f"the turn of {turn.role} does not say how its schema was put"


def a_trader_on_such_verdicts_sends_nothing(desk: RealDesk, figures: Figures) -> str:
    assert figures.turns, "there was no research"
    done = desk.command("trade", figures.turns[0].run_id)
    lines = [line for line in done.stdout.splitlines() if line.strip() and not re.match(r"\s*\d+\.\d s  ", line)]
    _show(lines[-4:] or [said(done)])
    assert not desk.sent(), desk.sent()
    return f"exit code {done.returncode}, no order left the desk, whose broker would take one"


def a_thread_is_kept_over_two_runs(desk: RealDesk, _figures: Figures) -> str:
    first, second = (desk.turns(desk.ended(desk.opened("research", "KO", **ONE_ROLE)).id) for _ in range(2))
    assert first, "no turn in the first run"
    assert second, "no turn in the second run"
    before, after = first[-1], second[0]
    assert after.kept
    how = str(after.thread_reason)
    if how.startswith("rollover"):
        return f"a new thread ({how}): of this context the first run took {before.total_tokens or 0:,} tokens"
    assert (how, after.thread_id) == ("resumed", before.thread_id), how
    return f"thread {after.thread_id} resumed, {after.cached_input_tokens or 0:,} of its tokens still in the cache"


def a_run_that_is_stopped_frees_the_server(desk: RealDesk, _figures: Figures) -> str:
    id_ = desk.opened("research", "GE", **ONE_ROLE)
    desk.await_writing()
    began = time.monotonic()
    stopped = desk.command("stop", id_)
    seconds = desk.await_idle(IDLE_SECONDS)
    run = desk.ended(id_)
    assert run.state == "stopped", run.state
    assert stopped.returncode == 0, said(stopped)
    whole = time.monotonic() - began
    return f"the command took {whole - seconds:.1f} s; the server's slots were idle {seconds:.1f} s after it"


def a_prompt_that_is_too_long_is_told_with_both_numbers(desk: RealDesk, _figures: Figures) -> str:
    told = _refusal(
        lambda: _chat(desk).invoke("What follows is a list of numbers. " + " ".join(map(str, range(8_000))))
    )
    assert told.kind == "context_window", f"{told.kind}: {told}"
    assert len(re.findall(r"\d+,\d{3}", str(told))) >= 2, str(told)
    return str(told)


def _refusal(call: Callable[[], object]) -> ChatError:
    try:
        call()
    except ChatError as error:
        return error
    raise AssertionError("it was answered")


def a_context_that_is_too_small_is_refused_before_a_run(desk: RealDesk, _figures: Figures) -> str:
    with _small_server(desk.server) as small, desk_on(small) as other:
        done = other.command("research", "AAPL")
        text = said(done)
        assert done.returncode == 2, f"exit code {done.returncode}: {text[-600:]}"
        assert f"{SMALL_CONTEXT:,}" in text, text
        assert "started" not in done.stdout
        return text


def _small_server(server: LlamaServer) -> AbstractContextManager[LlamaServer]:
    return running(server.packages, server.log.with_name("small.log"), context=SMALL_CONTEXT, slots=1)


def a_server_that_is_killed_and_back_ends_no_run_for_ever(desk: RealDesk, _figures: Figures) -> str:
    id_ = desk.opened("research", "PG", "JNJ", **ONE_ROLE)
    desk.await_writing()
    desk.server.kill()
    time.sleep(AWAY_SECONDS)
    desk.server.start()
    run, turns, reports = desk.ended(id_), desk.turns(id_), desk.reports(id_)
    kinds = Counter(turn.failure_kind for turn in turns if turn.failure_kind)
    assert set(kinds) & OF_THE_SERVER, f"no turn says that the server was away: {dict(kinds)}"
    assert set(kinds) <= OF_THE_SERVER | OF_THE_MODEL, dict(kinds)
    _check_reasons(reports, turns)
    later = [turn for turn in turns if turn.attempt > 1]
    assert later, "no turn was tried again"
    assert not any(str(report.reason).startswith("unreachable") for report in reports), "it was back in time"
    _show(dict.fromkeys(f"{one.role} {one.symbol}: {one.status} ({one.reason})" for one in reports))
    return f"{run.state}; failures {dict(kinds)}, {len(later)} turns tried again; reports {outcomes(reports)}"


def a_question_is_looked_up_and_no_invented_figure_passes(desk: RealDesk, _figures: Figures) -> str:
    done = desk.command("ask", "--model", "why was AAPL bought", "--new", "--json")
    assert done.returncode in (0, 1), said(done)[-600:]
    found = json.loads(done.stdout)
    assert found["state"] in ("answered", "failed"), found["state"]
    if found["state"] == "failed":
        assert found["reason"], "it says no reason"
        return f"no answer: {found['reason'][:200]}"
    assert found["text"].count("[not found]") == len({one["end"] for one in found["unsupported"]})
    (turn, *_) = desk.turns(found["run_id"])
    return f"{found['found']} of {found['figures']} figures found, {turn.total_tokens} tokens: {found['text'][:160]!r}"


@tool
def price_of(symbol: str) -> str:
    """Return the price of a stock."""
    return f"{symbol} costs 12.50"


def chat_codex_calls_tools_and_keeps_to_a_schema(desk: RealDesk, _figures: Figures) -> str:
    chat = _chat(desk)
    question = "What does ACME cost? Call the tool price_of with the symbol ACME."
    first = chat.bind_tools([price_of], tool_choice="any").invoke(question)
    assert first.tool_calls, f"no tool was called: {first.content!r}"
    call = first.tool_calls[0]
    assert call["name"] == "price_of", call
    answer = ToolMessage(price_of.invoke(call["args"]), tool_call_id=call["id"])
    last = chat.bind_tools([price_of], tool_choice="none").invoke([("user", question), first, answer])
    assert isinstance(last.content, str)
    schema = {
        "title": "Company",
        "type": "object",
        "properties": {"name": {"type": "string"}, "listed": {"type": "boolean"}},
        "required": ["name", "listed"],
    }
    try:
        found = str(chat.with_structured_output(schema).invoke("Name a company of cars, and say whether it is listed."))
    except ChatError as error:
        found = f"a typed error ({type(error).__name__}: {error})"
    return f"called {call['name']}({call['args']}), then said {last.content[:60]!r}; structured: {found}"


def _chat(desk: RealDesk) -> ChatCodex:
    return ChatCodex(
        model=MODEL, provider="local", base_url=desk.server.url, home=desk.processes.home / "chat",
        timeout=CHAT_SECONDS, max_retries=0,
    )  # fmt: skip


def _show(lines: Iterable[str]) -> None:
    for line in lines:
        print(f"      {line}".rstrip(), flush=True)


PROMISES: tuple[Promise, ...] = (
    the_doctor_shows_what_the_server_can_do,
    a_research_of_two_symbols_ends,
    a_trader_on_such_verdicts_sends_nothing,
    a_question_is_looked_up_and_no_invented_figure_passes,
    a_thread_is_kept_over_two_runs,
    a_run_that_is_stopped_frees_the_server,
    a_prompt_that_is_too_long_is_told_with_both_numbers,
    a_context_that_is_too_small_is_refused_before_a_run,
    a_server_that_is_killed_and_back_ends_no_run_for_ever,
    chat_codex_calls_tools_and_keeps_to_a_schema,
)
