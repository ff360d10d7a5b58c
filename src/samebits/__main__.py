"""``python -m samebits``."""

from samebits.cli import main

if __name__ == "__main__":
    main()
