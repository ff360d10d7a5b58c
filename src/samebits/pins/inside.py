"""``python -m samebits.pins.inside ROW.json``, run on a row's stack: what is installed there, as a survey in JSON.

Only the stack's own interpreter can say what it would import.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path

from samebits.pins.checking import installed
from samebits.pins.row import Row


def main(arguments: list[str]) -> None:
    """Print the survey of the row in the JSON file that the command line names."""
    if len(arguments) != 1:
        sys.exit("usage: python -m samebits.pins.inside ROW.json")
    row = Row.model_validate_json(Path(arguments[0]).read_text())
    sys.stdout.write(json.dumps(asdict(installed(row))) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
