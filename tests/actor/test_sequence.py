from __future__ import annotations

import pytest

from samebits.actor.sequence import ACCEPTED, Sequence, Stage
from samebits.errors import GateError, InputError

METHODS = ("recompute", "train_forward", "step", "export", "probe", "replay_step")


@pytest.mark.parametrize("stage", Stage)
@pytest.mark.parametrize("method", METHODS)
def test_only_what_is_due_is_taken(stage, method):
    calls = Sequence()
    calls.stage = stage
    due = {
        Stage.READY: {"recompute", "export", "probe", "replay_step"},
        Stage.RECOMPUTED: {"train_forward", "export", "probe"},
        Stage.TRAINED: {"step"},
        Stage.STEPPED: {"export", "probe", "replay_step"},
    }
    if method in due[stage]:
        calls.expect(method, 0)
        return
    with pytest.raises(GateError) as caught:
        calls.expect(method, 0)
    assert str(caught.value) == (
        f"actor.{method}: found a call {stage.value} of version 0; accepted: {', '.join(ACCEPTED[stage])}. "
        "Within one policy version: recompute, train_forward, step, export."
    )


def test_another_policy_version_is_an_input_error():
    with pytest.raises(InputError) as caught:
        Sequence().expect("recompute", 1)
    assert str(caught.value) == (
        "actor.recompute.version: found 1; accepted: 0. Call with the policy version that the actor holds."
    )
