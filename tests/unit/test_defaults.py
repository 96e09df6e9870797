"""Default and bounds of a key are defined once, in the language: the value of an absent key is its `Field.default`,
and no builder repeats it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from compiler.core.diagnostics import Sink
from compiler.core.source import SourceFile
from compiler.expr.keys.kinds import Block, Field, Kind, Later, ListOf, MapOf, OneKey, OneOf
from compiler.frontend.build.model import build_model
from compiler.frontend.language import ROOT
from compiler.frontend.resolve.resolve import resolve
from compiler.frontend.resolve.use import LibraryFinder
from compiler.frontend.schema.validate import validate
from compiler.frontend.yaml.tree import Entry, Mapping, Node, Sequence, from_plain, with_entry
from compiler.frontend.yaml.yaml12 import load_text
from compiler.ir.level0.model import Model

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "compiler" / "frontend" / "build"

SPIKING = """\
language: 1
params: {n: {value: 4}}
neurons:
  cell:
    state: {v: 0, w: 0}
    inputs: {g: {}}
    pool: {reduce: {mean_v: mean(v)}, state: {level: 0}, update: [level = mean_v]}
    dynamics: {dv/dt: -v / (10 ms)}
    update: [v = v + g + pool.level]
    spike: {when: v > 1, reset: [v = 0]}
synapses:
  plastic:
    {state: {w: 0.5}, dynamics: {dw/dt: -w / (1 s)}, on_pre: [deliver(w)], on: {trial.start: [remove(w < 0.1)]},
     events: {high: {of: pre, when: pre.v > 0.5, do: [w = w + 0.1]}}}
currents:
  wave: {params: {a: 1}, value: a * sin(t / (1 ms))}
timed:
  drive: {values: [0, 1], every: 1 ms}
  shown: {values: [0, 1], each: trial}
tables:
  gain: {values: [0, 1], from: 0, to: 2}
phases:
  trial: {every: 10 ms, events: {start: 0 ms}}
classes:
  k: {params: {}}
populations:
  a: {neuron: cell, size: n, classes: [k]}
  b: {neuron: cell, shape: [1, 4, 4], init: {v: {normal: {mean: 1, std: 1}}, w: {lognormal: {mean: 1, std: 1}}}}
  c: {neuron: cell, shape: [1, 2, 2]}
  pools: {neuron: cell, shape: [1, 2, 2, 2]}
projections:
  all: {from: a, to: b, connect: {all_to_all: {}}, deliver: {into: g, weight: 1}}
  one: {from: a, to: a, connect: {one_to_one: {}}, deliver: {into: g, weight: 1}}
  some: {from: a, to: a, connect: {fixed_probability: {p: 0.5}}, deliver: {into: g, weight: 1}}
  in: {from: a, to: b, connect: {fixed_indegree: {number: 2}}, deliver: {into: g, weight: 1}, delay: LATE}
  out: {from: a, to: b, connect: {fixed_outdegree: {number: 2}}, deliver: {into: g, weight: 1}}
  total: {from: a, to: b, connect: {fixed_total: {number: 2}}, deliver: {into: g, weight: 1}}
  near: {from: a, to: a, connect: {rule: {when: distance < 2}}, deliver: {into: g, weight: 1}}
  given: {from: a, to: b, connect: {pairs: {list: [[0, 1]]}}, deliver: {into: g, weight: 1}}
  conv: {from: b, to: b, connect: {conv2d: {kernel: 1}}, deliver: {into: g, weight: 1}}
  pooled:
    {from: b, to: c, connect: {avg_pool2d: {size: 2}}, deliver: {into: g, weight: 1}, space: {spacing: 1}}
  tiled: {from: pools, to: pools, connect: {tile: {size: 1}}, deliver: {into: g, weight: 1}}
  learned:
    {from: a, to: b, connect: {fixed_probability: {p: 0.5}}, synapse: plastic, deliver: {into: g},
     space: {periodic: false}}
inputs:
  wave: {to: c, current: {into: g, source: wave}}
simulate:
  {dt: 0.1 ms, duration: 1 s, instances: 2, checkpoint: {every: 100 ms}, stop: {when: mean(a.v) > 9, every: 1 ms}}
