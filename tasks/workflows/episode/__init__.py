"""The episode: what is due is resolved, tools post their signals, voices forecast in rounds, and code tallies."""

from chordesk.agents.board.voices import voices_of
from chordesk.models.states import RunKind, StepKind
from chordesk.tasks.engine.kinds import StepSpec, Workflow
from chordesk.tasks.workflows.episode.opening import EpisodeRequest, brief, open_scheduled
from chordesk.tasks.workflows.episode.rounds import end_round, harvest, run_voice, start_rounds
from chordesk.tasks.workflows.episode.tally import tally

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
            ),
            StepSpec(
                *(StepKind.HARVEST, "screen", harvest, "research", "harvest"), fan_out="chord", body=StepKind.BOARD
            ),
            StepSpec(StepKind.BOARD, "ops", start_rounds, "research", join=True),
            StepSpec(
                *(StepKind.VOICE, "research", run_voice, "research", "voices"),
                turn=True,
                fan_out="chord",
                body=StepKind.ROUND,
            ),
            StepSpec(StepKind.ROUND, "ops", end_round, "research", join=True),
            StepSpec(StepKind.TALLY, "ops", tally, "research", "tally", join=True),
        ),
        turns=lambda params, settings, _held: dict.fromkeys(
            (voice.role for voice in voices_of(settings)), params["rounds"]
        ),
        request=EpisodeRequest,
    ),
)
