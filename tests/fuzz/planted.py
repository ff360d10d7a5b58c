"""Readers with a known fault, for the tests of the fuzzer itself.  Input 3 is the one that shows it."""

from __future__ import annotations

import os
import signal
import time
from random import Random

from fuzz.target import FalsePass, Target, input_of
from samebits.errors import InputError

SHOWN = 3


class Planted(Target):
    """Refuses every input but one."""

    share = 1

    def make(self, random: Random) -> bytes:
        return random.randbytes(8)

    def read(self, data: bytes) -> None:
        if data == input_of(self, 0, SHOWN):
            self.fault()
        raise InputError("input", found="anything", accepted="nothing", next_step="None.")

    def fault(self) -> None:
        """What is wrong with this reader."""


class Sound(Planted):
    name = "fuzz.planted:Sound"


class Crashes(Planted):
    name = "fuzz.planted:Crashes"

    def fault(self) -> None:
        raise KeyError("no such thing")


class Mistakes(Planted):
    name = "fuzz.planted:Mistakes"

    def fault(self) -> None:
        raise FalsePass("taken for the genuine one")


class Loops(Planted):
    name = "fuzz.planted:Loops"

    def fault(self) -> None:
        while True:
            pass


class Sleeps(Planted):
    """As code in C does that never looks at signals."""

    name = "fuzz.planted:Sleeps"

    def fault(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
        time.sleep(600)


class Dies(Planted):
    """As a segmentation fault would end it."""

    name = "fuzz.planted:Dies"

    def fault(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class Swallows(Planted):
    """Takes whatever is raised for a refusal, a time limit among it."""

    name = "fuzz.planted:Swallows"

    def fault(self) -> None:
        try:
            time.sleep(600)
        except Exception as error:  # noqa: BLE001 - the fault
            raise InputError("input", found=error, accepted="nothing", next_step="None.") from None
