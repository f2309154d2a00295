"""The mask: a model that remembers the past is not shown whose past it is.

Symbols, names, dates and money of one run are replaced in all that its models are shown, and put back in all that they
write, at one place: around the conversation of a runtime.
"""
