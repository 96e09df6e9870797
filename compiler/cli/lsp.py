"""The command `netloom lsp`: the language server.

Assumes: compiler/cli/app.py imports this module, which adds its command to the application.
Guarantees: as app.py.
Does not: do anything itself (compiler/lsp).
"""

from __future__ import annotations

from typing import Annotated

import typer

from compiler.cli.options import command, option


@command("stdio port")
def lsp(
    stdio: Annotated[bool, typer.Option("--stdio", help="Over standard input and output, as without --port.")] = False,
    port: Annotated[int | None, option("Over a port of this machine.", min=1, max=65535)] = None,
) -> None:
    """Serve editors: errors while you type, completion, hover, renaming."""
    from compiler.core.diagnostics import RunError

    if stdio and port is not None:
        raise typer.BadParameter("--stdio and --port exclude each other")
    try:
        from compiler.lsp.server import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pygls", "lsprotocol"):
            raise
        message = "the language server needs the package `pygls`, which is not installed"
        raise RunError("E0938", message, "pip install 'netloom[lsp]'") from None
    serve(port)
