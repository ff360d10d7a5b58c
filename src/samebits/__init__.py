"""Proof that a reinforcement-learning stack computes the same bits when it generates, recomputes and trains."""

__version__ = "0.1.0"
