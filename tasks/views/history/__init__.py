"""Views of runs and symbols as they went: lists, timelines, funnels, comparisons."""
