"""What a worker inherits from the machine, how it is started, and what a certificate says about the machine."""

from samebits.environment.launch import Launcher, OwnEnvironment, StackEnvironment
from samebits.environment.loaded import loaded_libraries
from samebits.environment.machine import describe
from samebits.environment.variables import dropped, worker_environment

__all__ = [
    "Launcher",
    "OwnEnvironment",
    "StackEnvironment",
    "describe",
    "dropped",
    "loaded_libraries",
    "worker_environment",
]
