"""The pages of the library: one per neuron, current, synapse and optimizer, from models/library.

Assumes: one definition per file, with a description.
Guarantees: every parameter, state, input and equation of a definition is on its page, in the order of its file.
Does not: run anything (figures.py does).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from scripts.site import figures
from scripts.site.latex import Unreadable, derivative, expression, statement
from scripts.site.papers import PAPERS, WITHOUT

ROOT: Final = Path(__file__).resolve().parents[2]
LIBRARY: Final = ROOT / "models" / "library"
KINDS: Final[Mapping[str, str]] = {
    "neurons": "neuron",
    "synapses": "synapse",
    "currents": "current",
    "optimizers": "optimizer",
}

_SYMBOLS: Final = {
    "param": r"\theta",
    "gradient": "g",
    "step": "k",
    "learning_rate": r"\eta",
    "momentum": r"\mu",
    "decay": r"\lambda",
}
"""Of optimizers."""

_MEANINGS: Final = {
    "learning_rate": "Learning rate",
    "beta1": "Decay of the mean of gradients",
    "beta2": "Decay of the mean of squared gradients",
    "epsilon": "Keeps the denominator away from 0",
    "decay": "Weight decay",
    "rho": "Decay of the means of squares",
    "momentum": "Decay of the velocity",
    "momentum_decay": "Decay of the schedule of beta1",
    "smoothing": "Decay of the mean of squares",
    "learning_rate_decay": "Decay of the learning rate",
}
"""Of the parameters of optimizers, which have no description of their own."""

_CAPTIONS: Final = {
    "neurons": "The response to a step of current with the default parameters; spikes in red.",
    "currents": "The current over time; the parameters stand above the figure.",
    "synapses": "What the synapse does, as simulated by Netloom.",
    "optimizers": "The training loss of a network of 64, 32 and 10 units on handwritten digits, batches of 64; every "
    "optimizer with its default parameters, which nobody has tuned for this.",
}


@dataclass(frozen=True)
class Definition:
    """One definition: `body` with all scalars as text; `text`: its file."""

    kind: str
    name: str
    body: Mapping[str, Any]
    text: str

    @property
    def description(self) -> str:
        return " ".join(str(self.body["description"]).split())


def definitions(kind: str) -> list[Definition]:
    """The definitions of a kind, by name."""
    found = []
    for path in sorted((LIBRARY / kind).glob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        body = _body(kind, text, path.stem)
        if base := body.get("use"):
            other = _body(kind, (LIBRARY.parent / f"{base}.yaml").read_text(encoding="utf-8"), Path(base).name)
            body = {**other, **body, "params": {**other["params"], **body.get("params", {})}}
        found.append(Definition(kind, path.stem, body, text))
    return found


def _body(kind: str, text: str, name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.load(text, yaml.BaseLoader)[kind][name]
    return loaded


def pages() -> dict[str, str]:
    """By path: the page of each definition, and the list of them all."""
    made: dict[str, str] = {}
    for kind in KINDS:
        found = definitions(kind)
        made[f"library/{kind}.md"] = _list(kind, found)
        for definition in found:
            path = f"library/{definition.name}.md"
            if path in made:
                raise ValueError(f"two definitions are called {definition.name}")
            made[path] = page(definition)
    return {"library/index.md": _HEAD, **made}


_HEAD = """\
# The library

Definitions that every model may name, as `library/neurons/adex`. They are model files like yours: copy one and change
it, or take it over with `use` and change some of its keys. The figures are made by running them.

