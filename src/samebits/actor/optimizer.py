"""AdamW over the fp32 masters."""

from __future__ import annotations

import math

import torch
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from samebits.actor.masters import Masters
from samebits.errors import MachineError
from samebits.recipe.model import ActorSettings


class Optimizer:
    """torch's AdamW (arXiv:1711.05101), gradients clipped by their norm over all tensors.

    Weight decay acts on every trained tensor, norms too: a recipe that wants them spared sets it to 0.
    """

    def __init__(self, masters: Masters, settings: ActorSettings) -> None:
        self._masters = masters
        self._max_norm = settings.max_grad_norm
        self._parameters = [masters.master[name] for name in masters.trained]
        self._adamw = torch.optim.AdamW(
            self._parameters,
            lr=settings.learning_rate,
            betas=(settings.beta1, settings.beta2),
            weight_decay=settings.weight_decay,
            fused=True,
        )

    @torch.no_grad()
    def step(self) -> float:
        """Updates masters and deployed weights; returns the gradients' L2 norm before clipping.

        Raises:
            MachineError: the gradient is not finite; masters and deployed weights are as before.
        """
        gradients = self._masters.gradients()
        norm = get_total_norm(gradients)
        if not math.isfinite(norm.item()):
            spoiled = [
                name
                for name, gradient in zip(self._masters.trained, gradients, strict=True)
                if not gradient.isfinite().all()
            ]
            raise MachineError(
                f"gradient of {spoiled[0]}" if spoiled else "gradient norm",
                found=f"not finite ({len(spoiled)} of {len(gradients)} tensors)",
                accepted="finite gradients",
                next_step="Nothing was stepped. Lower actor.learning_rate, or look for the op that overflows.",
            )
        clip_grads_with_norm_(self._parameters, self._max_norm, norm)
        self._adamw.step()
        self._masters.deploy()
        self._masters.forget_gradients()
        return norm.item()
