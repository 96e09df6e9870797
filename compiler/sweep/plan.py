"""The trials of a sweep: from `sweep:` of a model file, or from a caller's map of the same form.

Assumes: a file that the loader can read.
Guarantees: the same trials in the same order for the same text; every setting has been checked against its parameter
(compiler/frontend/resolve/swept.py says what is left to the trials); equal trials occur once. A drawn value depends on
(seed, trial, parameter) alone.
Does not: load the model.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from compiler.core.diagnostics import RunError, Sink
from compiler.core.source import SourceFile
from compiler.core.version import VERSION
from compiler.frontend.build.goal import check_goal
from compiler.frontend.language.sweep import SEARCH
from compiler.frontend.load import check_swept, data_folder, load_model
from compiler.frontend.resolve.imports import File
from compiler.frontend.resolve.swept import QUANTITY, TRIALS, full_form
from compiler.frontend.resolve.use import LibraryFinder, Uses
from compiler.frontend.yaml import tree
from compiler.frontend.yaml.tree import to_plain
from compiler.frontend.yaml.yaml12 import load_file, load_text
from compiler.ir.level0.streams import stream_key
from compiler.runtime.prepare import refuse_seed
from compiler.sweep.trial import Trial

MOST: Final = 1_000_000


@dataclass(frozen=True)
class SearchPlan:
    """`trials`: how many; `goal`: a result; `values`: distributions by parameter, as in the file; `text`: the digest
    from which the keys of trials are made."""

    sampler: str
    trials: int
    seed: int
    goal: str
    maximize: bool
    prune: bool
    values: Mapping[str, Mapping[str, Any]]
    text: str


@dataclass(frozen=True)
class Plan:
    """`name`: of the model; `swept`: the parameters, in the order of the columns; `trials`: none for a search, which
    finds them."""

    path: Path
    name: str
    swept: tuple[str, ...]
    trials: tuple[Trial, ...]
    fixed: Mapping[str, str] = field(default_factory=dict)
    search: SearchPlan | None = None

    @property
    def count(self) -> int:
        return len(self.trials) if self.search is None else self.search.trials


def plan(
    path: Path,
    own: Mapping[str, Any] | tree.Mapping | None,
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
        raise RunError("E0912", f"`{path}` is no model")
    text = _text_hash(root, path, fixed, options)
    if own is not None:
        root = tree.with_entry(root, "sweep", own if isinstance(own, tree.Mapping) else _tree_of(own))
    check_swept(root, fixed, sink)
    sink.check()
    block = _block(root.get("sweep"))
    if seeds is not None:
        block["seeds"] = seeds
    if not any(kind in block for kind in (*TRIALS, "seeds")):
        help = "write `sweep: {grid: {n: [1000, 2000]}}` into the model, or give `--grid n=1000,2000` or `--seeds 10`"
        raise RunError("E0912", f"`{path}` says no `sweep`", help)
    name = root.get("name")
    called = name.text if isinstance(name, tree.Scalar) else path.stem
    if "search" in block:
        return _search_plan(Plan(path, called, (), (), dict(fixed)), block, root, text, options)
    combinations = list(itertools.islice(_combinations(block), MOST + 1))
    numbers = _seeds(block.get("seeds"), root)
    if len(combinations) * len(numbers) > MOST:
        raise _too_many()
    swept = tuple(dict.fromkeys(name for c in combinations for name in c))
    trials: dict[str, Trial] = {}
    for settings in combinations:
        for seed in numbers:
            key = key_of(text, settings, seed)
            trials.setdefault(key, Trial(settings, seed, key))
    return Plan(path, called, swept, tuple(trials.values()), dict(fixed))


def _search_plan(
    plan: Plan, block: Mapping[str, Any], root: tree.Mapping, text: str, options: Mapping[str, Any]
) -> Plan:
    """A search. Raises ModelError, RunError (E0912, exit 2)."""
    if "seeds" in block:
        raise RunError("E0912", "a `search` runs each trial with the model's own seed, without --seeds")
    sink = Sink()
    unread = frozenset({"data"} if options.get("data") is not None else ())
    model = load_model(plan.path, plan.fixed, sink=sink, unread=unread, swept=False)
    check_goal(root, model, sink, validation=options.get("validation") is not None)
    sink.check()
    found = block["search"]
    ((way, goal),) = found["goal"].items()
    values = found["values"]
    sampler, seed, prune = (str(found.get(k, SEARCH.by_name[k].default)) for k in ("sampler", "seed", "prune"))
    trials, better = int(found["trials"]), way == "maximize"
    search = SearchPlan(sampler, trials, int(seed), goal, better, prune.lower() == "true", values, text)
    return replace(plan, swept=tuple(values), search=search)


def key_of(text: str, settings: Mapping[str, str], seed: int | None) -> str:
    """The name of a trial: 12 digits of a hash. `text`: the digest of what its sweep shares."""
    return hashlib.sha256(json.dumps([text, sorted(settings.items()), seed]).encode()).hexdigest()[:12]


def _tree_of(given: Mapping[str, Any]) -> tree.Mapping:
    """A caller's sweep as a located tree. Raises ModelError, RunError (E0912, exit 2)."""
    sink = Sink()
    node = load_text(SourceFile("trials", json.dumps(_written(given), indent=1, ensure_ascii=False)), sink)
    sink.check()
    assert isinstance(node, tree.Mapping)
    return node


