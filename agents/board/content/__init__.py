"""The content of an episode by code: what stands out of its board and rounds, as JSON and as markdown."""

from chordesk.agents.board.content.markdown import markdown
from chordesk.agents.board.content.summary import EpisodeTally, VoiceStanding, content

__all__ = ["EpisodeTally", "VoiceStanding", "content", "markdown"]
