"""What the help says beside the options: commands in groups, and examples of each.

Assumes: typer's plain help (no markup).
Guarantees: every example runs, in this order, in an empty folder (tests/unit/test_help_pages.py).
Does not: have commands.
"""

from __future__ import annotations

from typing import Any, Final

from typer.core import TyperGroup

GROUPS: Final = (
    ("Models", ("init", "check", "show", "explain")),
    ("Build and run", ("build", "run", "test", "tune", "sweep")),
    ("Trained networks", ("evaluate", "predict", "export", "import")),
    ("Results", ("runs", "diff", "plot", "report")),
    ("This installation", ("doctor", "targets", "schema", "lsp", "clean")),
)

EXAMPLES: Final = (
    "netloom init model.yaml",
    "netloom init --list",
    "netloom init digits.yaml --kind cnn",
    "netloom init own.yaml --from digits.npz",
    "netloom check model.yaml digits.yaml",
    "netloom show model.yaml",
    "netloom show digits.yaml --memory",
    "netloom explain digits.yaml",
    "netloom explain digits.yaml --details all",
    "netloom explain E0101",
    "netloom build model.yaml",
    "netloom build model.yaml --timings",
    "netloom run model.yaml --set n=500 --duration '1 s'",
    "netloom run digits.yaml --epochs 2 --out runs/first",
    "netloom run digits.yaml --epochs 3 --resume runs/first",
    "netloom run digits.yaml --epochs 2 --tensorboard",
    "netloom test model.yaml",
    "netloom tune digits.yaml --rounds 1",
    "netloom sweep model.yaml -g n=100,200 --seeds 2 --duration '100 ms'",
    "netloom sweep model.yaml -g n=100,200,300 --seeds 2 --duration '100 ms' --dry-run",
    "netloom sweep model.yaml -g n=100,200 --duration '100 ms' --workers 1 --out sweeps/small",
    "netloom runs --filter status=ok --sort -loss",
    "netloom diff runs/first runs/first",
    "netloom plot runs/first --only training --image pdf --style paper",
    "netloom report runs/first",
    "netloom report sweeps/model",
    "netloom evaluate runs/first",
    "netloom predict runs/first --data digits.npz --out outputs.npz",
    "netloom export runs/first --out digits.onnx",
    "netloom import digits.onnx --out imported.yaml",
    "netloom lsp --help",
    "netloom doctor",
    "netloom targets",
    "netloom schema",
    "netloom clean --dry-run",
)


def epilog(command: str, end: str | None) -> str | None:
    """What stands below the options of a command: its examples, and `end`."""
    examples = [f"  {e}" for e in EXAMPLES if e.split()[1] == command]
    parts = ["\n".join(("\b", "Examples:", *examples))] if examples else []
    return "\n\n".join((*parts, *((end,) if end else ()))) or None


class Grouped(TyperGroup):
    """The application; its help lists commands by group, those of no group last."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        named = {n for _, names in GROUPS for n in names}
        rest = tuple(n for n in self.list_commands(ctx) if n not in named)
        width = max((len(n) for n in self.list_commands(ctx)), default=0)
        for title, names in (*GROUPS, ("Others", rest)):
            found = [(n, c) for n in names if (c := self.get_command(ctx, n)) is not None and not c.hidden]
            if found:
                with formatter.section(title):
                    limit = formatter.width - 6 - width
                    formatter.write_dl([(n.ljust(width), c.get_short_help_str(limit)) for n, c in found])
