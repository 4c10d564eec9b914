"""Run this example on a server of its own; exits non-zero where a count differs."""

from __future__ import annotations

import sys

from pgwhen.cli import main

if __name__ == "__main__":
    sys.exit(main(["demo", *sys.argv[1:]]))
