"""LiteLLM's line of `desk doctor`: one real turn of each of its models."""

from __future__ import annotations

import os

from chordesk.agents.desk_roles import roles_in
from chordesk.agents.providers.liveness import RAISE
from chordesk.agents.role_models import missing_keys, models_in_use
from chordesk.models.answers import Failed
from chordesk.tasks.doctor.check import Check, CheckContext, CheckEntry, fail, ok, warn
from chordesk.tasks.doctor.model import REMEDIES, one_turn, without_remedy

_REMEDIES = {
    **REMEDIES,
    "unauthorized": "set the key in the provider's own variable, where the desk is started",
    "unreachable": "check the network, and the provider's own variable for its address",
    "not_found": "name a model that the provider has, in DESK_ROLE_MODELS",
    "bad_request": "name another model in DESK_ROLE_MODELS",
    "invalid_output": "name a model that follows a JSON schema, in DESK_ROLE_MODELS",
    "length": f"{RAISE['output']}; a model that writes without end needs another one in DESK_ROLE_MODELS",
}


def litellm(context: CheckContext) -> Check:
    """Check that each model that a role names for the LiteLLM runtime answers one real turn."""
    used = [one for one in models_in_use(context.settings) if one.runtime == "litellm"]
    models = dict.fromkeys(model for one in used for model in one.models)
    if not models:
        return ok("no role uses it")
    for model in models:
        if names := missing_keys(model, os.environ):
            detail = f"{model}: {' or '.join(names)} is not in this process; those that run turns alone have it"
            return warn(detail, "`desk doctor` asks it in a shell that has the key")
        every = ";".join(
            f"{role}=litellm:{model}" for role in roles_in(context.settings)
        )  # so that no other runtime starts
        done = one_turn(context, {"role_models": every, "voice_models": "", "substitutes": ""}, "doctor-litellm")
        if isinstance(done.outcome, Failed):
            remedy = _REMEDIES.get(done.outcome.kind, "check DESK_ROLE_MODELS")
            detail = f"{model}: {done.outcome.kind}: {without_remedy(done.outcome.message, remedy)}"
            return fail(detail, remedy)
    return ok(f"answered: {', '.join(models)}")


LITELLM_CHECK = CheckEntry("litellm", litellm, 200, turn=True, slow=True)
