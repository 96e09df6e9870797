"""Random mutations of model files: bytes, lines, entries of the tree, expressions.

The seed corpus is every model of the project: models/, its library, the error corpus. Case n of a seed is always the
same text, so that a fault is reproducible by its number.
"""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from compiler.core.diagnostics import Sink
from compiler.core.yaml_text import quoted
from compiler.frontend.yaml.tree import Mapping, Plain, to_plain
from compiler.frontend.yaml.yaml12 import load_file

ROOT: Final = Path(__file__).parents[2]
FOLDERS: Final = ("models", "models/library/*", "tests/errors/*")
LARGEST: Final = 40_000
"""Bytes of a seed: larger files hold the same language, and take longer to read."""

ODD: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, 1, -1, 3, 0.5, -2.5, 1e300, -1e-320, 2**31, 2**63, 10**30, 10**400, 1e12, 10**15),
    *("", " ", "x", "all", "v", "exc", "0..3", "3..0", "0..1000000000000", "1e400", "nan", ".inf", "-0", "0x10", "~"),
    *("1 ms", "-1 mV", "2 mm", "1e300 s", "1e-300 ms", "1e12 s", "inf mV", "v > 1", "1 / 0", "n * 2", "random()"),
    *("f(1)", "a b", "((", "p{i}", "{", "x = 3", "9**9**9**9", "2.0**1024", "exp(1000)", "1 % 0", "0**-1", "log(0)"),
    *("deliver(w)", "deliver(w, post.i)", "deliver(1, 2, 3)", "pre.x", "post.v", "w = pre.x", "pre.x = 1", "x_post"),
    *("v = v + 1 mV", "dv/dt", "library/neurons/lif", "library/neurons/none", "library/synapses/stdp_pair"),
    *("a.yaml#b", "data/none.npz", "../..", "/dev/null", "é", "\u2028", "\x00", "\x7f", "*/", "\\\n", "{{ 1 }}", "%s"),
    *([], {}, [1, 2], ["exc"], {"a": 1}, {"uniform": {"low": 0, "high": 1}}, {"value": 3}, [[0, 1]], {"file": "a.npz"}),
    *({"normal": {"mean": 0, "std": 1e300}}, {"lognormal": {"mean": 1e-300, "std": 1e300}}, [[]], [None], {"": ""}),
)
KEYS: Final = ("x", "use", "for", "from", "p{i}", "name", "file", "repeat", "unit", "by_pair", "params", "EOF", "")
TOKENS: Final = (
    *("+", "-", "*", "/", "//", "%", "**", "<", "<=", "==", "!=", "and", "or", "not", "if", "else", "(", ")", ",", "."),
    *("<<", ">>", "^", "&", "|", "~", "@", ":=", "->", "=", "1if", "0or", "1.", ".5", "1e9999", "007", "0x1f", "1_0"),
    *("ms", "mV", "2 ms", "dt", "t", "random()", "normal()", "exp(", "sqrt(-1)", "where(", "true", "False", "None"),
    *("lambda", "__class__", "pre.", "post.w", "i", "j", "n", "é", "\t", "\n", "\\", "'", '"', "#", ";", "[0]", "{x}"),
)
PIECES: Final = (b" ", b"\n", b"\t", b": ", b"- ", b"{", b"]", b'"', b"'", b"#", b"&a ", b"*a", b"\r", b"\xff", b"\x00",
                 b"\xef\xbb\xbf", b"!!int ", b"<<: ", b"---\n", b"...\n", b"? ", b"|\n", b">-\n", b"%Y")  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One changed file: where its seed lies (files are named from there), and its bytes."""

    number: int
    seed: Path
    data: bytes


@cache
def seeds() -> tuple[Path, ...]:
    """The models that are changed, in the order of their names."""
    files = [p for folder in FOLDERS for p in sorted(ROOT.glob(f"{folder}/*.yaml")) if p.parent.name != "data"]
    files += [ROOT / "tests" / "unit" / f"build_{name}.yaml" for name in ("everything", "synapses")]
    return tuple(p for p in files if p.stat().st_size <= LARGEST)


@cache
def _plain(path: Path) -> Plain:
    root = load_file(path, Sink())
    return to_plain(root) if isinstance(root, Mapping) else None


def case(number: int, seed: str = "") -> Case:
    """Case `number` of a seed."""
    try:
        return _case(number, seed)
    except RecursionError:  # nested too deeply to be written
        return Case(number, seeds()[0], b"a: " + b"[" * 5000)


def _case(number: int, seed: str) -> Case:
    rng = random.Random(f"{seed}:{number}")
    path = rng.choice(seeds())
    change = rng.choice((_bytes, _lines, _written, _nodes, _nodes, _nodes, _expressions, _expressions))
    data = path.read_bytes()
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if change in (_bytes, _lines, _written):
            data = change(data, rng)
    if change in (_nodes, _expressions):
        plain = copy.deepcopy(_plain(path))
        if plain is None:
            data = _bytes(data, rng)
        else:
            for _ in range(rng.choice((1, 1, 1, 2, 4))):
                change(plain, rng)
            data = text_of(plain).encode("utf-8", "surrogatepass")
    return Case(number, path, data.replace(b"../../models/", f"{ROOT}/models/".encode()))


# --------------------------------------------------------------------------------------------- text


def _bytes(data: bytes, rng: random.Random) -> bytes:
    out = bytearray(data)
    at = rng.randrange(len(out) + 1)
    match rng.randrange(5):
        case 0:
            del out[at : at + rng.choice((1, 1, 5, 40))]
        case 1:
            out[at:at] = rng.choice(PIECES)
        case 2 if at < len(out):
            out[at] = rng.randrange(256)
        case 3:
            del out[at:]
        case _:
            begin = rng.randrange(len(out) + 1)
            out[at:at] = out[begin : begin + rng.choice((3, 20, 60))]
    return bytes(out)


def _lines(data: bytes, rng: random.Random) -> bytes:
    lines = data.split(b"\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(6):
        case 0:
            del lines[at]
        case 1:
            lines.insert(at, lines[other])
        case 2:
            lines[at], lines[other] = lines[other], lines[at]
        case 3:
            lines[at] = b" " * rng.choice((1, 2, 7)) + lines[at]
        case 4:
            lines[at] = lines[at].lstrip()
        case _:
            lines[at:at] = lines[other : other + 5] * rng.choice((1, 2, 50))
    return b"\n".join(lines)


_ENTRY: Final = re.compile(rb"^(\s*(?:- )*)([\w.{}/]+)(:\s*)(\S.*)?$")
WRITTEN: Final = (
    *(b"{0}{1}: {3}\n{0}{1}: {3}", b"\t{1}: {3}", b"{0}\t{1}: {3}", b"{0}{1}:\t{3}", b" {0}{1}: {3}", b"{0}{1}:{3}"),
    *(b"{0}{1}: &a {3}", b"{0}{1}: *a", b"{0}{1}: &a [*a]", b"{0}{1}: &a {{b: *a}}", b"{0}<<: *a"),
    *(b"{0}? {1}\n{0}: {3}", b"{0}? [{1}]\n{0}: {3}", b"{0}null: {3}", b"{0}1: {3}", b"{0}'{1}': {3}", b"{0}{1} : {3}"),
    *(b"{0}{1}: |\n{0}  {3}", b"{0}{1}: >-\n{0}  {3}", b"{0}{1}: '{3}'", b"{0}{1}: [{3}]", b"{0}{1}: {3} {3}"),
    *(b"{0}{1}: {3}\r", b"{0}{1}: {3}\xc2\xa0", b"{0}\xd0\xb0{1}: {3}", b"{0}{1}: {3},"),
    *(b"{0}{1}: 1e400", b"{0}{1}: .nan", b"{0}{1}: -.inf", b"{0}{1}: 0o17", b"{0}{1}: 1_000", b"{0}{1}: 2026-11-28"),
    *(b"{0}{1}: !!str {3}", b"{0}{1}: {3}  # \xf0\x9f\xa7\xa0", b"{0}{1}: yes"),
    *(b"{0}{1}:", b"---\n{0}{1}: {3}", b"{0}{1}: {3}\n...", b"{0}- {1}: {3}", b"{0}{1}: {{{1}: {3}}}"),
)  # fmt: skip
"""What may be written for the entry `{1}: {3}` that is indented by {0}."""


def _written(data: bytes, rng: random.Random) -> bytes:
    """An entry of a block is written in another way: with tabs, twice, anchors, tags, other kinds of scalars."""
    lines = data.split(b"\n")
    found = [(i, m) for i, line in enumerate(lines) if (m := _ENTRY.match(line))]
    if not found:
        return data
    at, m = rng.choice(found)
    form = rng.choice(WRITTEN).replace(b"{{", b"\0").replace(b"}}", b"\1")
    for k, part in enumerate(m.groups()):
        form = form.replace(b"{%d}" % k, (part or b"").replace(b"{", b"\0").replace(b"}", b"\1"))
    lines[at] = form.replace(b"\0", b"{").replace(b"\1", b"}")
    return b"\n".join(lines)


# --------------------------------------------------------------------------------------------- tree


def text_of(value: Plain) -> str:
    """YAML in flow style: JSON with strings quoted where they must be."""
    match value:
        case dict():
            return "{" + ", ".join(f"{text_of(k)}: {text_of(v)}" for k, v in value.items()) + "}"
        case list():
            return "[" + ", ".join(text_of(v) for v in value) + "]"
        case str():
            return quoted(value)
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case int():
            return f"1{'0' * 400}" if value.bit_length() > 1000 else repr(value)
        case _:
            return repr(value)


Place = tuple[dict[str, Plain] | list[Plain], str | int, Plain]


def places(value: Plain) -> list[Place]:
    """Every (container, key, value) in a plain tree."""
    out: list[Place] = []
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


def _odd(rng: random.Random) -> Plain:
    found: Plain = copy.deepcopy(rng.choice(ODD))
    if rng.random() < 0.03:
        for _ in range(rng.choice((5, 60, 300))):
            found = [found] if rng.random() < 0.5 else {"a": found}
    return found


def _nodes(value: Plain, rng: random.Random) -> None:
    """Change one place of a plain tree."""
    found = places(value)
    if not found:
        return
    container, key, old = rng.choice(found)
    other = rng.choice(found)
    moved = copy.deepcopy(other[2])
    action = rng.randrange(7)
    if isinstance(container, dict) and isinstance(key, str):
        if action == 0:
            del container[key]
        elif action == 1:
            container[key + "_2"] = container[key]
        elif action == 2:
            container[rng.choice(KEYS)] = container.pop(key)
        elif action == 3 and isinstance(other[1], str):
            container[other[1]] = moved
        else:
            container[key] = (_odd(rng), moved, _other_number(old, rng))[action % 3]
    elif isinstance(container, list) and isinstance(key, int):
        if action == 0:
            del container[key]
        elif action == 1:
            container.insert(key, container[key])
        elif action == 2:
            container.reverse()
        elif action == 3:
            container += container * (20 if len(container) < 100 else 1)
        else:
            container[key] = (_odd(rng), moved, _other_number(old, rng))[action % 3]


def _other_number(old: Plain, rng: random.Random) -> Plain:
    """A number of another size in the place of one, with its unit."""
    other = rng.choice(
        ("0", "-1", "1e-9", "1e9", "1e300", "1000000000000", "0.3", "7", "1e-300", "9999999999999999999")
    )
    if isinstance(old, str):
        return re.sub(r"\d+(\.\d+)?(e[+-]?\d+)?", other, old, count=1)
    if isinstance(old, bool) or not isinstance(old, int | float):
        return _odd(rng)
    return int(other) if other.lstrip("-").isdigit() else float(other)


# ---------------------------------------------------------------------------------------- expressions

_WORD: Final = re.compile(r"\w+|\s+|\*\*|//|[<>=!]=|.", re.DOTALL)


def _expressions(value: Plain, rng: random.Random) -> None:
    """Change one text of a plain tree that may be an expression or a statement."""
    found = [p for p in places(value) if isinstance(p[2], str | int | float) and not isinstance(p[2], bool)]
    texts = [p for p in found if isinstance(p[2], str) and re.search(r"[-+*/<>=(]", p[2])]
    if not found:
        return
    container, key, old = rng.choice(texts if texts and rng.random() < 0.8 else found)
    container[key] = _altered(str(old), rng)  # type: ignore[index]


def _altered(text: str, rng: random.Random) -> str:
    words = _WORD.findall(text) or [" "]
    at, other = rng.randrange(len(words)), rng.randrange(len(words))
    many = rng.choice((2, 30, 300, 3000))
    changes: tuple[Callable[[], str], ...] = (
        lambda: "".join(words[:at] + words[at + 1 :]),
        lambda: "".join([*words[:at], rng.choice(TOKENS), *words[at:]]),
        lambda: "".join([*words[:at], rng.choice(TOKENS), *words[at + 1 :]]),
        lambda: "".join([*words[:at], words[other], *words[at + 1 :]]),
        lambda: "(" * many + text + ")" * many,
        lambda: " + ".join([text] * many),
        lambda: "-" * many + text,
        lambda: f"{rng.choice(('exp', 'sqrt', 'abs', 'int', 'log', 'not', 'f', 'min', 'floor'))}({text})",
        lambda: f"({text}) if ({text}) else ({text})",
        lambda: f"({text}) {rng.choice(TOKENS)} ({text})",
    )
    return rng.choice(changes)()[:LARGEST]
