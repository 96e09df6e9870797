"""The trials of a sweep: from `sweep:` of a model file, or from a caller's map of the same form.

Assumes: a file that the loader can read; blocks are as compiler/frontend/language/sweep.py says (the validator checks
that of the file).
Guarantees: the same trials in the same order for the same text; every setting is of a parameter that the model has;
equal trials occur once. A drawn value depends on (seed, trial, parameter) alone.
Does not: check values against a parameter's bounds: the trial that has one is refused when it is loaded.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from compiler.core.diagnostics import did_you_mean
from compiler.core.errors import RunError, Sink
from compiler.core.version import VERSION
from compiler.frontend.load import data_folder
from compiler.frontend.resolve.imports import File
from compiler.frontend.resolve.use import LibraryFinder, Uses
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import to_plain
from compiler.frontend.yaml.yaml12 import load_file
from compiler.ir.level0.streams import stream_key

KINDS: Final = ("grid", "list", "random")
MOST: Final = 1_000_000
_QUANTITY: Final = re.compile(r"\s*([-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?)\s*(\S.*)?")


@dataclass(frozen=True)
class Trial:
    """`settings`: as `--set` takes them, in the order of the sweep; `seed`: None: the model's own. `key`: 12 digits of
    the hash of all that determines its results."""

    settings: Mapping[str, str]
    seed: int | None
    key: str


@dataclass(frozen=True)
class Plan:
    """`name`: of the model; `swept`: the parameters, in the order of the columns."""

    path: Path
    name: str
    swept: tuple[str, ...]
    trials: tuple[Trial, ...]
    fixed: Mapping[str, str] = field(default_factory=dict)


def plan(
    path: Path,
    own: Mapping[str, Any] | None,
    seeds: int | Sequence[int] | None,
    fixed: Mapping[str, str],
    options: Mapping[str, Any],
) -> Plan:
    """The trials of a model file. `own`: in place of its `sweep`; `seeds`: in place of the sweep's; `fixed`: settings
    of every trial; `options`: what else determines results. Raises ModelError, RunError (E0912, exit 2)."""
    sink = Sink()
    root = load_file(path, sink)
    sink.check()
    if not isinstance(root, tree.Mapping):
        raise RunError("E0912", f"`{path}` is no model", exit_code=2)
    block = _block(root.get("sweep")) if own is None else dict(own)
    if seeds is not None:
        block["seeds"] = seeds
    if not any(kind in block for kind in KINDS) and "seeds" not in block:
        help = "write `sweep: {grid: {n: [1000, 2000]}}` into the model, or give `--grid n=1000,2000` or `--seeds 10`"
        raise RunError("E0912", f"`{path}` says no `sweep`", help, exit_code=2)
    combinations = list(itertools.islice(_combinations(block), MOST + 1))
    numbers = _seeds(block.get("seeds"), root)
    if len(combinations) * len(numbers) > MOST:
        raise RunError("E0912", f"the sweep has more than {MOST:,} trials", exit_code=2)
    swept = tuple(dict.fromkeys(name for c in combinations for name in c))
    _known(swept, root, path)
    text = _text_hash(root, path, fixed, options)
    trials: dict[str, Trial] = {}
    for settings in combinations:
        for seed in numbers:
            key = hashlib.sha256(json.dumps([text, sorted(settings.items()), seed]).encode()).hexdigest()[:12]
            trials.setdefault(key, Trial(settings, seed, key))
    name = root.get("name")
    called = name.text if isinstance(name, tree.Scalar) else path.stem
    return Plan(path, called, swept, tuple(trials.values()), dict(fixed))


def _block(node: tree.Node | None) -> dict[str, Any]:
    """The sweep of a file; the short form is a grid."""
    if not isinstance(node, tree.Mapping):
        return {}
    plain = _texts(node)
    assert isinstance(plain, dict)
    return plain if any(k in plain for k in (*KINDS, "seeds")) else {"grid": plain}


def _texts(node: tree.Node) -> Any:
    """`node` as plain Python, its scalars as they are written."""
    match node:
        case tree.Scalar(text=text):
            return text
        case tree.Mapping(entries=entries):
            return {e.name: _texts(e.value) for e in entries}
    return [_texts(i) for i in node.items]


def _combinations(block: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """The settings of every trial, seeds aside. Raises RunError (E0912)."""
    given = [kind for kind in KINDS if kind in block]
    if len(given) > 1:
        raise RunError("E0912", f"a sweep has one of `{'`, `'.join(given)}`", exit_code=2)
    if not given:
        yield {}
    elif given[0] == "grid":
        grid = {str(n): _listed(n, values) for n, values in block["grid"].items()}
        yield from (dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values()))
    elif given[0] == "list":
        yield from ({str(n): text_of(v) for n, v in trial.items()} for trial in block["list"])
    else:
        yield from _drawn(block["random"])


def _listed(name: str, values: Any) -> list[str]:
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray) or not len(values):
        raise RunError("E0912", f"the values of `{name}` are a list, such as [1, 2], not {values!r}", exit_code=2)
    return [text_of(v) for v in values]


def text_of(value: Any) -> str:
    """A value as `--set` takes it."""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, np.generic):
        value = value.item()
    return value if isinstance(value, str) else repr(value)


def _drawn(block: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    count, seed = int(block["trials"]), int(block.get("seed", 0))
    for k in range(count):
        yield {
            str(name): drawn_value(str(name), rule, np.random.Philox(key=stream_key(seed, f"sweep/{name}/{k}")))
            for name, rule in block["values"].items()
        }


def drawn_value(name: str, rule: Mapping[str, Any], bits: np.random.Philox) -> str:
    """A value of a parameter, drawn from `{uniform: {low, high}}`, `log_uniform`, `integers` or `choice`. Raises
    RunError (E0912)."""
    (kind, given), *_ = rule.items()
    u = float(bits.random_raw() >> 11) / (1 << 53)
    if kind == "choice":
        words = _listed(name, given)
        return words[int(u * len(words))]
    low, high, unit = bounds(name, kind, given)
    if kind == "integers":
        return str(int(low) + int(u * (int(high) - int(low) + 1)))
    value = low * (high / low) ** u if kind == "log_uniform" else low + (high - low) * u
    return f"{value:.12g}{unit}"


def bounds(name: str, kind: str, given: Mapping[str, Any]) -> tuple[float, float, str]:
    """(low, high, " unit") of a distribution. Raises RunError (E0912)."""
    ends = [_QUANTITY.fullmatch(text_of(given[k])) for k in ("low", "high")]
    if kind not in ("uniform", "log_uniform", "integers") or ends[0] is None or ends[1] is None:
        raise RunError("E0912", f"`{name}` is drawn between two numbers with one unit", exit_code=2)
    low, high = float(ends[0][1]), float(ends[1][1])
    if ends[0][2] != ends[1][2] or not low <= high or (kind == "log_uniform" and low <= 0):
        rule = "0 < low <= high" if kind == "log_uniform" else "low <= high"
        raise RunError("E0912", f"`{name}`: {kind} needs {rule}, in one unit", exit_code=2)
    if kind == "integers" and (math.floor(low) != low or math.floor(high) != high or ends[0][2]):
        raise RunError("E0912", f"`{name}`: integers have whole ends without a unit", exit_code=2)
    return low, high, f" {ends[0][2]}" if ends[0][2] else ""


def _seeds(given: Any, root: tree.Mapping) -> tuple[int | None, ...]:
    """The seeds of each trial. Raises RunError (E0912)."""
    if given is None:
        return (None,)
    try:
        if not isinstance(given, str | int | np.integer):
            return tuple(dict.fromkeys(int(s) for s in given))
        count = int(given)
    except (TypeError, ValueError):
        count = 0
    if count < 1:
        raise RunError("E0912", f"`seeds` is a number from 1 on, or a list of seeds, not {given!r}", exit_code=2)
    first = 0
    for name in ("simulate", "train"):
        part = root.get(name)
        own = part.get("seed") if isinstance(part, tree.Mapping) else None
        if isinstance(own, tree.Scalar) and isinstance(own.value, int):
            first = own.value
    return tuple(range(first, first + count))


def _known(swept: Sequence[str], root: tree.Mapping, path: Path) -> None:
    block = root.get("params")
    known = tuple(block.keys()) if isinstance(block, tree.Mapping) else ()
    for name in swept:
        if name not in known:
            listed = f"it has {', '.join(f'`{k}`' for k in known)}" if known else "only `params` can be swept"
            message = f"`{path}` has no parameter `{name}` to sweep over"
            raise RunError("E0912", message, did_you_mean(name, known) or listed, exit_code=2)


def _text_hash(root: tree.Mapping, path: Path, fixed: Mapping[str, str], options: Mapping[str, Any]) -> str:
    """A digest of all text that determines results: the model, its `sweep` and words for readers aside, the files that
    it takes definitions from, settings and options."""
    plain = to_plain(tree.without(root, "sweep", "description", "plots"))
    file = File(root, data_folder(path), "")
    others = sorted(f.root.span.file.text for f in Uses(LibraryFinder(), Sink(), file).imported())
    whole = [VERSION, plain, others, sorted(fixed.items()), sorted((k, str(v)) for k, v in options.items())]
    return hashlib.sha256(json.dumps(whole, default=str).encode()).hexdigest()