def _written(value: Any) -> Any:
    """A caller's value as JSON can hold it. Raises RunError (E0912, exit 2)."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Mapping):
        return {str(name): _written(item) for name, item in value.items()}
    if isinstance(value, Sequence | np.ndarray) and not isinstance(value, str | bytes):
        return [_written(item) for item in value]
    if isinstance(value, str | bool | int | float):
        return value
    raise RunError("E0912", f"a sweep is made of maps, lists, texts and numbers, not {value!r}")


def _block(node: tree.Node | None) -> dict[str, Any]:
    """The sweep of a file; the short form is a grid."""
    plain = _texts(full_form(node)) if isinstance(node, tree.Mapping) else {}
    assert isinstance(plain, dict)
    return plain


def _texts(node: tree.Node) -> Any:
    """`node` as plain Python, its scalars as they are written."""
    match node:
        case tree.Scalar(text=text):
            return text
        case tree.Mapping(entries=entries):
            return {e.name: _texts(e.value) for e in entries}
    return [_texts(i) for i in node.items]


def _combinations(block: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """The settings of every trial, seeds aside."""
    if "grid" in block:
        grid = block["grid"]
        yield from (dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values()))
    elif "list" in block:
        yield from block["list"]
    elif "random" in block:
        yield from _drawn(block["random"])
    else:
        yield {}


def _drawn(block: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    count, seed = int(block["trials"]), int(block.get("seed", 0))
    for k in range(count):
        yield {
            name: drawn_value(rule, np.random.Philox(key=stream_key(seed, f"sweep/{name}/{k}")))
            for name, rule in block["values"].items()
        }


def drawn_value(rule: Mapping[str, Any], bits: np.random.Philox) -> str:
    """A value of a parameter, drawn from `{uniform: {low, high}}`, `log_uniform`, `integers` or `choice`."""
    (kind, given), *_ = rule.items()
    u = float(bits.random_raw() >> 11) / (1 << 53)
    if kind == "choice":
        return str(given[int(u * len(given))])
    low, high, unit = bounds(given)
    if kind == "integers":
        return str(int(low) + int(u * (int(high) - int(low) + 1)))
    value = low * (high / low) ** u if kind == "log_uniform" else low + (high - low) * u
    return f"{value:.12g}{unit}"


def bounds(given: Mapping[str, str]) -> tuple[float, float, str]:
    """(low, high, " unit") of a distribution."""
    ends = [QUANTITY.fullmatch(given[k]) for k in ("low", "high")]
    assert ends[0] is not None and ends[1] is not None, "check_sweep refuses other texts"
    return float(ends[0][1]), float(ends[1][1]), f" {ends[0][2]}" if ends[0][2] else ""


def _seeds(given: Any, root: tree.Mapping) -> tuple[int | None, ...]:
    """The seeds of each trial. Raises RunError (E0912)."""
    if given is None:
        return (None,)
    try:
        if not isinstance(given, str | int | np.integer):
            numbers = dict.fromkeys(int(s) for s in given)
            for number in numbers:
                refuse_seed("a seed", number)
            return tuple(numbers)
        count = int(given)
    except (TypeError, ValueError):
        count = 0
    if count < 1:
        raise RunError("E0912", f"`seeds` is a number from 1 on, or a list of seeds, not {given!r}")
    if count > MOST:
        raise _too_many()
    first = 0
    for name in ("simulate", "train"):
        part = root.get(name)
        own = part.get("seed") if isinstance(part, tree.Mapping) else None
        if isinstance(own, tree.Scalar) and isinstance(own.value, int):
            first = own.value
    return tuple(range(first, first + count))


def _too_many() -> RunError:
    return RunError("E0912", f"the sweep has more than {MOST:,} trials")


def _text_hash(root: tree.Mapping, path: Path, fixed: Mapping[str, str], options: Mapping[str, Any]) -> str:
    """A digest of all text that determines results: the model, its `sweep` and words for readers aside, the files that
    it takes definitions from, settings and options."""
    plain = to_plain(tree.without(root, "sweep", "description", "plots"))
    file = File(root, data_folder(path), "")
    others = sorted(f.root.span.file.text for f in Uses(LibraryFinder(), Sink(), file).imported())
    whole = [VERSION, plain, others, sorted(fixed.items()), sorted((k, str(v)) for k, v in options.items())]
    return hashlib.sha256(json.dumps(whole, default=str).encode()).hexdigest()