record:
  - spikes: {from: b}
  - trace: {from: a, variables: [v]}
  - events: {from: learned, events: [high]}
  - synapses: {from: learned, variables: [w]}
  - histogram: {from: all, variable: weight, range: [0, 1]}
  - table: {columns: {v: mean(a.v)}, every: 1 ms}
plots:
  - histogram: {from: learned, variable: w}
  - raster: {from: b}
  - trace: {from: a, variable: v}
  - spectrum: {from: b}
  - correlogram: {from: b}
  - psth: {from: b, every: 10 ms}
numerics: {}
sweep: {random: {trials: 2, values: {n: {uniform: {low: 2, high: 5}}}}}
""".replace("LATE", "{normal: {mean: 2 ms, std: 1 ms, round: nearest}}")

TRAINED = """\
language: 1
network:
  inputs: {x: {shape: [4, 8, 8]}, k: {shape: [6], dtype: int32}, y: {shape: [3]}, z: {shape: [], dtype: int32},
           p: {shape: [6]}}
  layers:
    - conv2d: {filters: 4, kernel: 3, padding: same, inputs: x, name: c1, init: {normal: {}}}
    - conv2d: {filters: 4, kernel: 1}
    - batch_norm: {}
    - group_norm: {groups: 2}
    - instance_norm: {}
    - dropout: {rate: 0.1}
    - layer_norm: {}
    - rms_norm: {}
    - prelu: {}
    - scale_shift: {}
    - augment: {value: x * random()}
    - upsample: {factor: 1}
    - max_pool2d: {size: 2}
    - avg_pool2d: {size: 2}
    - conv_transpose2d: {filters: 2, kernel: 3}
    - pad: {before: [0, 1, 1]}
    - slice: {to: 2}
    - split: {into: [left, right]}
    - concat: {inputs: [left, right, left, right]}
    - glu: {axis: 0}
    - reshape: {shape: [8, 9]}
    - conv1d: {filters: 2, kernel: 2, init: {truncated_normal: {}}}
    - conv1d: {filters: 2, kernel: 1, padding: valid}
    - conv_transpose1d: {filters: 2, kernel: 2, init: {uniform: {}}}
    - max_pool1d: {size: 2}
    - avg_pool1d: {size: 2}
    - reshape: {shape: [2, 2, 1, 1]}
    - conv3d: {filters: 2, kernel: 1, init: {orthogonal: {}}}
    - conv3d: {filters: 2, kernel: 1, padding: valid}
    - conv_transpose3d: {filters: 2, kernel: 1}
    - max_pool3d: {size: 1}
    - avg_pool3d: {size: 1}
    - flatten: {name: flat}
    - embedding: {inputs: k, count: 5, size: 4}
    - positions: {}
    - attention: {heads: 2}
    - dot_attention: {}
    - block: {layers: [rnn: {units: 4, sequence: true}]}
    - repeat: {times: 2, layers: [gru: {units: 4, sequence: true}]}
    - lstm: {units: 4, sequence: true, name: heard}
    - rnn: {units: 4, name: last}
    - matmul: {inputs: [heard, last]}
    - one_hot: {inputs: k, count: 5}
    - gru: {units: 4}
    - dense: {units: 4, name: other}
    - one_hot: {inputs: k, count: 5}
    - lstm: {units: 4, name: third}
    - reduce: {inputs: flat, function: sum, axes: [0], name: all}
    - reshape: {shape: [1]}
    - stop_gradient: {name: still}
    - concat: {inputs: [flat, last, other, third, still]}
    - dense: {units: 3, name: out}
train:
  data: {file: d.npz, inputs: {x: x, k: k, y: y, z: z, p: p}, split: {folds: 2}}
  loss:
    sum:
      - loss: {softmax_cross_entropy: {logits: out, target: z, class_weights: [1, 2, 1]}}
      - loss: {binary_cross_entropy: {logits: out, target: y}}
      - loss: {huber: {prediction: out, target: y}}
      - loss: {smooth_l1: {prediction: out, target: y}}
      - loss: {ctc: {logits: heard, target: k}}
      - loss: {triplet: {anchor: out, positive: y, negative: y}}
      - loss: {cosine_embedding: {anchor: heard, other: heard, target: p}}
      - loss: {info_nce: {anchor: out, positive: y}}
  optimizer: {sgd: {learning_rate: 0.1}}
  penalty: [{l1: 0.1}, {l2: 0.1}]
  groups: [{of: out, set: {learning_rate: 0.2}}]
  epochs: 2
  plateau: {metric: loss}
  stop: {metric: loss, patience: 2}
  checkpoint: {}
