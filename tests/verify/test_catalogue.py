from __future__ import annotations

from pathlib import Path

import pytest

from samebits.errors import InputError
from samebits.verify import verify_catalogue
from simulator import KEY, Simulator


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A good and an honestly bad certificate, and a catalogue that says so."""
    (tmp_path / "cpu").mkdir()
    (tmp_path / "key.pub.pem").write_bytes(KEY.public.pem())
    Simulator().sign(tmp_path / "cpu" / "good.sigstore.json")
    bad = Simulator()
    bad.response()[0]["train_bits"] ^= 1
    bad.seal()
    bad.sign(tmp_path / "cpu" / "bad.sigstore.json")
    declare(tmp_path, good=0, bad=1)
    return tmp_path


def declare(folder: Path, **codes: int) -> None:
    entries = [
        f'[[certificate]]\npath = "cpu/{name}.sigstore.json"\nkey = "key.pub.pem"\nexit_code = {code}\n'
        for name, code in codes.items()
    ]
    (folder / "catalogue.toml").write_text("\n".join(entries))


def ends(folder: Path) -> dict[str, tuple[int | None, int | None, bool]]:
    return {one.path: (one.declared, one.found, one.as_declared) for one in verify_catalogue(folder)}


def test_each_ends_as_declared(folder: Path) -> None:
    assert ends(folder) == {"cpu/good.sigstore.json": (0, 0, True), "cpu/bad.sigstore.json": (1, 1, True)}


def test_one_that_ends_otherwise(folder: Path) -> None:
    declare(folder, good=0, bad=0)
    assert ends(folder)["cpu/bad.sigstore.json"] == (0, 1, False)


def test_one_that_the_catalogue_does_not_name(folder: Path) -> None:
    declare(folder, good=0)
    (stray,) = [one for one in verify_catalogue(folder) if not one.as_declared]
    assert stray.to_dict() == {
        "path": "cpu/bad.sigstore.json",
        "declared": None,
        "found": None,
        "asDeclared": False,
        "reason": "catalogue.toml does not name this certificate",
    }


def test_one_that_is_not_there(folder: Path) -> None:
    declare(folder, good=0, bad=1, gone=0)
    assert ends(folder)["cpu/gone.sigstore.json"] == (0, 2, False)


def test_revocations_beside_the_catalogue_count(folder: Path) -> None:
    (folder / "revoked.toml").write_text(
        f'[[revoked]]\nkeyid = "{KEY.public.fingerprint}"\nreason = "lost"\ndate = 2026-12-01\n'
    )
    assert {end[1] for end in ends(folder).values()} == {2}


def test_no_catalogue(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"catalogue\.toml"):
        verify_catalogue(tmp_path)


def test_a_path_out_of_the_folder(folder: Path) -> None:
    declare(folder, **{"../../good": 0})
    with pytest.raises(InputError, match="a path inside the catalogue's folder"):
        verify_catalogue(folder)


def test_nothing_to_verify_is_no_success(tmp_path: Path) -> None:
    (tmp_path / "catalogue.toml").write_text("")
    with pytest.raises(InputError) as raised:
        verify_catalogue(tmp_path)
    assert raised.value.found == "no certificate"
