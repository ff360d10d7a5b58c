"""``samebits keygen`` and ``samebits sign``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from samebits import certificate
from samebits.cli.output import console, print_json, print_signed


def register(app: typer.Typer) -> None:
    """Add the commands to ``app``."""
    app.command(name="keygen")(keygen)
    app.command(name="sign")(sign)


def keygen(
    name: Annotated[str, typer.Argument(help="Name of the key; its files are NAME.pem and NAME.pub.pem.")] = "default",
    folder: Annotated[Path | None, typer.Option(help="Where to put it. Default: your configuration folder.")] = None,
    ed25519: Annotated[bool, typer.Option("--ed25519", help="ed25519 in place of P-256.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make a key pair for signing certificates.

    Give NAME.pub.pem to whoever shall verify; keep NAME.pem (mode 0600) to yourself. An existing key is never
    overwritten. A signature says: the holder of this key states that this run happened. It cannot say more.
    """
    pair = certificate.generate_key(name, folder or certificate.default_key_folder(), ed25519=ed25519)
    if json:
        print_json({"private": str(pair.private_path), "public": str(pair.public_path), "keyid": pair.keyid})
        return
    console.print(f"private key  {pair.private_path} (mode 0600: keep it)", soft_wrap=True)
    console.print(f"public key   {pair.public_path} (give it to verifiers)", soft_wrap=True)
    console.print(f"key id       {pair.keyid}", soft_wrap=True)


def sign(
    run: Annotated[Path, typer.Argument(help="A run folder with an unsigned statement, for instance runs/20261130T…")],
    key: Annotated[Path | None, typer.Option(help="Private key (PEM). Default: your own, made on first use.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Sign the statement of a finished run.

    Keys never need to travel to the machine that ran: bring the run folder here and sign it. The evidence is hashed
    again before signing; a statement whose evidence changed is not signed.
    """
    signed = certificate.sign_run(run, key)
    if json:
        print_json({"certificate": str(signed.certificate), "keyid": signed.keyid, "public": str(signed.public_path)})
        return
    print_signed(signed)
