"""What a worker inherits from the machine, and what a certificate says about the machine."""

from samebits.environment.machine import describe
from samebits.environment.variables import dropped, worker_environment

__all__ = ["describe", "dropped", "worker_environment"]
