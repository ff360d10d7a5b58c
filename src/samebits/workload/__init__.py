"""What the model is asked and how its answers are rewarded: real problems, prompts, requests.  No torch."""

from __future__ import annotations

from samebits.workload.plan import RoundPlan, Workload
from samebits.workload.problems import Problem, round_problems
from samebits.workload.requests import Prompt, request_seed
from samebits.workload.reward import reward
from samebits.workload.tokenizer import ByteTokenizer, ChatTokenizer, Message, Tokenizer, open_tokenizer

__all__ = [
    "ByteTokenizer",
    "ChatTokenizer",
    "Message",
    "Problem",
    "Prompt",
    "RoundPlan",
    "Tokenizer",
    "Workload",
    "open_tokenizer",
    "request_seed",
    "reward",
    "round_problems",
]
