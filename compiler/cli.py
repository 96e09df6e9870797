"""The command line's entry: answers `--version` at once and hands everything else to the application.

Assumes: nothing; this module imports next to nothing, which is its purpose.
Guarantees: `netloom --version` costs little more than starting Python; the garbage collector takes little time.
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
    import gc

    # Everything here runs in one thread; idle threads of a BLAS would only spin. Set before numpy is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Modules and the levels of a model live until the end: a collector that looks for garbage among them, again and
    # again and once more at the end, takes a tenth of the time of a build.
    gc.set_threshold(100_000, 50, 50)
    from compiler.runner.signals import ended_by_signals

    with ended_by_signals(command=True) as ending:
        try:
            from compiler.cli_app import run_app

            code = run_app()
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            code = 130
        if ending.number is not None and code in (1, 130):  # 1: it came while typer was reading options
            code = 128 + ending.number
    gc.disable()
    gc.freeze()
    sys.exit(code)


if __name__ == "__main__":
    main()
