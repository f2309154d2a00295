"""Questions: asked, resolved once from data that is named, and chosen for an episode."""
