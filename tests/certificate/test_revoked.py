from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from samebits.certificate import Revocation, load_revocations
from samebits.errors import InputError


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "revoked.toml"
    path.write_text(text)
    return path


def entry(lines: str) -> str:
    return f"[[revoked]]\n{lines}\n"


REST = 'reason = "lost"\ndate = 2026-11-30'


def test_lookup(tmp_path: Path) -> None:
    text = entry(f'keyid = "{"a" * 64}"\n{REST}') + entry(f'certificateSha256 = "{"b" * 64}"\n{REST}')
    revocations = load_revocations(written(tmp_path, text))
    by_key = Revocation(keyid="a" * 64, reason="lost", date=dt.date(2026, 11, 30))
    by_certificate = Revocation(certificateSha256="b" * 64, reason="lost", date=dt.date(2026, 11, 30))
    assert revocations.revoked == [by_key, by_certificate]
    assert revocations.find(keyid="a" * 64, certificate_sha256="c" * 64) == by_key
    assert revocations.find(keyid="c" * 64, certificate_sha256="b" * 64) == by_certificate
    assert revocations.find(keyid="b" * 64, certificate_sha256="a" * 64) is None


def test_an_empty_list_revokes_nothing(tmp_path: Path) -> None:
    revocations = load_revocations(written(tmp_path, "# nothing yet\n"))
    assert revocations.revoked == []
    assert revocations.find(keyid="a" * 64, certificate_sha256="b" * 64) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            entry(REST),
            (
                "revoked.toml: revoked[0]: found {'reason': 'lost', 'date': datetime.date(2026, 11, 30)}; "
                "accepted: exactly one of keyid and certificateSha256. Correct the value."
            ),
        ),
        (
            entry(f'keyid = "{"A" * 64}"\n{REST}'),
            (
                f"revoked.toml: revoked[0].keyid: found '{'A' * 64}'; "
                "accepted: String should match pattern '^[0-9a-f]{64}$'. Correct the value."
            ),
        ),
        (
            entry(f'keyId = "{"a" * 64}"\n{REST}'),
            (
                "revoked.toml: revoked[0].keyId: found an unknown key; "
                "accepted: certificateSha256, date, keyid, reason. Did you mean 'keyid'?"
            ),
        ),
        (
            entry(f'keyid = "{"a" * 64}"\nreason = "lost"\ndate = "2026-11-30"'),
            "revoked.toml: revoked[0].date: found '2026-11-30'; accepted: a valid date. Correct the value.",
        ),
        (
            entry(f'keyid = "{"a" * 64}"\ndate = 2026-11-30'),
            "revoked.toml: revoked[0].reason: found nothing; accepted: a value. Add the key.",
        ),
        ("revoke = []", "revoked.toml: revoke: found an unknown key; accepted: revoked. Did you mean 'revoked'?"),
    ],
)
def test_a_list_that_cannot_be_read_is_not_empty(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load_revocations(written(tmp_path, text))
    assert str(caught.value) == message


def test_both_at_once_is_refused(tmp_path: Path) -> None:
    text = entry(f'keyid = "{"a" * 64}"\ncertificateSha256 = "{"b" * 64}"\n{REST}')
    with pytest.raises(InputError, match="accepted: exactly one of keyid and certificateSha256"):
        load_revocations(written(tmp_path, text))


def test_missing_or_not_toml(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="found No such file or directory; accepted: a readable TOML file"):
        load_revocations(tmp_path / "revoked.toml")
    with pytest.raises(InputError, match="found not TOML"):
        load_revocations(written(tmp_path, "[[revoked"))