sweep: {search: {trials: 2, goal: {minimize: loss}, values: {n: {uniform: {low: 2, high: 5}}}}}
"""


def defaults(kind: Kind, seen: set[int]) -> Iterator[tuple[Block, Field]]:
    """Every key with a default in a part of the language."""
    if id(kind) in seen:
        return
    seen.add(id(kind))
    match kind:
        case Block(fields=fields):
            for field in fields:
                if field.default is not None:
                    yield kind, field
                yield from defaults(field.kind, seen)
        case OneKey(alternatives=alternatives, own=own):
            for inner in (*(a.kind for a in alternatives), *(() if own is None else (own,))):
                yield from defaults(inner, seen)
        case OneOf(kinds):
            for inner in kinds:
                yield from defaults(inner, seen)
        case ListOf(item) | MapOf(_, item):
            yield from defaults(item, seen)
        case Later():
            yield from defaults(kind.resolve(), seen)


OTHERWISE = {"rule.spacing": "a factor of 1 that is written stands among the numbers of each member"}
"""Keys whose default, written out, gives a model that is another and computes the same."""


LAYERS = {
    "x": ("conv2d: filters: 2, kernel: 1", "conv_transpose2d: filters: 2, kernel: 1", "prelu:", "batch_norm:",
          "group_norm: groups: 2", "instance_norm:"),
    "c": ("conv3d: filters: 2, kernel: 1", "conv_transpose3d: filters: 2, kernel: 1"),
    "l": ("conv1d: filters: 2, kernel: 1", "conv_transpose1d: filters: 2, kernel: 1", "attention: heads: 2",
          "positions: encoding: trained", "rnn: units: 4", "gru: units: 4", "lstm: units: 4"),
    "v": ("dense: units: 3", "scale_shift:", "layer_norm:", "rms_norm:"),
    "k": ("embedding: count: 5, size: 4",),
    "": ("learned: shape: [2]",),
}  # fmt: skip
"""Of every kind that has weights one, by the input that it reads."""


def _shared() -> str:
    """A network in which two layers of every kind share their weights."""
    lines = []
    for source, kinds in LAYERS.items():
        for kind, _, settings in (x.partition(":") for x in kinds):
            own = ", ".join(s for s in (f"inputs: {source}" if source else "", settings.strip()) if s)
            lines += [f"{kind}: {{name: {kind}_1, {own}}}", f"{kind}: {{weights: {kind}_1, {own}}}"]
    inputs = "x: {shape: [4, 8, 8]}, c: {shape: [2, 2, 2, 2]}, l: {shape: [6, 4]}, v: {shape: [4]}"
    layers = "\n".join(f"    - {x}" for x in lines)
    return f"language: 1\nnetwork:\n  inputs: {{{inputs}, k: {{shape: [6], dtype: int32}}}}\n  layers:\n{layers}\n"


SHARED = _shared()


def called(block: Block, field: Field) -> str:
    return f"{block.title or block.noun}.{field.name}"


ALL = {called(b, f): (b, f) for b, f in defaults(ROOT, set())}


def places(kind: Kind, node: Node) -> Iterator[tuple[Block, Mapping]]:
    """The blocks of a tree with their descriptions."""
    match kind, node:
        case Later(), _:
            yield from places(kind.resolve(), node)
        case OneOf(kinds), _:
            for inner in kinds:
                yield from places(inner, node)
        case ListOf(item), Sequence(items=items):
            for i in items:
                yield from places(item, i)
        case MapOf(_, item), Mapping(entries=entries):
            for e in entries:
                yield from places(item, e.value)
        case OneKey(), Mapping(entries=(entry,)):
            if (found := kind.by_name.get(entry.name)) is not None:
                yield from places(found.kind, entry.value)
        case Block(), Mapping(entries=entries) if all(e.name in kind.by_name for e in entries):
            yield kind, node
            for e in entries:
                yield from places(kind.by_name[e.name].kind, e.value)


def built(root: Mapping) -> Model:
    sink, library = Sink(), LibraryFinder()
    validate(root, sink)
    sink.check()
    found = resolve(root, {}, sink, HERE, library)
    model = build_model(found, "m", HERE, sink, frozenset({"data"}))
    sink.check()
    assert model is not None
    return model


def put(node: Node, old: Mapping, new: Mapping) -> Node:
    if node is old:
        return new
    if isinstance(node, Mapping):
        entries = tuple(Entry(e.key, put(e.value, old, new)) for e in node.entries)
        return Mapping(entries, node.span)
    if isinstance(node, Sequence):
        return Sequence(tuple(put(i, old, new) for i in node.items), node.span)
    return node


def test_absent_keys_have_the_defaults_of_the_language() -> None:
    """With the default written out, a model is the same: for every default that the language has."""
    missing, other = dict(ALL), list[str]()
    for text in (SPIKING, SPIKING.replace("instances: 2, ", ""), TRAINED, SHARED):
        root = load_text(SourceFile("m.yaml", text), Sink())
        assert isinstance(root, Mapping)
        plain = built(root)
        for block, node in [*places(ROOT, root)]:
            for field in block.fields:
                name = called(block, field)
                needed = {o for key, others in block.needs if key == field.name for o in others}
                if name not in missing or field.name in node or not needed <= set(node.keys()):
                    continue
                with_default = with_entry(node, field.name, from_plain(field.default, node.span))
                changed = put(root, node, with_default)
                assert isinstance(changed, Mapping)
                if built(changed) != plain:
                    other.append(name)
                del missing[name]
    assert other == list(OTHERWISE)
    assert set(missing) == set()


# ------------------------------------------------------------------------------------- said once


READS = frozenset({"integer", "real", "steps", "in_steps"})
"""Functions and methods that read a key."""

BY_HAND = {
    "shared/readers.py": "reads keys by their description",
}
"""Files that may call `whole` and `bounded`, with the reason."""


def name_of(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


NO_KEY = {
    'text_of(node.get("source")) or "equations"': "the word for a neuron without `source`, which no file can give"
}
"""Code that looks like the default of a key, and is none."""


def number(node: ast.expr) -> bool:
    """Whether an expression is a number that is written out."""
    inner = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(inner, ast.Constant) and isinstance(inner.value, int | float)


def said_again(text: str) -> Iterator[int]:
    """Lines on which code gives a key's default or bounds."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call() if name_of(node) in ("whole", "bounded"):
                yield node.lineno
            case ast.Call(args=args, keywords=keywords) if name_of(node) in READS:
                if any(number(a) for a in (*args, *(k.value for k in keywords))):
                    yield node.lineno
            case ast.IfExp(ast.Compare(ast.Name(), [ast.Is()]), body, ast.Call() as call):
                if number(body) and name_of(call) in READS:
                    yield node.lineno
            case ast.BoolOp(ast.Or(), [ast.Call() as call, ast.Constant(str(word))]):
                if name_of(call) == "text_of" and word and ast.get_source_segment(text, node) not in NO_KEY:
                    yield node.lineno


def test_builders_say_no_default_and_no_bound() -> None:
    found = {
        f"{name}:{line}"
        for file in sorted(BUILD.rglob("*.py"))
        if (name := file.relative_to(BUILD).as_posix()) not in BY_HAND
        for line in said_again(file.read_text(encoding="utf-8"))
    }
    assert found == set()


@pytest.mark.parametrize(
    "code",
    [
        "r.integer('batch', 32)",
        "r.real('rate', absent=0.5)",
        "r.integer('fold', high=4)",
        "whole(node, c, '`batch`', 1)",
        "32 if node is None else integer(kind, node, c, what)",
        "text_of(node) or 'auto'",
    ],
)
def test_what_is_found(code: str) -> None:
    assert [*said_again(code)] == [1]
