"""The role that drafts a lens from a person's words. Code reads the draft, and a person keeps it or not."""
