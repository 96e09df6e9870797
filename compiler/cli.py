"""The command line's entry: answers `--version` at once and hands everything else to the application.

Assumes: nothing; this module imports next to nothing, which is its purpose.
Guarantees: `netloom --version` costs little more than starting Python.
Does not: define commands (compiler/cli_app.py).
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command in sys.argv and exit with its code."""
    if sys.argv[1:] in (["--version"], ["-V"]):
        from compiler.version import VERSION

        print(f"netloom {VERSION}")
        return
    # Everything here runs in one thread; idle threads of a BLAS would only spin. Set before numpy is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from compiler.cli_app import run_app

    sys.exit(run_app())


if __name__ == "__main__":
    main()
