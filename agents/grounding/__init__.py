"""Figures of a report's texts, each matched to a figure in a tool answer or in the question of its turn."""

from chordesk.agents.grounding.report import capped, ground

__all__ = ["capped", "ground"]
