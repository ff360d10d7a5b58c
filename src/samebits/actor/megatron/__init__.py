"""The actor inside Megatron-core: its GPTModel composes, the kit's op set computes.

Everything but the forward is the reference actor's (``samebits.actor.actor``): masters, packing, sealing, loss and the
order of calls.  megatron.core is imported in ``library`` and ``model`` only, and only once such an actor is opened.
"""
