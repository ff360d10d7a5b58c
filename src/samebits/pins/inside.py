"""``python -m samebits.pins.inside ROW``, run on a row's stack: what is installed there, as a survey in JSON.

ROW is the row itself, as JSON.  Only the stack's own interpreter can say what it would import.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict

from samebits.pins.checking import inside_of
from samebits.pins.row import Row


def main(arguments: list[str]) -> None:
    """Print the survey of the row that the command line holds."""
    if len(arguments) != 1:
        sys.exit("usage: python -m samebits.pins.inside ROW")
    row = Row.model_validate_json(arguments[0])
    sys.stdout.write(json.dumps(asdict(inside_of(row))) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
