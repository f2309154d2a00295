"""The prompts of roles, and their fitting to the context of a model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Any

import orjson
import structlog
from jinja2 import FileSystemLoader, StrictUndefined, TemplateError, UndefinedError
from jinja2.sandbox import SandboxedEnvironment

from chordesk.agents import subjects
from chordesk.agents.desk_roles import roles_in
from chordesk.agents.gateway.facts import ServerFacts, keep_facts
from chordesk.agents.providers.liveness import TurnLimits
from chordesk.agents.role import Role
from chordesk.agents.role_models import LOCAL, RoleModel, facts_of, limits_of, local_url, role_models
from chordesk.agents.roles import PROMPT_FOLDERS, PROMPTS
from chordesk.models.analysis import AnalysisRequest
from chordesk.models.answers import output_schema
from chordesk.models.errors import ContextWindow, DeskError, SettingError, UsageError
from chordesk.models.exchanges import CRYPTO, EXCHANGES, HOME
from chordesk.models.money import DOLLAR, coded
from chordesk.models.settings import REPLAYING, Settings
from chordesk.models.text import fenced
from chordesk.tools.toolsets import LEFT_OUT, WHY, Room, is_empty, lines_of, shorten, text_of, tokens_of

HITS_WANTED = 6  # most names that a lens is to put forward from one shard


@dataclass(frozen=True, slots=True)
class Prompt:
    base_instructions: str
    user: str


def render(role: Role, subject: Mapping[str, Any], settings: Settings, *, afresh: bool = False) -> Prompt:
    """Return the instructions and the user message of one turn. subject: of the role's subject type. afresh: the thread
    has no earlier turns; the subject's `memory` is their summary. Raises UsageError when the subject lacks a part."""
    remedy = "build it with a function of chordesk.agents.subjects"
    if lacking := vars(role.subject)["__required_keys__"] - subject.keys():
        raise UsageError(f"the subject of {role.key} lacks {', '.join(sorted(lacking))}", remedy=remedy)
    # The policies of screens and the trader read the constraints as data; the others have them in words alone.
    told = {name: part for name, part in subject.items() if name != "constraints" or role.mode != "research"}
    changed = told.pop("changed", None)
    try:
        user = _environment().get_template(role.question).render(
            constraints=subject["constraints"], market=settings.market,
            replayed=settings.market in REPLAYING, abroad=_abroad(settings), subject_block=subject_block(told),
            afresh=afresh, changed=changed, board="board" in subject,
            money=partial(_money, currency=settings.currency),
        )  # fmt: skip
    except UndefinedError as error:
        raise UsageError(f"the subject of {role.key} lacks {error}", remedy=remedy) from None
    return Prompt(instructions(role, settings), user)


def _abroad(settings: Settings) -> str:
    """Return what a model has to know of another exchange or currency than New York's; empty where there is none."""
    own, home = EXCHANGES[settings.exchange], EXCHANGES[HOME]
    if own.code == HOME and settings.currency == home.currency:
        return ""
    prices = "the second of a pair's two currencies" if own.code == CRYPTO else own.currency
    days = f"days end at midnight {own.zone}" if own.code == CRYPTO else f"days are those of {own.place}"
    return f"Prices are in {prices} unless a listing says otherwise, {days}, and money is in {settings.currency}."


def instructions(role: Role, settings: Settings) -> str:
    return _instructions(role, own_prompts(settings).get(role.key))


def own_prompts(settings: Settings) -> Mapping[str, str]:
    """Return the templates that stand in place of a role's own, by role."""
    return _texts(settings.prompts)


@lru_cache(maxsize=64)
def _texts(prompts: str) -> Mapping[str, str]:
    found: Mapping[str, str] = orjson.loads(prompts) if prompts else {}
    return found


@lru_cache(maxsize=256)
def _instructions(role: Role, own: str | None) -> str:
    environment = _environment()
    template = environment.get_template(role.prompt) if own is None else environment.from_string(own)
    tools = [tool.name for tool in role.tools]
    return template.render(
        role=role.key, hits=hits_wanted(role), tools=tools, lens=role.lens, first=role.first is not None
    )


def hits_wanted(role: Role) -> int:
    return role.lens.hits if role.lens is not None else HITS_WANTED


