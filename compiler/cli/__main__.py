"""Entry point of the command line: answers `--version` at once and hands everything else to the application.

Assumes: nothing; this module imports next to nothing, which is its purpose.
Guarantees: `netloom --version` costs little more than starting Python; the garbage collector takes little time. Where
the address space is limited (`ulimit -v`) to less than the libraries need, an error says so before they are loaded.
Does not: define commands (compiler/cli/app.py).
"""

from __future__ import annotations

import os
import sys

LEAST_SPACE = 384 << 20
"""Bytes of address space. With less, a BLAS may end the process or hang when it allocates its buffers."""


def little_space() -> str | None:
    """The error when the address space is limited to too little; None otherwise."""
    try:
        import resource
    except ImportError:  # there are no such limits on this system
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY or limit >= LEAST_SPACE:
        return None
    message = f"the address space is limited to {limit >> 20} MB; netloom needs at least {LEAST_SPACE >> 20} MB"
    return f"error[E0905]: {message}\n  = help: `ulimit -v` shows and sets the limit, in kB"


def open_streams() -> None:
    """Let standard streams that the caller has closed (`2>&-`) lead nowhere: whoever prints finds one, and no file of a
    run gets their numbers. Characters that an encoding does not have are escaped."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
        elif mode == "w":
            getattr(sys, name).reconfigure(errors="backslashreplace")


def main() -> None:
    """Run the command in sys.argv and exit with its code."""
    open_streams()
    if sys.argv[1:] in (["--version"], ["-V"]):
        from compiler.core.version import VERSION

        print(f"netloom {VERSION}")
        return
    import gc
    import signal

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C while modules are loaded is no traceback
    if (message := little_space()) is not None:
        print(message, file=sys.stderr)
        sys.exit(5)
    # Everything here runs in one thread; idle threads of a BLAS would only spin. Set before numpy is imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Modules and the levels of a model live until the end: a collector that looks for garbage among them, again and
    # again and once more at the end, takes a tenth of the time of a build.
    gc.set_threshold(100_000, 50, 50)
    if sys.argv[1:2] == ["build"]:
        gc.disable()  # nothing of it is garbage, but for what is used last
    from compiler.runtime.common.signals import ended_by_signals

    with ended_by_signals(command=True) as ending:
        try:
            from compiler.cli.app import run_app

            code = run_app()
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            code = 130
        if ending.number is not None and code in (1, 130):  # 1: it arrived while typer was parsing options
            code = 128 + ending.number
    gc.disable()
    gc.freeze()
    sys.exit(code)


if __name__ == "__main__":
    main()
