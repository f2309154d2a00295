"""`desk lens new`: a lens from a person's words, drafted by the drafter or by hand, and kept by a person alone."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from chordesk.models.errors import DeskError, UsageError
from chordesk.tasks.cli.lens import looking
from chordesk.tasks.cli.output import console, print_line
from chordesk.tasks.cli.shell import checked, make_own, opened, run_of, whoami
from chordesk.tasks.cli.start import INTERRUPTED, Budget

if TYPE_CHECKING:
    from sqlmodel import Session

commands = typer.Typer()
BY_HAND = "write its rule yourself: desk lens new WORDS --where 'momentum60 > 0.05'"


class _Text(NamedTuple):
    """The text of a lens's file."""

    name: str
    text: str
    author: str


@commands.command()
def new(
    words: Annotated[str | None, typer.Argument(help="What the lens looks for, in a sentence or more.")] = None,
    where: Annotated[str, typer.Option(help="Its rule, such as 'momentum60 > 0.05 and rsi14 < 65'.")] = "",
    score: Annotated[str, typer.Option(help="A number by which the names that pass are ordered.")] = "",
    high: Annotated[str, typer.Option(help="Which hits have the confidence high.")] = "",
    by: Annotated[str, typer.Option(help="rule, model or both; by default both with a rule.")] = "",
    name: Annotated[str | None, typer.Option(help="Its name; by default made of its words.")] = None,
    run: Annotated[str | None, typer.Option(help="Look at the draft of an earlier run, in place of words.")] = None,
    budget: Budget = None,
) -> None:
    """Write a lens of your own, see what it finds, and keep it or not.

    Words alone are drafted by the role drafter, in a run of one turn; with --where or --by they stay as they are. The
    lens is checked, tried on the last 60 sessions and shown; a person at a terminal keeps it. No screen uses it before
    --lens or DESK_LENSES names it.
    """
    from chordesk.tasks.drafting.drafts import PERSON, drafted, name_of, require_place

    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        reason = "a new lens is looked at by a person before it is kept, and this is not a terminal"
        raise UsageError(reason, remedy="write lenses/NAME.md in the home, and check it: desk lens check NAME")
    if (words is None) == (run is None):
        what = "both words and --run are given" if run is not None else "neither words nor --run are given"
        raise UsageError(what, remedy='say what it looks for: desk lens new "names that rise calmly"')
    rules = {"by": by, "where": where, "score": score, "high": high}
    if words is None:
        _look(_of_run(str(run)))
    elif any(rules.values()):
        require_place(checked().settings, name)
        _look(_Text(name or name_of(words), drafted(words, rules), PERSON))
    else:
        _look(_asked(words, name, budget))


def _asked(words: str, name: str | None, budget: int | None) -> _Text:
    """Have the words drafted in a run, and wait for it."""
    from chordesk.tasks.cli.start import connected, follow, forecast
    from chordesk.tasks.drafting.workflow import open_draft

    app = connected()
    run = open_draft(app, words, name, forecast(app, budget, yes=False, dry_run=False, as_json=False))
    try:
        follow(app, run)
    except KeyboardInterrupt:
        typer.echo(f"the run continues; look at its draft with: desk lens new --run {run.id}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    with app.desk.store.read() as session:
        return _draft(session, run.id)


def _of_run(part: str) -> _Text:
    _, store = opened()
    with store.read() as session:
        return _draft(session, run_of(session, part).id)


def _draft(session: Session, run_id: str) -> _Text:
    from chordesk.models.tables.runs import Run
    from chordesk.tasks.drafting.workflow import draft_of, why_without

    run = session.get_one(Run, run_id)
    if (found := draft_of(session, run)) is None:
        raise DeskError(f"run {run.id[:16]} has no draft: {why_without(session, run)}", remedy=BY_HAND)
    return _Text(found["name"], found["text"], found["author"])


def _look(given: _Text) -> None:
    """Check and try a draft, show it, and keep it where a person says so."""
    from chordesk.tasks.cli.show.lens_display import check_report, draft_report, trial_report
    from chordesk.tasks.drafting.drafts import as_draft, keep, place_of, tried_lately
    from chordesk.tasks.lenses import check

    own = checked().settings
    used, lens = as_draft(own, given.name, given.text)
    make_own(own)
    with looking(used) as desk:
        path = place_of(own, given.name)
        console().print(draft_report(path, path.read_text(encoding="utf-8") if path.is_file() else None, given.text))
        console().print(check_report(check(desk, given.name)))
        if (tried := tried_lately(desk, lens)) is not None:
            console().print(trial_report(tried))
        if not typer.confirm(f"keep it as {path}?", default=False):
            raise typer.Exit(1)
        keep(desk, lens, given.text, whoami(), given.author)
    print_line(f"kept; screen with it: desk screen --lens {given.name}")
