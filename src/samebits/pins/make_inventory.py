"""``python -m samebits.pins.make_inventory``, the last step of a Dockerfile: writes down what the image holds."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from samebits.errors import RowError, SamebitsError
from samebits.hashing import sha256_file
from samebits.pins import inventory


def main(arguments: Sequence[str]) -> int:
    """The command line; its exit code is the error's, or 0."""
    parser = argparse.ArgumentParser(prog="python -m samebits.pins.make_inventory", description=__doc__)
    parser.add_argument("--row", type=Path, required=True, help="the row file")
    parser.add_argument("--row-sha256", required=True, help="the material digest that the row file must have")
    parser.add_argument("--revision", required=True, help="commit of the kit, or 'unknown'")
    parser.add_argument("--output", type=Path, default=inventory.PLACE)
    parser.add_argument("prefixes", type=Path, nargs="+", help="roots of environments")
    options = parser.parse_args(arguments)
    try:
        found = sha256_file(options.row)
        if found != options.row_sha256:
            raise RowError(
                options.row.name,
                found=f"sha256 {found}",
                accepted=f"{options.row_sha256}, for which the image is built",
                next_step="Make the bake file again: samebits images bake",
            )
        taken = inventory.take(
            options.prefixes, row=options.row.stem, row_sha256=found, revision=options.revision or "unknown"
        )
    except SamebitsError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    options.output.write_bytes(inventory.render(taken))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
