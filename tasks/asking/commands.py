"""`desk ask`: a question in words, answered from the desk's rows, else by a model in a run."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group

from chordesk.models.errors import DeskError, UsageError
from chordesk.tasks.asking.display import TERMINAL, answer_shown, card_shown, dialogue_table, entry_shown
from chordesk.tasks.cli.output import emit
from chordesk.tasks.cli.shell import Json, leave_to_caller, looks, opened, whoami

if TYPE_CHECKING:
    from chordesk.models.database.store import Store
    from chordesk.models.settings import Settings
    from chordesk.tasks.asking.answers import Answer
    from chordesk.tasks.proposals import Proposed

commands = typer.Typer()
LISTED = 40  # dialogues
PROMPT = "> "


@commands.command("ask")
@looks("the desk has done nothing yet", as_json="null")
def ask(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[QUESTION]", help="In English, such as: why was ED bought")
    ] = None,
    account: Annotated[str | None, typer.Option(help="An account; else the desk's.")] = None,
    model: Annotated[bool, typer.Option("--model", help="Ask a model, also what the rows answer at once.")] = False,
    dialogue: Annotated[
        str | None, typer.Option("--in", help="Go on with this dialogue, or without a question: show it.")
    ] = None,
    new: Annotated[bool, typer.Option("--new", help="Begin a new dialogue.")] = False,
    every: Annotated[bool, typer.Option("--dialogues", help="List the dialogues.")] = False,
    budget: Annotated[int | None, typer.Option(help="Tokens in place of DESK_ASKING_TOKENS.", min=1)] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for a model's answer.")] = True,
    as_json: Json = False,
) -> None:
    """Ask the desk: why, what changed, what it holds and costs.

    It answers from its rows at once, for no tokens. What they do not know, a model answers in a run, by looking up.
    Words that ask for something to be done, such as "stop run 01a226c8" or "halt", become a proposal for you to
    confirm. Without a question, on a terminal, it asks for one after the other in one dialogue, until Ctrl-D.
    """
    text = " ".join(words or ())
    if (text.strip() and every) or (new and dialogue is not None):
        which = "--dialogues and a question" if every else "--new and --in"
        raise UsageError(f"{which} do not go together", remedy="leave one of them out")
    talks = not (text.strip() or every or dialogue or as_json)
    if talks:
        leave_to_caller()  # which has the terminal
    settings, store = opened()
    if talks and sys.stdin.isatty() and sys.stdout.isatty():
        _talk(settings, store, account, model=model, new=new, budget=budget)
    elif every or not text.strip():
        _look_back(store, dialogue, every=every, as_json=as_json)
    else:
        going_on = _dialogue(settings, store, account, dialogue, new=new)
        asking = Asking(settings, store, account, model, budget, wait=wait, as_json=as_json)
        if code := asking.ask(text, going_on)[1]:
            raise typer.Exit(code)


def _talk(settings: Settings, store: Store, account: str | None, *, model: bool, new: bool, budget: int | None) -> None:
    """Ask in one dialogue until standard input ends. What fails ends no more than its own question."""
    dialogue = _dialogue(settings, store, account, None, new=new)
    asking = Asking(settings, store, account, model, budget)
    typer.echo("ask; Ctrl-D ends")
    while True:
        try:
            text = input(PROMPT)
        except (EOFError, KeyboardInterrupt):
            typer.echo()
            return
        if not text.strip():
            continue
        try:
            dialogue = asking.ask(text, dialogue)[0]
        except DeskError as error:
            typer.echo(f"{error.args[0]}{f'; {error.remedy}' if error.remedy else ''}", err=True)


@dataclass(frozen=True, slots=True)
class Asking:
    """How questions are asked: as the options of the command say."""

    settings: Settings
    store: Store
    account: str | None
    model: bool
    budget: int | None
    wait: bool = True
    as_json: bool = False

    def ask(self, text: str, dialogue: str | None) -> tuple[str | None, int]:
        """Print the answer; return the dialogue to go on with, and the code to end with."""
        settings, store = self.settings, self.store
        if not self.model and (card := _proposed(settings, store, text)) is not None:
            emit(card, card_shown, as_json=self.as_json)
            return dialogue, 0
        if not self.model and (found := _looked_up(settings, store, text, self.account)) is not None:
            kept = _kept(settings, store, found, self.account, dialogue)
            emit(found, answer_shown, as_json=self.as_json)
            return kept or dialogue, 0
        leave_to_caller()
        from chordesk.tasks.asking.clerk_command import ask_clerk

        return ask_clerk(text, self.account, dialogue, self.budget, wait=self.wait, as_json=self.as_json)


def _proposed(settings: Settings, store: Store, text: str) -> Proposed | None:
    """Return the proposal that the words ask for; None where they ask for no act."""
    from chordesk.tasks.asking.proposing import Asker, from_text, proposed, wish
    from chordesk.tasks.bootstrap import Desk
    from chordesk.tasks.proposals import Office

    if wish(text) is None:
        return None
    with closing(Desk(settings, "ask")) as desk:
        made = from_text(Office(settings, store, lambda: desk), text, Asker(whoami(), f"the {TERMINAL}"))
        return proposed(made, settings) if made is not None else None


def _looked_up(settings: Settings, store: Store, text: str, account: str | None) -> Answer | None:
    """Return the answer from rows; None where a model is to be asked. Rules know no more than the look-ups do."""
    from chordesk.agents.role_models import role_models
    from chordesk.tasks.asking.lookup import answer
    from chordesk.tasks.bootstrap import Desk
    from chordesk.tasks.engine.budgets import RULES

    with closing(Desk(settings, "ask")) as desk:
        found = answer(settings, store, desk.account_market, text, account)
    if not found.intent and role_models(settings)["clerk"].provider(settings) != RULES:
        return None
    return found


def _dialogue(settings: Settings, store: Store, account: str | None, part: str | None, *, new: bool) -> str | None:
    from chordesk.tasks.asking.dialogues import going_on, named_dialogue, person_of
    from chordesk.tasks.reading.accounts import find_account

    with store.read() as session:
        name = find_account(session, settings, account or settings.account)
        if part is not None:
            return named_dialogue(session, part, name)
        return None if new else going_on(session, person_of(whoami()), TERMINAL, name)


def _kept(settings: Settings, store: Store, found: Answer, account: str | None, dialogue: str | None) -> str | None:
    """Keep an answer for the questions that follow, and return its dialogue. It is printed too where it could not be
    kept."""
    from sqlalchemy.exc import SQLAlchemyError

    from chordesk.tasks.asking.dialogues import keep_answer, person_of

    if not found.intent:
        return None
    try:
        given = (person_of(whoami()), TERMINAL, account or settings.account)
        return keep_answer(store, found, *given, dialogue).dialogue
    except SQLAlchemyError as error:
        typer.echo(f"the answer is not kept: {type(error).__name__}", err=True)
        return None


def _look_back(store: Store, dialogue: str | None, *, every: bool, as_json: bool) -> None:
    from chordesk.tasks.asking.dialogues import dialogue_entries, dialogues, entry_view, whole_dialogue

    if not every and dialogue is None:
        raise UsageError("there is no question", remedy="such as: desk ask why was ED bought; desk ask help lists more")
    with store.read() as session:
        if dialogue is None:
            rows = dialogues(session, LISTED)
            emit(rows, dialogue_table, as_json=as_json)
            return
        found = [entry_view(session, one) for one in dialogue_entries(session, whole_dialogue(session, dialogue))]
    emit(found, lambda one: Group(*(entry_shown(each, question=True) for each in one)), as_json=as_json)
