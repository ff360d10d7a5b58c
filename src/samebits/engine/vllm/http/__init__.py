"""The gate on requests inside ``vllm serve``: two checks of every request that generates.

``vllm serve MODEL --middleware samebits.engine.vllm.http.Gate`` loads it; of several ``--middleware`` it must be named
first, so that none stands between it and the server.  Before the server sees a request, it is parsed with vLLM's own
protocol class and turned into the ``SamplingParams`` that the server would sample with, defaults of the model's
``generation_config.json`` included (:mod:`.served`, :mod:`samebits.engine.vllm.final`).  And whatever a route hands to
the engine in the end is judged again there (:mod:`.guard`): a route may change parameters after parsing them, as tool
parsers do.
"""

from __future__ import annotations

from samebits.engine.vllm.http.served import Gate

__all__ = ["Gate"]
