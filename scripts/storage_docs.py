"""The tables of storages in docs/connectivity.md, from compiler/connect/storage.py.

    python -m scripts.storage_docs

Assumes: the page has the two marks between which the tables stand.
Guarantees: the same page for the same code; nothing outside the marks changes.
Does not: explain rules (docs/reference.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from compiler.connect import RULES, ConnectRule
from compiler.connect.storage import OF_RULES, STORAGES, Asked, Choice, Need, Storage, refused

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "connectivity.md"
BEGIN: Final = "<!-- Written by `python -m scripts.storage_docs`, from compiler/connect/storage.py. -->\n"
END: Final = "<!-- End of what is written. -->\n"
SHOWN: Final = sorted((s for s in STORAGES.values() if s.written), key=lambda s: s.name != "sparse")


def _table(lines: Iterable[Iterable[str]]) -> str:
    head, *rest = (f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([head, "| --- " * (head.count(" | ") + 1) + "|", *rest, ""])


def _of_rule(rule: ConnectRule, storage: Storage) -> str:
    if rule.form in storage.instead:
        return f"`{storage.instead[rule.form]}`"
    return "-" if refused(storage.name, Asked(rule), OF_RULES) else "yes"


def _of_need(need: Need, storage: Storage) -> str:
    cell = storage.cells.get(need)
    return "yes" if cell is None else cell.value if isinstance(cell, Choice) else "-"


def tables() -> str:
    """What storages hold, which rules they are for, and what else of a projection they can hold."""
    held = [("storage", "what is held"), *((f"`{s.name}`", s.holds) for s in SHOWN)]
    held.append(("`auto`", "`dense`, one to one or `toeplitz` where that holds everything, else `sparse`"))
    names = [f"`{s.name}`" for s in SHOWN]
    rules = [("rule", *names), *((f"`{r.keys.name}`", *(_of_rule(r, s) for s in SHOWN)) for r in RULES)]
    needs = [n for n in Need if n not in OF_RULES and any(n in s.cells for s in SHOWN)]
    more = [("of a projection", *names), *((n.value, *(_of_need(n, s) for s in SHOWN)) for n in needs)]
    return "\n".join(map(_table, (held, rules, more)))


def page(text: str) -> str:
    """The page with the tables of today."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{tables()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
