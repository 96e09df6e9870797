"""Whatever a file holds, loading it gives a model or a ModelError that can be shown, nothing else.

The example models and the error corpus are changed at random: entries dropped, doubled, moved and
altered, bytes edited.
"""

from __future__ import annotations

import copy
import os
import random
from pathlib import Path
from typing import Any

import pytest

from compiler.diagnostics import ModelError, Sink
from compiler.frontend.load import load_model
from compiler.frontend.tree import Mapping, Plain, to_plain
from compiler.frontend.yaml12 import load_file
from compiler.ir.verify_model import model_violations
from compiler.render import render

ROOT = Path(__file__).parents[2]
MODELS = [ROOT / "models" / f"{name}.yaml" for name in ("cuba", "lenet_digits", "custom_optimizer", "microcircuit")]
MIXED = ROOT / "tests" / "unit" / "build_everything.yaml"
SYNAPSES = ROOT / "tests" / "unit" / "build_synapses.yaml"
TIMES = int(os.environ.get("NETLOOM_FUZZ", "60"))
SEED = os.environ.get("NETLOOM_FUZZ_SEED", "")

ODD: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        1,
        -1,
        3,
        0.5,
        -2.5,
        1e300,
        10**30,
        10**400,
        "",
        " ",
        "x",
        "all",
        "v",
        "exc",
        "0..3",
        "3..0",
    ),
    *("1 ms", "-1 mV", "2 mm", "v > 1", "1 / 0", "n * 2", "random()", "f(1)", "a b", "((", "p{i}", "{", "x = 3"),
    *("deliver(w)", "deliver(w, post.i)", "deliver(1, 2, 3)", "pre.x", "post.v", "w = pre.x", "pre.x = 1", "x_post"),
    *(
        "v = v + 1 mV",
        "dv/dt",
        "library/neurons/lif",
        "library/neurons/none",
        "a.yaml#b",
        "data/none.npz",
        "é",
        "inf mV",
    ),
    *([], {}, [1, 2], ["exc"], {"a": 1}, {"uniform": {"low": 0, "high": 1}}, {"value": 3}, [[0, 1]], {"file": "a.npz"}),
)


def text_of(value: Plain, depth: int = 0) -> str:
    """YAML in flow style: JSON with strings quoted where they must be."""
    match value:
        case dict():
            return "{" + ", ".join(f"{text_of(k)}: {text_of(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ", ".join(text_of(v) for v in value) + "]"
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case _:
            return repr(value)


def places(value: Plain) -> list[tuple[dict[str, Plain] | list[Plain], str | int, Plain]]:
    """Every (container, key, value) in a plain tree."""
    out: list[tuple[dict[str, Plain] | list[Plain], str | int, Plain]] = []
    stack: list[Plain] = [value]
    while stack:
        match stack.pop():
            case dict() as d:
                out += [(d, k, v) for k, v in d.items()]
                stack += d.values()
            case list() as items:
                out += [(items, i, v) for i, v in enumerate(items)]
                stack += items
    return out


def mutate(value: Plain, rng: random.Random) -> None:
    """Change one place of a plain tree."""
    found = places(value)
    if not found:
        return
    container, key, _ = rng.choice(found)
    action = rng.randrange(5)
    odd, moved = copy.deepcopy((rng.choice(ODD), rng.choice(found)[2]))
    if isinstance(container, dict) and isinstance(key, str):
        if action == 0:
            del container[key]
        elif action == 1:
            container[key + "_2"] = container[key]
        elif action == 2:
            container[rng.choice(("x", "use", "for", "from", "p{i}", "name", "file"))] = container.pop(key)
        elif action == 3:
            container[key] = odd
        else:
            container[key] = moved
    elif isinstance(container, list) and isinstance(key, int):
        if action == 0:
            del container[key]
        elif action == 1:
            container.insert(key, container[key])
        elif action == 2:
            container.reverse()
        elif action == 3:
            container[key] = odd
        else:
            container[key] = moved


def attempt(path: Path) -> None:
    """Load; render what is found, or check what is built."""
    sink = Sink()
    try:
        model = load_model(path, sink=sink)
    except ModelError as error:
        assert error.diagnostics
        for format in ("human", "short", "json"):
            assert render(error.diagnostics, format)
    else:
        assert model_violations(model) == []


@pytest.mark.parametrize("path", [*MODELS, MIXED, SYNAPSES], ids=lambda p: p.stem)
def test_changed_entries(path: Path, tmp_path: Path) -> None:
    rng = random.Random(SEED + path.stem)
    root = load_file(path, Sink())
    assert isinstance(root, Mapping)
    (tmp_path / "data").symlink_to(ROOT / "models" / "data")
    target = tmp_path / "m.yaml"
    for _ in range(TIMES):
        plain = to_plain(root)
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            mutate(plain, rng)
        target.write_text(text_of(plain).replace("../../models/", ""), encoding="utf-8")
        attempt(target)


@pytest.mark.parametrize("path", [*MODELS, MIXED, SYNAPSES], ids=lambda p: p.stem)
def test_changed_bytes(path: Path, tmp_path: Path) -> None:
    rng = random.Random(SEED + path.stem)
    original = path.read_bytes().replace(b"../../models/", b"")
    (tmp_path / "data").symlink_to(ROOT / "models" / "data")
    target = tmp_path / "m.yaml"
    for _ in range(TIMES):
        data = bytearray(original)
        for _ in range(rng.choice((1, 1, 2, 5))):
            at = rng.randrange(len(data))
            match rng.randrange(4):
                case 0:
                    del data[at : at + rng.choice((1, 1, 5, 40))]
                case 1:
                    data[at:at] = rng.choice(
                        (b" ", b"\n", b"\t", b": ", b"- ", b"{", b"]", b'"', b"'", b"#", b"&a ", b"*a")
                    )
                case 2:
                    data[at] = rng.randrange(256)
                case _:
                    begin = rng.randrange(len(data))
                    data[at:at] = data[begin : begin + rng.choice((3, 20, 60))]
        target.write_bytes(bytes(data))
        attempt(target)
