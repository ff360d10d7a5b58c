"""An image is certified in only if it was built here and holds what the row pins: one change, one refusal."""

from __future__ import annotations

import pytest

from samebits.containers.admit import admit, read_file
from samebits.errors import InputError, MachineError, RowError
from samebits.hashing import sha256_bytes
from samebits.pins import Material, inventory

AGAIN = "Build it again: nox -s images -- cpu"


def refused(made, row, material, kind=RowError):
    client, said, _ = made
    with pytest.raises(kind) as caught:
        admit(client, row, material, said)
    return caught.value


def replaced(made, held, **environment):
    """The image, its inventory changed as somebody would who builds it otherwise, and a record that goes along."""
    client, said, folder = made
    kit = held.environments[inventory.KIT].model_copy(update=environment)
    changed = held.model_copy(update={"environments": {inventory.KIT: kit}})
    client.files[said.image] = {str(inventory.PLACE): inventory.render(changed)}
    return client, said.model_copy(update={"inventory_sha256": inventory.digest(changed)}), folder


def test_the_image_that_was_built_is_admitted_and_nothing_is_left_behind(made, row, material):
    client, said, _ = made
    admit(client, row, material, said)
    ((image, command, options, container),) = client.created
    assert (image, command, options, container.removed) == (said.image, None, {"network_mode": "none"}, True)


def test_another_row_file(made, row):
    error = refused(made, row, "e" * 64)
    assert error.field == "row cpu: image"
    assert error.accepted == f"built from the row file with sha256 {'e' * 64}"
    assert error.next_step == AGAIN


def test_another_kit(made, row, material):
    client, said, folder = made
    error = refused((client, said.model_copy(update={"kit_sha256": "e" * 64}), folder), row, material)
    assert error.found == f"holding the kit with sha256 {'e' * 64}"


def test_an_image_that_is_gone(made, row, material):
    client, said, _ = made
    client.by_id.clear()
    error = refused(made, row, material, InputError)
    assert str(error) == (
        f"row cpu: image: found no {said.image} in this Docker engine; accepted: the image that was built and "
        "recorded here. Build it: nox -s images -- cpu"
    )


def test_a_moved_tag(made, row, material):
    client, said, _ = made
    other = f"sha256:{'9' * 64}"
    client.by_id[other] = client.by_id[said.image].__class__(client, other, {}, "amd64")
    client.tags["samebits/cpu"] = other
    error = refused(made, row, material)
    assert (error.field, error.found) == ("image samebits/cpu", f"a tag that was moved to {other}")
    assert error.accepted == f"{said.image}, which was built and recorded"


def test_a_tag_that_was_removed_changes_nothing(made, row, material):
    client, said, _ = made
    del client.tags["samebits/cpu"]
    admit(client, row, material, said)


def test_another_architecture(made, row, material):
    client, said, _ = made
    client.by_id[said.image].attrs["Architecture"] = "arm64"
    error = refused(made, row, material)
    assert (error.field, error.found, error.accepted) == ("row cpu: image architecture", "arm64", "amd64")


@pytest.mark.parametrize("label", ["samebits.row", "samebits.material"])
def test_a_label_that_is_missing(made, row, material, label):
    client, said, _ = made
    del client.by_id[said.image].labels[label]
    error = refused(made, row, material)
    assert (error.field, error.found.split()[-2:]) == ("row cpu: image label", ["no", "label"])


def test_an_inventory_that_is_not_the_recorded_one(made, row, material):
    client, said, folder = made
    error = refused((client, said.model_copy(update={"inventory_sha256": "e" * 64}), folder), row, material)
    assert (error.field, error.accepted) == ("row cpu: inventory", f"inventory with sha256 {'e' * 64}")


def test_an_image_without_an_inventory(made, row, material):
    client, said, _ = made
    client.files[said.image] = {}
    assert refused(made, row, material).found == "no /opt/kit/inventory.json"
    assert client.created[-1][-1].removed is True


def test_something_that_is_no_inventory(made, row, material):
    client, said, _ = made
    client.files[said.image] = {str(inventory.PLACE): b"{}"}
    error = refused(made, row, material)
    assert error.field == "image of row cpu: /opt/kit/inventory.json"
    assert error.found == "schema_version: Field required"


def test_an_extra_package(made, row, material, held):
    packages = dict(held.environments[inventory.KIT].distributions)
    packages["evil"] = inventory.Distribution(version="1.0", record_sha256="6" * 64)
    error = refused(replaced(made, held, distributions=packages), row, material)
    assert (error.field, error.found) == ("row cpu: image: pins", "extra package evil 1.0")


def test_a_package_of_another_version(made, row, material, held):
    packages = dict(held.environments[inventory.KIT].distributions)
    packages["numpy"] = inventory.Distribution(version="1.26.4", record_sha256="6" * 64)
    error = refused(replaced(made, held, distributions=packages), row, material)
    assert error.found == "numpy 1.26.4 for 2.4.6, numpy 1.26.4 for 2.4.6"


def test_a_torch_that_the_row_does_not_list(made, row, material, held):
    packages = dict(held.environments[inventory.KIT].distributions)
    packages["torch"] = inventory.Distribution(version="2.13.0", record_sha256="6" * 64)
    error = refused(replaced(made, held, distributions=packages), row, material)
    assert error.found == "torch 2.13.0, no build of the row"


def test_another_kernel_library(made, row, material, held):
    """Libraries are in the inventory, whose digest is recorded: another one is another inventory."""
    client, said, folder = replaced(made, held, libraries={"lib/libtorch_cpu.so": "7" * 64})
    recorded = said.model_copy(update={"inventory_sha256": inventory.digest(held)})
    error = refused((client, recorded, folder), row, material)
    assert (error.field, error.found) == ("row cpu: inventory", f"inventory with sha256 {said.inventory_sha256}")


def test_a_kernel_library_that_the_row_pins_by_digest(made, row, material):
    wanted = {"libtorch_cpu.so": "8" * 64}
    material_of = [Material(name="torch", within="requirements", libraries=wanted)]
    error = refused(made, row.model_copy(update={"materials": material_of}), material)
    assert (error.field, error.found) == ("row cpu: image: torch", "libtorch_cpu.so 111111111111…")
    assert error.accepted == "libtorch_cpu.so 888888888888…"


def test_an_engine_that_fails_is_the_machines_fault(made):
    client, said, _ = made

    def full(*_arguments, **_options):
        raise OSError(28, "No space left on device")

    client.create = full
    with pytest.raises(MachineError) as caught:
        read_file(client, said.image, "/x")
    assert (caught.value.found, caught.value.exit_code) == ("a full disk", 3)


def test_the_fixture_is_addressed_by_its_content(made):
    _, said, folder = made
    assert said.image == f"sha256:{sha256_bytes((folder / 'cpu.manifest.json').read_bytes())}"
