"""Cassettes: answers of models kept by what the model saw, and played again without one.

A turn is kept whole: what opened it (instructions, tools, the form of its answer, model, effort, the turns before it,
its text), its calls of tools with their answers in order, and its end. It is played where all of that is the same: the
tools are called again, and the first answer that differs ends the playing.
"""
