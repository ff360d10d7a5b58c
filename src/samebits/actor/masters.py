"""fp32 masters, and the deployed weights that are their roundings.

Every forward runs on the deployed weights, the bits that the engine gets; every update goes to the masters, where a
step smaller than bf16 can see is not lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from samebits.errors import MachineError
from samebits.models.family import TRAINED, Decoder


class Masters:
    """The two copies of every parameter, and the fp32 gradients of those that train.

    ``master`` maps each parameter's name to its tensor, ``deployed`` each name in a refit to what engines get, and
    ``weights`` is what a forward takes: the deployed tensors, and for each parameter that is deployed quantised the
    tensor (bf16, the master rounded) that its gradient goes to.  ``frozen`` gives parameters without a gradient, each
    with the reason.  The gradient of a deployed weight is moved into fp32 as soon as a backward has finished with
    it, so that those of several packs add up in fp32 and no second set is held.
    """

    def __init__(
        self, weights: Mapping[str, Tensor], frozen: Mapping[str, str], decoder: Decoder | None = None
    ) -> None:
        """``weights`` are what engines get; copied, so a file mapped into memory is never written to.

        ``decoder`` says how they are made of parameters; without one, each is its parameter rounded.
        """
        self.frozen = dict(frozen)
        self._decoder = decoder
        self.deployed = {name: weight.detach().clone() for name, weight in weights.items()}
        parameters = self.deployed if decoder is None else decoder.parameters(self.deployed)
        self.master = {name: weight.to(torch.float32, copy=True) for name, weight in parameters.items()}
        self.trained = [name for name in parameters if name not in frozen]
        self._rounded = {name: parameters[name] for name in self.trained}
        self._quantised = [name for name in self.trained if self._rounded[name] is not self.deployed.get(name)]
        self.weights = self.deployed | {name + TRAINED: self._rounded[name] for name in self._quantised}
        self._reached: set[str] = set()
        # Made once and kept: fresh pages for every step cost more than the step itself.
        self._gradients = {name: torch.zeros_like(self.master[name]) for name in self.trained}
        for name in self.trained:
            self.master[name].grad = self._gradients[name]
            self._rounded[name].requires_grad_()
            self._rounded[name].register_post_accumulate_grad_hook(self._collect(name))  # type: ignore[no-untyped-call]  # torch's

    def parameter_of(self, name: str) -> str:
        """The parameter that deployed tensor ``name`` is made of."""
        if self._decoder is None:
            return name
        return self._decoder.deployed(torch.bfloat16)[name].parameter

    def by_deployed_name(self) -> dict[str, Tensor]:
        """The master, or the part of one, that each deployed tensor is made of."""
        if self._decoder is None:
            return dict(self.master)
        return {
            name: self.master[made.parameter] if made.part is None else made.part(self.master[made.parameter])
            for name, made in self._decoder.deployed(torch.bfloat16).items()
        }

    def gradients(self) -> list[Tensor]:
        """fp32 gradients of the trained parameters, in order.

        Raises:
            MachineError: a parameter that trains got none; a silent zero would look like a frozen one.
        """
        missing = [name for name in self.trained if name not in self._reached]
        if missing:
            raise MachineError(
                f"gradient of {missing[0]}",
                found=f"none ({len(missing)} of {len(self.trained)} tensors)",
                accepted="a gradient for every tensor that is not frozen",
                next_step="Run the training forward, or have the family declare the tensor frozen with a reason.",
            )
        return [self._gradients[name] for name in self.trained]

    def forget_gradients(self) -> None:
        """The next backward starts from zero."""
        self._reached.clear()
        for name in self.trained:
            self._rounded[name].grad = None

    @torch.no_grad()
    def deploy(self) -> None:
        """Rounds the trained masters, to nearest even; what is deployed quantised is then quantised."""
        names = self.trained
        torch._foreach_copy_([self._rounded[name] for name in names], [self.master[name] for name in names])
        if self._decoder is not None and self._quantised:
            made = self._decoder.deploy({name: self._rounded[name] for name in self._quantised})
            for name, tensor in made.items():
                self.deployed[name].copy_(tensor)

    def _collect(self, name: str) -> Callable[[Tensor], None]:
        def move(deployed: Tensor) -> None:
            share, deployed.grad = deployed.grad, None
            if share is None:
                return
            if name in self._reached:
                self._gradients[name].add_(share)
            else:
                self._gradients[name].copy_(share)
                self._reached.add(name)

        return move
