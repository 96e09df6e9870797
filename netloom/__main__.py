"""`python -m netloom`: the command, where its script is not on the path."""

from __future__ import annotations

from compiler.cli.__main__ import main

if __name__ == "__main__":
    main()