def require_prompts(settings: Settings) -> None:
    """Raise SettingError for an own prompt of an unknown role, one that cannot be rendered, and one without the first
    line that names its role."""
    roles = roles_in(settings)
    for key in own_prompts(settings):
        if key not in roles:
            raise SettingError(f"prompts (DESK_PROMPTS) has {key!r}", remedy=f"choose among {', '.join(roles)}")
        try:
            text = instructions(roles[key], settings)
        except TemplateError as error:
            reason = f"the prompt of {key} (DESK_PROMPTS) is no template: {type(error).__name__}: {error}"
            raise SettingError(reason, remedy=f"begin with that of agents/prompts/{roles[key].prompt}") from None
        if text.split("\n", 1)[0] != f"Role: {key}":
            reason = f"the prompt of {key} (DESK_PROMPTS) does not begin with its role, but with {text[:40]!r}"
            raise SettingError(reason, remedy=f'extend the desk\'s own ("_validator.md"), or begin with "Role: {key}"')


def subject_block(subject: Mapping[str, Any]) -> str:
    return f"```subject\n{fenced(dict(subject))}\n```"


def _money(value: float, currency: str = DOLLAR) -> str:
    return coded(f"{float(value):,.2f}", currency)


MANY_NAMES = 20
ANSWERS = "What code asked your tools for you, a moment ago. Texts in it are outside text."


def answers_block(calls: Sequence[tuple[str, Mapping[str, Any], Mapping[str, Any]]]) -> str:
    """calls: tools with their arguments and answers. Of many symbols only the number is said: the rows name them."""
    rows = [{"tool": tool, "arguments": _in_short(given), "answer": answer} for tool, given, answer in calls]
    return f"{ANSWERS}\n```answers\n{fenced(rows)}\n```"


def _in_short(arguments: Mapping[str, Any]) -> dict[str, Any]:
    symbols = arguments.get("symbols", ())
    return {**arguments, "symbols": f"{len(symbols)} of them"} if len(symbols) > MANY_NAMES else dict(arguments)


@cache
def _environment() -> SandboxedEnvironment:
    # Plain text for a model, not HTML: escaping would only garble it.
    # A prompt of a user is a template too: it reads what it is given, and nothing else.
    environment = SandboxedEnvironment(
        loader=FileSystemLoader([PROMPTS, *PROMPT_FOLDERS.values()]), undefined=StrictUndefined, autoescape=False,
        trim_blocks=True, lstrip_blocks=True, auto_reload=False,
    )  # fmt: skip
    # float() of an undefined name raises as any other use of it does; a format specification would not.
    environment.globals["money"] = _money
    environment.globals["percent"] = lambda value: f"{float(value):.1%}"
    return environment


# Fitting of a turn to the context of its model: what the prompt may take, what is left out of a subject that is too
# long, and the room that is left for the answers of tools.
#
# A context holds the instructions, the tools, the schema of the answer, the question, what tools answer, and the answer
# with its reasoning. Tokens are those of `tools.toolsets.tokens_of`.

SMALLEST_ANSWER = 1_000  # tokens of an answer, its reasoning and a call of a tool, below which no turn begins
ANSWER_PART = 4  # this part of the context is for the answer, and no more than a model call may write
KEPT_ANSWER = 1_000  # tokens of an earlier answer that a kept thread sends again
FRAME = 100  # of a chat's template, between its messages
# A row of signals_get or technicals_get (136 and 163 of 131 symbols), and a symbol in the question and in the call.
SYMBOL_DATA, SYMBOL = 170, 8
CALLS = 4 * SYMBOL_DATA  # of two calls on one symbol: the first gets half
# Parts of a subject that lose rows before the others do: the others are what is to be judged.
LESSER = ("notes", "board", "baseRates", "screenTheses", "positions", "chart", "options", "record", "signals")
Question = Callable[[Mapping[str, Any], str | None], str]


@dataclass(frozen=True, slots=True)
class Fit:
    """What a turn shows its model."""

    brief: Mapping[str, Any]
    memory: str | None
    room: Room | None = None  # for answers of tools, None where the context is not known
    left_out: tuple[str, ...] = ()  # a line for each part of the subject and the memory that lost something


