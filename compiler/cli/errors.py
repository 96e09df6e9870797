"""Maps exceptions to exit codes and messages; the only place where a command fails.

Exit codes: EXIT_CODES.

Assumes: commands raise ModelError, BackendError and RunError for what a user can cause.
Guarantees: no traceback reaches a user, unless NETLOOM_DEBUG=1 asks for the one of an internal error.
Does not: import the modules that raise them.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum

import typer

from compiler.core.diagnostics import CodedError, Diagnostic, ModelError
from compiler.core.render import complaint, render
from compiler.core.source import Span

INVALID, USAGE, INTERNAL, INTERRUPTED = 1, 2, 70, 130
EXPECTATION = 6
EXIT_CODES = (
    "Exit codes: 0 ok, 1 invalid model, 2 usage, 3 tool or target missing, 4 code generation or compiler failed, "
    "5 run failed (numerically, or something could not be written), 6 expectation not met, 70 internal error, "
    "129, 130, 143 ended by a signal (HUP, INT, TERM)."
)
REPORT = "please report it with the model and the command, at the project's issue tracker"


class Format(StrEnum):
    """How diagnostics are shown."""

    human = "human"
    short = "short"
    json = "json"


def colored(stream: object) -> bool:
    """Whether a stream shows colours: a terminal, unless NO_COLOR is set."""
    isatty = getattr(stream, "isatty", None)
    return bool(isatty and isatty()) and not os.environ.get("NO_COLOR")


def show(diagnostics: Iterable[Diagnostic], format: Format = Format.human, out: bool = False) -> None:
    """Print diagnostics to standard error, or to standard output where they are the result (`check`)."""
    stream = sys.stdout if out else sys.stderr
    stream.write(render(diagnostics, format.value, colored(stream)))
    stream.flush()


def complain(
    code: str, message: str, help: str | None, format: Format = Format.human, span: Span | None = None
) -> None:
    """Print an error of a run or a tool. Its message may have several lines (a compiler's output)."""
    sys.stderr.write(complaint(code, message, help, format.value, colored(sys.stderr), span))


@contextmanager
def guarded(format: Format = Format.human) -> Iterator[None]:
    """Turns what a command raises into a message and typer.Exit."""
    try:
        yield
    except typer.Exit:
        raise
    except (typer.BadParameter, typer.Abort):
        raise
    except ModelError as error:
        show(error.diagnostics, format)
        raise typer.Exit(INVALID) from None
    except KeyboardInterrupt as error:
        print("interrupted", file=sys.stderr)
        raise typer.Exit(128 + getattr(error, "signal_number", INTERRUPTED - 128)) from None
    except BrokenPipeError:
        sys.stderr.close()
        raise typer.Exit(141) from None
    except Exception as error:
        known = _known(error)
        if known is not None:
            code, message, help, exit_code = known
            complain(code, message, help, format, getattr(error, "span", None))
            raise typer.Exit(exit_code) from None
        if os.environ.get("NETLOOM_DEBUG") == "1":
            traceback.print_exc()
        where = traceback.extract_tb(error.__traceback__)[-1]
        print(
            f"internal error: {type(error).__name__}: {error} "
            f"({os.path.basename(where.filename)}:{where.lineno})\n"
            f"This is a fault of netloom, not of the model; {REPORT}.\n"
            "NETLOOM_DEBUG=1 shows where it happened.",
            file=sys.stderr,
        )
        raise typer.Exit(INTERNAL) from None


def _not_mapped(error: BaseException | None) -> bool:
    """Whether a library could not be mapped into memory."""
    while isinstance(error, ImportError):
        if "failed to map segment" in str(error) or "annot allocate memory" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def _known(error: Exception) -> tuple[str, str, str | None, int] | None:
    """(code, message, help, exit code) of an error that carries them."""
    if isinstance(error, CodedError):
        return error.code, error.message, error.help, error.exit_code
    if isinstance(error, MemoryError) or _not_mapped(error):
        return "E0905", "out of memory", "a smaller model, or fewer recorded members", 5
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        where = f"`{error.filename}`" if error.filename is not None else "standard output"
        return "E0930", f"{where} cannot be written: {error.strerror}", "make room, or write to another disk", 5
    if isinstance(error, OSError) and error.filename is not None:
        return "E0913", f"{error.strerror}: `{error.filename}`", None, USAGE
    return None
