"""The reference of the language as pages by topic, from docs/reference.md.

Assumes: docs/reference.md as scripts/reference_docs.py writes it: one `##` per topic, and sections
whose names stand in `<a id="...">`.
Guarantees: every section is on one page; `#name` links lead to it from every page of the site.
Does not: change what is said.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

TOPICS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "file": ("The file, parameters and classes", ("The file", "params", "classes")),
    "neurons": ("Neurons, currents, timed arrays and tables", ("neurons", "currents", "timed", "tables")),
    "synapses": ("Synapses", ("synapses",)),
    "networks": ("Populations, projections, inputs", ("populations", "projections", "inputs")),
    "layers": ("Networks of layers", ("network",)),
    "training": ("Training and optimizers", ("train", "optimizers")),
    "simulation": ("Simulation, phases, numerics", ("simulate", "phases", "numerics")),
    "results": ("Recordings, plots, expectations, sweeps", ("record", "plots", "expect", "sweep")),
    "functions": ("Functions of expressions", ("Functions of expressions",)),
}
"""Pages: title, and the `##` sections of docs/reference.md on them."""


def pages(text: str) -> dict[str, str]:
    """By path: the pages, and reference.md with what holds for all and the list of pages."""
    introduction, *parts = re.split(r"^## ", text, flags=re.MULTILINE)
    sections = {re.sub(r'<a id="\w+"></a>|`', "", part.splitlines()[0]): part for part in parts}
    listed = [name for _, names in TOPICS.values() for name in names]
    if sorted(listed) != sorted(sections):
        raise ValueError(f"TOPICS and docs/reference.md differ: {sorted(set(listed) ^ set(sections))}")
    made = {"reference.md": _linked(introduction) + _list_of_pages()}
    for topic, (title, names) in TOPICS.items():
        body = "\n".join("## " + sections[name] for name in names)
        if len(names) == 1:
            body = body.split("\n", 1)[1].lstrip()
        anchor = "(called)=\n" if topic == "functions" else ""
        made[f"reference/{topic}.md"] = f"{anchor}# {title}\n\n{_up(_linked(body))}"
    return made


def _linked(text: str) -> str:
    """Anchors as targets of MyST, which are known on all pages."""
    return re.sub(r'^(#+) <a id="(\w+)"></a>', r"(\2)=\n\1 ", text, flags=re.MULTILINE)


def _up(text: str) -> str:
    """`###` below a page's title becomes `##`, and links count from the folder of the page."""
    lowered = text if re.search(r"^## ", text, re.MULTILINE) else re.sub(r"^###", "##", text, flags=re.MULTILINE)
    return re.sub(r"\]\((\w+\.md)", r"](../\1", lowered)


def _list_of_pages() -> str:
    rows = "\n".join(f"reference/{topic}" for topic in TOPICS)
    return f"\n## Topics\n\n```{{toctree}}\n:maxdepth: 2\n\n{rows}\n```\n"
