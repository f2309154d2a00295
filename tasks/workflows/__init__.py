"""Workflows, one module a kind of run."""

from importlib import import_module
from pkgutil import iter_modules

from chordesk.models import features
from chordesk.tasks.engine.kinds import Kinds, Workflow


def every_kind() -> Kinds:
    """Return the kinds of runs and steps that `WORKFLOWS` of the modules here and of features declare."""
    from chordesk.tasks.workflows.runs import FINISH

    found = Kinds(FINISH)
    of_features = features.places("modules")
    for module in iter_modules(__path__, f"{__name__}."):
        if module.name not in of_features:
            found.add(getattr(import_module(module.name), "WORKFLOWS", ()))
    for feature, given in features.parts("workflows", kind=Workflow, many=True):
        try:
            found.add([workflow for workflows in given for workflow in workflows], feature.name)
        except ValueError as error:
            features.skip(feature, str(error))
    return found
