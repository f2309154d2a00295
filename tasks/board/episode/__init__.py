"""The episode: what is due is resolved, tools post their signals, voices forecast in rounds, and code tallies."""

from chordesk.agents.board.voices import voices_of
from chordesk.models.states import RunKind, StepKind
from chordesk.tasks.board.episode.opening import EpisodeRequest, brief, open_scheduled
from chordesk.tasks.board.episode.rounds import end_round, harvest, run_voice, start_rounds
from chordesk.tasks.board.episode.tally import tally
from chordesk.tasks.engine.kinds import StepSpec, Workflow

WORKFLOWS = (
    Workflow(
        RunKind.EPISODE,
        "research",
        (
            StepSpec(
                StepKind.BRIEF,
                "ops",
                brief,
                "research",
                opens=open_scheduled,
                daily=("episode",),
                spine=True,
                join=True,
                also_in=(RunKind.SCREEN,),
                after="the run; in a screen every `conclude`",
                writes=("question", "episode_question", "karma_entry"),
            ),
            StepSpec(
                *(StepKind.HARVEST, "screen", harvest, "research", "harvest"),
                fan_out="chord",
                body=StepKind.BOARD,
                also_in=(RunKind.SCREEN,),
                after="`brief`",
                writes=("signal",),
            ),
            StepSpec(
                *(StepKind.BOARD, "ops", start_rounds, "research"),
                join=True,
                also_in=(RunKind.SCREEN,),
                after="every `harvest`",
            ),
            StepSpec(
                *(StepKind.VOICE, "research", run_voice, "research", "voices"),
                turn=True,
                fan_out="chord",
                body=StepKind.ROUND,
                also_in=(RunKind.SCREEN,),
                after="`board` or the `round` before",
                writes=("forecast",),
            ),
            StepSpec(
                *(StepKind.ROUND, "ops", end_round, "research"),
                join=True,
                also_in=(RunKind.SCREEN,),
                after="every `voice` of its round",
            ),
            StepSpec(
                *(StepKind.TALLY, "ops", tally, "research", "tally"),
                join=True,
                also_in=(RunKind.SCREEN,),
                after="the last `round`",
                writes=("episode", "signal_citation", "karma_entry", "event_position"),
            ),
        ),
        turns=lambda params, settings, _held: dict.fromkeys(
            (voice.role for voice in voices_of(settings)), params["rounds"]
        ),
        request=EpisodeRequest,
    ),
)
