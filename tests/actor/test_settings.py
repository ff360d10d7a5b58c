from __future__ import annotations

import pytest

from samebits.actor.settings import certified
from samebits.errors import GateError, InputError

from .tiny import GATE, SETTINGS


def test_certified_settings_become_the_recipes_model():
    settings = certified(SETTINGS, GATE)
    assert settings.model_dump(exclude_unset=True) == SETTINGS
    assert settings.activation_checkpointing is False


def test_activation_checkpointing_is_for_rows_that_name_it():
    asked = {**SETTINGS, "activation_checkpointing": True}
    with pytest.raises(GateError) as caught:
        certified(asked, GATE)
    assert caught.value.field == "actor.activation_checkpointing"
    assert certified(asked, {**GATE, "activation_checkpointing": [False, True]}).activation_checkpointing is True


def test_the_rows_gate_refuses():
    with pytest.raises(GateError) as caught:
        certified({**SETTINGS, "force_on_policy_ratio": True}, GATE)
    assert (caught.value.field, caught.value.found) == ("actor.force_on_policy_ratio", "True")


def test_a_row_cannot_accept_the_forced_ratio():
    with pytest.raises(GateError) as caught:
        certified({**SETTINGS, "force_on_policy_ratio": True}, {**GATE, "force_on_policy_ratio": [False, True]})
    assert str(caught.value) == (
        "actor.force_on_policy_ratio: found True; accepted: False. "
        "It takes the training forward's logprobs for the recompute's; leave it off."
    )


def test_both_sides_packed_alike_are_refused():
    with pytest.raises(GateError) as caught:
        certified({**SETTINGS, "train_pack": 2}, GATE)
    assert str(caught.value) == (
        "actor.train_pack: found 2, the same as recompute_pack; accepted: another number than recompute_pack. "
        "Recompute and training forward must be packed differently; change one of the two."
    )


def test_a_setting_that_the_row_does_not_know_is_refused():
    with pytest.raises(GateError) as caught:
        certified({**SETTINGS, "train_packs": 2}, GATE)
    assert (caught.value.field, caught.value.next_step) == ("actor.train_packs", "Did you mean 'train_pack'?")


def test_absurd_settings_are_refused_even_where_a_row_accepts_them():
    with pytest.raises(InputError) as caught:
        certified({**SETTINGS, "learning_rate": 2.0}, {**GATE, "learning_rate": {"min": 0.0, "max": 9.0}})
    assert caught.value.field == "actor: learning_rate"
