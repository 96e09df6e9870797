"""A report of what `netloom tune` has measured, as one HTML file that needs no network.

Assumes: compiler/tune/report.py.
Guarantees: as page.py.
Does not: measure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from itertools import groupby

from compiler.core.disk import bytes_text
from compiler.report.page import document, table
from compiler.tune.result import Row, Step

HEADER = ("candidate", "us", "% of the limit", "memory", "error", "")


def page(title: str, machine: str, rows: Sequence[Row], steps: Sequence[Step], single: Mapping[str, int]) -> str:
    """The candidates of all contractions, the steps that were measured whole, and how much has one way, by kind."""
    parts = [f"<h1>{escape(title)}</h1><p class=from>measured on {escape(machine)}</p>"]
    if steps:
        parts.append("<h2>Whole steps</h2>")
        parts.append(
            table([[s.phase, s.before, s.after] for s in steps], ["phase", "us with the rules", "us as chosen"])
        )
    parts.append("<h2>Contractions</h2>")
    for path, found in groupby(rows, key=lambda r: r.path):
        parts.append(f"<h3>{escape(path)}</h3>" + table([_cells(r) for r in found], HEADER))
    parts.append("<h2>In one way</h2>" + table(sorted(single.items()), ["kind", "nodes"]))
    return document(title, "".join(parts))


def _cells(row: Row) -> list[object]:
    share = "" if row.share is None else f"{100 * row.share:.0f}"
    error = "" if row.error is None else f"{row.error:.1e}"
    return [row.way, row.microseconds, share, bytes_text(row.workspace) if row.workspace else "", error, row.mark]
