from __future__ import annotations

import dataclasses
import json

import pytest

from samebits import pins
from samebits.pins import Finding, RowDiagnosis, diagnosis


@pytest.fixture
def build(row, monkeypatch):
    """The torch build that is found: the first of the row, or what a test sets."""
    found = [row.torch_builds[0]]
    monkeypatch.setattr(diagnosis, "torch_build", lambda _: found[0])
    return found


@pytest.mark.usefixtures("build")
def test_nothing_to_say(row, machine):
    assert pins.limitations(row, machine) == []


def test_everything_to_say(gpu_row, machine, build):
    build[0] = next(one for one in gpu_row.torch_builds if one.python == "cp312")
    weak = dataclasses.replace(machine, flags=frozenset({"avx512f"}), cores=1, disk_gib=3)
    assert pins.limitations(gpu_row, weak) == [
        "This row has never been run; its pins are from public records.",
        (
            "This CPU lacks avx512_bf16: exactness was only seen on CPUs that have avx512f, avx512_bf16, so the run is "
            "the first to tell."
        ),
        "1 of the 2 CPU cores that the promised times are for.",
        "3 GiB of disk are free; installation and a run take up to 8 GiB.",
        (
            "torch 2.13.0 for cp312 is accepted by its published digests; the row has not been run with this build "
            "before."
        ),
    ]


def test_every_row_on_this_machine():
    report = pins.diagnose()
    assert [row.id for row in report.rows] == pins.known()
    assert report.machine["architecture"] == pins.look().arch
    data = json.loads(json.dumps(report.to_dict()))
    assert [row["ready"] for row in data["rows"]] == [row.ready for row in report.rows]


@pytest.mark.parametrize(("verdicts", "ready"), [([True, True], True), ([True, False], False)])
def test_ready_means_that_every_finding_is_in_order(verdicts, ready):
    findings = [Finding(name="x", found="1", accepted="1", ok=ok) for ok in verdicts]
    assert RowDiagnosis(id="r", title="t", findings=findings, limitations=["something"]).ready is ready