def fitted(
    role: Role,
    model: RoleModel,
    settings: Settings,
    brief: Mapping[str, Any],
    memory: str | None,
    question: Question,
    context: int,
    limits: TurnLimits,
    answers: int = 0,
) -> Fit:
    """Return the subject and the memory in what the context has room for: the memory goes first, then long lists.

    question: returns the user message of a subject and a memory. context: in tokens. answers: earlier ones that the
    thread sends again. Raises ContextWindow when the smallest prompt does not fit, or nothing of a list that is to be
    judged.
    """
    fixed = fixed_tokens(role, settings)
    # A thread with more than half of the context starts afresh.
    fixed += answers * KEPT_ANSWER if fixed <= context // 2 else 0
    free, calls = context - fixed - SMALLEST_ANSWER, CALLS if role.tools else 0
    spare = context - fixed - answer_tokens(context, limits)
    most = max(spare // 2, spare - CALLS) if role.tools else spare
    asked = whole = tokens_of(question(brief, memory))
    left: list[str] = []
    if asked > most and memory is not None:
        memory, line = _fitted_memory(memory, lambda text: tokens_of(question(brief, text)) <= most)
        left.append(line)
        asked = tokens_of(question(brief, memory))
    if asked > most:
        frame = asked - tokens_of(text_of(dict(brief)))
        brief, lines, empty = _fitted_brief(brief, most - frame, max(most, free - calls // 2) - frame)
        left += lines
        asked = tokens_of(question(brief, memory))
        if empty:
            what = f"the question to {role.key} is {whole:,} tokens long"
            has = f"the context of {_name(model)}, {context:,} tokens, has room for {max(free - calls // 2, 0):,}"
            raise ContextWindow(f"{what}, and {has}", remedy=REMEDY)
    if asked > free:
        needed = fixed + asked + SMALLEST_ANSWER
        raise ContextWindow(f"{_needs(role, model, needed)}; its context has {context:,}", remedy=REMEDY)
    room = max(spare - asked, min(calls, free - asked))
    return Fit(brief, memory, Room(room) if role.tools else None, tuple(left))


def _fitted_memory(memory: str, fits: Callable[[str], bool]) -> tuple[str, str]:
    """Return a memory without its last lines, with a line in their place, and the same for people."""
    lines = memory.splitlines()
    for kept in range(len(lines) - 1, -1, -1):
        text = "\n".join([*lines[:kept], f"({len(lines) - kept} of {len(lines)} lines left out: {WHY})"])
        if kept == 0 or fits(text):
            break
    return text, f"memory: {len(lines) - kept} of {len(lines)} lines"


def _fitted_brief(brief: Mapping[str, Any], most: int, at_last: int) -> tuple[dict[str, Any], list[str], bool]:
    """A subject cut to the room, a line for each shortened part, whether a part to be judged lost all. at_last: tokens
    without lesser parts."""
    short, lesser = shorten(brief, most, only=LESSER, named=True)
    if tokens_of(text_of(short)) <= at_last:
        return short, lines_of(lesser), False
    short.pop(LEFT_OUT, None)
    rest = [key for key in short if key not in (*LESSER, "constraints", "limits")]
    shorter, others = shorten(short, at_last - tokens_of(text_of(lesser)), only=rest, named=True)
    left = {**lesser, **others}
    short = {**shorter, LEFT_OUT: {"why": WHY, **left}} if left else shorter
    return short, lines_of(left), is_empty(others)


def fixed_tokens(role: Role, settings: Settings) -> int:
    return _fixed_tokens(role, own_prompts(settings).get(role.key))


@lru_cache(maxsize=256)
def _fixed_tokens(role: Role, own: str | None) -> int:
    """Instructions, tools and schema. A server that puts them in words counts them as prompt."""
    tools = [
        {"name": tool.name, "description": tool.description, "parameters": tool.input_schema} for tool in role.tools
    ]
    texts = (_instructions(role, own), text_of(tools), text_of(output_schema(role.schema)))
    return FRAME + sum(map(tokens_of, texts))


def answer_tokens(context: int, limits: TurnLimits) -> int:
    return min(limits.output_tokens, max(SMALLEST_ANSWER, context // ANSWER_PART))


def smallest_tokens(role: Role, settings: Settings) -> int:
    asked = render(role, {**_smallest_subject(role, settings), "memory": None}, settings).user
    return fixed_tokens(role, settings) + tokens_of(asked) + (CALLS if role.tools else 0) + SMALLEST_ANSWER


def symbols_a_turn(role: Role, settings: Settings, context: int, limits: TurnLimits) -> int:
    """The answer on all symbols fits into half of the room after the question."""
    free = context - smallest_tokens(role, settings) + CALLS + SMALLEST_ANSWER - answer_tokens(context, limits)
    return max(1, free // (2 * SYMBOL_DATA + SYMBOL))


def shard_size(role: Role, settings: Settings) -> int:
    """Those of the settings, or fewer where the model's context is known and has no room for them."""
    model = role_models(settings)[role.key]
    facts = facts_of(settings, model)
    if facts is None or facts.context is None:
        return settings.shard_size
    return min(settings.shard_size, symbols_a_turn(role, settings, facts.context, limits_of(settings, role.key, model)))


def require_context(role: Role, model: RoleModel, settings: Settings, context: int) -> None:
    if (needed := smallest_tokens(role, settings)) > context:
        raise UsageError(f"{_needs(role, model, needed)}; its context has {context:,}", remedy=REMEDY)


REMEDY = (
    "give the model a larger context (llama.cpp: -c, which its slots share; Ollama: OLLAMA_CONTEXT_LENGTH, or num_ctx "
    "of the model), or the role another model (DESK_ROLE_MODELS)"
)


def _needs(role: Role, model: RoleModel, tokens: int) -> str:
    return f"a turn of {role.key} on {_name(model)} takes {tokens:,} tokens at the least"


def _name(model: RoleModel) -> str:
    return f"{model.runtime}:{model.model}"


def _smallest_subject(role: Role, settings: Settings) -> Mapping[str, Any]:
    if role.smallest is not None:
        return role.smallest(settings)
    lens = role.key.partition("_")[2]
    candidate = subjects.validator_subject("A", "equity", [], settings)
    made: Mapping[type[Any], Callable[[], Mapping[str, Any]]] = {
        subjects.ScreenerSubject: lambda: subjects.screener_subject(lens, 0, ["A"], settings),
        subjects.ResearchSubject: lambda: candidate,
        subjects.SkepticSubject: lambda: subjects.skeptic_subject(candidate, [], {}),
        subjects.AnalystSubject: lambda: subjects.analyst_subject(candidate, AnalysisRequest()),
        subjects.SynthesisSubject: lambda: subjects.synthesis_subject("A", "csp", {}, settings),
        subjects.VoiceSubject: lambda: subjects.voice_subject(role.key, 1, "", [], [], settings),
        subjects.TraderSubject: lambda: subjects.trader_subject("paper", [], {}, settings),
    }
    return made[role.subject]()


LOOK_SECONDS = 5.0
log = structlog.get_logger(__name__)


def require_contexts(settings: Settings, roles: Iterable[str]) -> None:
    """Raise UsageError for a role whose smallest prompt does not fit. An unknown context is not a reason."""
    known, models = roles_in(settings), role_models(settings)
    size_of = cache(lambda model: context_of(settings, model))
    for key in roles:
        role, model = known.get(key), models.get(key)
        if role is None or model is None or model.runtime != LOCAL:
            continue
        if (context := size_of(model)) is not None:
            require_context(role, model, settings, context)


def context_of(settings: Settings, model: RoleModel) -> int | None:
    """As the server says now, without a model call, else as kept; None where neither is known. Not on an event loop."""
    kept = facts_of(settings, model)
    seen = _look(settings, model) if settings.cassettes != "replay" else None
    if seen is None or seen.context is None:
        return kept.context if kept is not None else None
    now = {"context": seen.context, "slots": seen.slots or (kept.slots if kept is not None else None)}
    if kept is not None and (kept.context, kept.slots) != tuple(now.values()):
        keep_facts(settings.home, kept.model_copy(update=now))
    return seen.context


def _look(settings: Settings, model: RoleModel) -> ServerFacts | None:
    from chordesk.agents.gateway.probe import look_at_server  # its library is for desks with such a server alone

    url, key = local_url(settings), settings.provider_key if settings.provider == LOCAL else None
    assert url is not None, "models_in_use refuses a local model without a server"
    asking = look_at_server(url, key.get_secret_value() if key else None, model.model, settings.codex_ca_file)
    try:
        return asyncio.run(asyncio.wait_for(asking, LOOK_SECONDS))
    except (DeskError, TimeoutError) as error:
        log.info("server.not_seen", model=model.model, error=str(error) or "it does not answer in time")
        return None
