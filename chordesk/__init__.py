"""An autonomous trading desk.

Programs may rely on `chordesk.client`, `chordesk.langchain` and `chordesk.plugins`; all else may change.

The rooms lie at the top of the repository; here are links to them, so that an installed package owns this name alone.
"""
