from __future__ import annotations

import importlib
import json
import sys

from samebits.workload.requirements import stand_in


def test_an_absent_module_is_stood_in_for(monkeypatch):
    monkeypatch.delitem(sys.modules, "no_such_module_here", raising=False)
    stand_in(["no_such_module_here"])
    module = importlib.import_module("no_such_module_here")
    assert module.__doc__ == "Stands in for a module that is not installed."
    del sys.modules["no_such_module_here"]


def test_a_module_that_is_there_is_left_alone():
    stand_in(["json"])
    assert sys.modules["json"] is json