```{toctree}
:maxdepth: 2

neurons
synapses
currents
optimizers
```
"""


def _list(kind: str, found: list[Definition]) -> str:
    cards = "\n\n".join(
        card(f"../generated/{kind}/{d.name}.svg", d.name, f"{d.name}.md", _short(d.description)) for d in found
    )
    rows = "\n".join(d.name for d in found)
    toctree = f"```{{toctree}}\n:hidden:\n\n{rows}\n```\n"
    return f"# {kind.capitalize()}\n\n:::{{container}} gallery\n{cards}\n:::\n\n{toctree}"


def card(image: str, name: str, page: str, says: str) -> str:
    """A link with a picture, for a `gallery`."""
    return f"[![{name}]({image}) **{name}** {says}]({page})"


def _short(text: str) -> str:
    """The beginning of a description, up to its source or the end of its first sentence."""
    short = re.split(r" \(|[.:;] |\.$|, in the form| in the modern", text, maxsplit=1)[0]
    if len(short) < 20:  # a name: what follows it says more
        short = re.split(r"[,;:.]", re.sub(r" \([^)]*\)", "", text), maxsplit=1)[0]
    return short


def page(d: Definition) -> str:
    """The text of the page of a definition."""
    use = {
        "neurons": f"populations: {{cells: {{neuron: library/neurons/{d.name}, size: 100}}}}",
        "synapses": "projections:\n  p:\n    from: a\n    to: b\n    connect: {all_to_all: {}}\n"
        f"    synapse: library/synapses/{d.name}\n    deliver: {{into: i}}",
        "currents": f"inputs: {{drive: {{to: cells, current: {{into: i, source: library/currents/{d.name}}}}}}}",
        "optimizers": f"train: {{optimizer: {{{d.name}: {{}}}}}}",
    }[d.kind]
    parts = [
        f"# {d.name}",
        d.description,
        f"```yaml\n{use}\n```",
        f"![{d.name}](../generated/{d.kind}/{d.name}.svg)",
        f"*{_caption(d)}*",
        _equations(d),
        _parameters(d),
        _states(d),
        _references(d.name),
        f"## Text\n\n`models/library/{d.kind}/{d.name}.yaml`:\n\n```yaml\n{d.text}```",
    ]
    return "\n\n".join(p for p in parts if p) + "\n"


def _caption(d: Definition) -> str:
    if d.kind == "neurons" and d.name in figures.RASTERS:
        return "A raster of spikes over time."
    if d.kind == "synapses" and d.name in figures.PAIRED:
        return "How 60 pairs of spikes, one of the source and one of the target, change the weight."
    return _CAPTIONS[d.kind]


# --------------------------------------------------------------------------------------------------- equations


def _equations(d: Definition) -> str:
    names = _SYMBOLS if d.kind == "optimizers" else {}
    groups = [(title, [_math(line) for line in lines]) for title, lines in _groups(d, names) if lines]
    if not groups:
        return ""
    text = "\n\n".join("\n\n".join([f"{title}:", *lines]) for title, lines in groups)
    legend = ""
    if d.kind == "optimizers":
        legend = "$\\theta$ is a trained value, $g$ its gradient, $k$ the number of the step from 1.\n\n"
    return f"## Equations\n\n{legend}{text}"


def _math(latex: str) -> str:
    return f"$$\n{latex}\n$$"


def _groups(d: Definition, names: Mapping[str, str]) -> list[tuple[str, list[str]]]:
    """The equations and statements of a definition, by when they hold."""
    b = d.body
    inputs = [
        derivative(name, f"-{name} / {keys['decay']}")
        for name, keys in b.get("inputs", {}).items()
        if isinstance(keys, Mapping) and "decay" in keys
    ]
    method = f" (method `{b['method']}`)" if "method" in b else ""
    groups = [
        (f"Differential equations{method}", _derivatives(b) + inputs),
        ("with", [f"{expression(k)} = {expression(v)}" for k, v in b.get("let", {}).items()]),
        ("The value", [expression(b["value"])] if "value" in b else []),
    ]
    for side, whose in (("pre", "source"), ("post", "target")):
        trace = b.get(side, {})
        groups.append((f"A trace of each {whose}", _derivatives(trace)))
        groups.append((f"at a spike of the {whose}", _statements(trace.get("on_spike", []), names)))
    when = "At every step, for every trained value" if d.kind == "optimizers" else "In every step"
    groups += [
        ("When a spike of the source arrives", _statements(b.get("on_pre", []), names)),
        ("At a spike of the target", _statements(b.get("on_post", []), names)),
        (when, _statements(b.get("update", []), names)),
    ]
    return groups + _spike(b.get("spike"))


def _derivatives(body: Mapping[str, Any]) -> list[str]:
    return [derivative(key[1:].partition("/")[0], text) for key, text in body.get("dynamics", {}).items()]


def _statements(texts: list[str], names: Mapping[str, str]) -> list[str]:
    return [statement(t, names) for t in texts]


def _spike(spike: Mapping[str, Any] | None) -> list[tuple[str, list[str]]]:
    if spike is None:
        return []
    groups = [("Spike when", [expression(spike["when"])]), ("and then", _statements(spike["reset"], {}))]
    refractory = spike.get("refractory")
    if refractory is not None:
        time = refractory["time"] if isinstance(refractory, Mapping) else refractory
        groups.append(("Refractory for", [expression(time)]))
    return groups


# ---------------------------------------------------------------------------------------------------- tables


def _symbol(d: Definition, name: str) -> str:
    return f"${expression(name, _SYMBOLS if d.kind == 'optimizers' else {})}$"


def _parameters(d: Definition) -> str:
    params = d.body.get("params", {})
    if not params:
        return ""
    rows = ["| name | symbol | default | meaning |", "| --- | --- | --- | --- |"]
    for name, keys in params.items():
        if isinstance(keys, str):
            keys = {"value": keys, "description": _MEANINGS.get(name, "")}
        value = f"`{keys['value']}`" if "value" in keys else f"*required*, {_unit(keys.get('unit', ''))}"
        rows.append(f"| `{name}` | {_symbol(d, name)} | {value} | {keys.get('description', '')} |")
    return "## Parameters\n\n" + "\n".join(rows)


def _unit(text: str) -> str:
    return "in the unit of what it is added to" if text == "into" else f"in `{text}`"


def _states(d: Definition) -> str:
    rows = []
    for where, body in (
        ("", d.body),
        ("of the source", d.body.get("pre", {})),
        ("of the target", d.body.get("post", {})),
    ):
        for name, value in body.get("state", {}).items():
            if isinstance(value, Mapping):
                ((kind, ends),) = value.items()
                value = f"{kind} from {ends['low']} to {ends['high']}"
            what = "state" if d.kind == "neurons" or not where else f"trace {where}"
            rows.append(f"| `{name}` | {_symbol(d, name)} | {what} | starts at `{value}` |")
    for name, keys in d.body.get("inputs", {}).items():
        unit = f"in {keys['unit']}" if keys.get("unit") else "without unit"
        decay = f", decays with `{keys['decay']}`" if "decay" in keys else ", holds what arrives in one step"
        rows.append(f"| `{name}` | {_symbol(d, name)} | input | {unit}{decay} |")
    if not rows:
        return ""
    return "\n".join(["## States and inputs", "", "| name | symbol | what | |", "| --- | --- | --- | --- |", *rows])


def _references(name: str) -> str:
    if name in WITHOUT:
        return ""
    if name not in PAPERS:
        raise figures.Missing(f"scripts/site/papers.py has no paper of {name}")
    return "## References\n\n" + "\n".join(f"* {text}" for text in PAPERS[name])


__all__ = ["KINDS", "LIBRARY", "ROOT", "Definition", "Unreadable", "definitions", "page", "pages"]
