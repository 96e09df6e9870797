"""The YAML loader: scalars, spans, errors, bounds."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.core.diagnostics import Sink
from compiler.core.source import NOWHERE, Origin, SourceFile, Span
from compiler.frontend.yaml import yaml12
from compiler.frontend.yaml.tree import (
    Entry,
    Mapping,
    Node,
    Scalar,
    Sequence,
    from_plain,
    scalar,
    to_plain,
    with_entry,
    with_origin,
    within,
    without,
)
from compiler.frontend.yaml.yaml12 import load_file, load_text

REPOSITORY = Path(__file__).resolve().parents[2]


def read(text: str) -> Node:
    sink = Sink()
    node = load_text(SourceFile("m.yaml", text), sink)
    assert not sink.items, sink.items
    assert node is not None
    return node


def mapping(text: str) -> Mapping:
    node = read(text)
    assert isinstance(node, Mapping)
    return node


def findings(text: str) -> list[tuple[str, str, str]]:
    """(code, marked text, help) of all diagnostics."""
    sink = Sink()
    load_text(SourceFile("m.yaml", text), sink)
    return [(d.code, d.span.file.text[d.span.start : d.span.end] if d.span else "", d.help or "") for d in sink.items]


def codes(text: str) -> list[str]:
    return [code for code, _, _ in findings(text)]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1e-3", 1e-3),
        ("1E5", 1e5),
        ("12", 12),
        ("-7", -7),
        ("+7", 7),
        ("007", 7),
        ("0o17", 15),
        ("0x1F", 31),
        ("1.", 1.0),
        (".5", 0.5),
        ("-0.0", -0.0),
        (".inf", math.inf),
        ("-.INF", -math.inf),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("on", "on"),
        ("no", "no"),
        ("yes", "yes"),
        ("1_000", "1_000"),
        ("0b11", "0b11"),
        ("1:30", "1:30"),
        ("2024-01-01", "2024-01-01"),
        ("20 ms", "20 ms"),
        ("v > v_thresh", "v > v_thresh"),
        ("0..9", "0..9"),
        ("١٢", "١٢"),
        ("1e", "1e"),
        ('"1"', "1"),
        ("'true'", "true"),
    ],
)
def test_core_scalars(written: str, value: object) -> None:
    node = mapping(f"a: {written}").get("a")
    assert isinstance(node, Scalar)
    assert node.value == value
    assert type(node.value) is type(value)
    assert node.plain == (written[:1] not in ("'", '"'))


def test_nan() -> None:
    node = mapping("a: .nan").get("a")
    assert isinstance(node, Scalar)
    assert isinstance(node.value, float)
    assert math.isnan(node.value)
    assert read("a: .nan") == read("{a: .nan}")


def test_spans_of_keys_and_values_count_characters() -> None:
    text = "név: 日本 # c\nb:\n  - [x, {q: 'r s'}]\n  - |\n    text\n    more\n\nc: 1\n"
    root = mapping(text)

    def marked(node: Node) -> str:
        return text[node.span.start : node.span.end]

    assert [marked(e.key) for e in root.entries] == ["név", "b", "c"]
    first = root.get("név")
    assert first is not None
    assert marked(first) == "日本"
    items = root.get("b")
    assert isinstance(items, Sequence)
    assert marked(items.items[0]) == "[x, {q: 'r s'}]"
    assert marked(items.items[1]) == "|\n    text\n    more"
    assert marked(items) == "- [x, {q: 'r s'}]\n  - |\n    text\n    more"
    assert (items.span.line, items.span.column) == (3, 3)


def test_crlf_and_spans() -> None:
    text = "a: 1\r\nb: 2\r\n"
    entry = mapping(text).entry("b")
    assert entry is not None
    assert str(entry.key.span) == "m.yaml:2:1"
    assert to_plain(read(text)) == {"a": 1, "b": 2}


def test_language_forms() -> None:
    text = "functions:\n  swish(x): x / (1 + exp(-x))\nd: {dv/dt: -v}\n"
    text += "r: [v = v_reset]\nq: [deliver(w)]"
    assert to_plain(read(text)) == {
        "functions": {"swish(x)": "x / (1 + exp(-x))"},
        "d": {"dv/dt": "-v"},
        "r": ["v = v_reset"],
        "q": ["deliver(w)"],
    }


@pytest.mark.parametrize("path", sorted((REPOSITORY / "models").rglob("*.yaml")), ids=lambda p: p.stem)
def test_models_load_as_a_yaml_parser_reads_them(path: Path) -> None:
    """Against PyYAML itself, with all scalars as strings."""
    sink = Sink()
    node = load_file(path, sink)
    assert not sink.items
    assert node is not None

    def texts(n: Node) -> object:
        match n:
            case Scalar(text=text):
                return text
            case Sequence(items=items):
                return [texts(i) for i in items]
            case Mapping(entries=entries):
                return {e.key.text: texts(e.value) for e in entries}

    expected = yaml.load(path.read_text("utf-8"), Loader=yaml.BaseLoader)
    assert texts(node) == expected


@pytest.mark.parametrize(
    ("text", "code", "marked"),
    [
        ("", "E0003", ""),
        ("# only a comment\n", "E0003", ""),
        ("---\n...\n", "E0003", ""),
        ("a: 1\na: 2", "E0008", "a"),
        ("a: {b: 1, 'b': 2}", "E0008", "'b'"),
        ("0: a", "E0009", "0"),
        ("true: a", "E0009", "true"),
        ("{~: a}", "E0009", "~"),
        (": a", "E0009", ":"),
        ("[a]: b", "E0009", "[a]"),
        ("x: {{n}: 1}", "E0009", "{n}"),
        ("a: &k x\n*k : 1", "E0009", "*k"),
        ("a: &b {x: 1}\nc: {<<: *b}", "E0010", "<<"),
        ("a: !!str 1", "E0011", "!!str"),
        ("a: !x {b: 1}", "E0011", "!x"),
        ("a: !foo!bar c", "E0011", None),
        ("a: 1\n---\nb: 2", "E0012", "---"),
        ("{a: 1} b", "E0012", None),
        ("%YAML 1.1\n---\na: 1", "E0013", "%YAML 1.1"),
        ("%TAG ! tag:x,2000:\n---\na: 1", "E0013", "%TAG ! tag:x,2000:"),
        ("%FOO\n---\na: 1", "E0013", None),
        ("a: &x [1, *x]", "E0017", "*x"),
        ("a: *nope", "E0018", "*nope"),
        ("a: 1e999", "E0019", "1e999"),
        (f"a: {'9' * 5000}", "E0019", "9" * 5000),
        ("a: b: c", "E0020", ":"),
        ("description: Note: a test", "E0020", ":"),
        ("- a: b: c", "E0020", ":"),
        ("a: 'b\nc: 1", "E0021", "'"),
        ('a: "b', "E0021", '"'),
        ("a: [1, 2\n", "E0022", "["),
        ("a: [1, 2\nb: 3\nc: 4", "E0022", None),
        ("a: {b: 1", "E0022", "{"),
        ("a: [1, b}", "E0022", "}"),
        ("a: [1]]", "E0022", "]"),
        ("a: 1\nb: ]", "E0023", "]"),
        ("a: @x", "E0023", "@"),
        ("a: `x`", "E0023", "`"),
        ("a: %x", "E0023", "%"),
        ("a: , b", "E0023", ","),
        ("a: >x\n", "E0023", "x"),
        ("a: *", "E0023", "*"),
        ("a:\n  b: 1\n c: 2", "E0024", "c"),
        ("a: 1\n  b: 2", "E0024", "b"),
        ("- a\nb: c", "E0024", "b"),
        (r'a: "\q"', "E0025", r"\q"),
        ("a\nb: 1", "E0026", "a"),
        ("a: 1\nfoo\nb: 2", "E0026", "foo"),
        ("a: - b", "E0027", "-"),
        ("a: [w = clip(w, 0, 1)]", "E0028", "w = clip(w, 0, 1)"),
        ("a: {b: f(x, y)}", "E0028", "f(x, y)"),
        ("\ta: 1", "E0007", "\t"),
        ("a:\n\tb: 1", "E0007", "\t"),
        ("a: b\x00c", "E0006", "\x00"),
        ("a: b\x07c", "E0006", "\x07"),
        ("a: b\u2028c", "E0006", "\u2028"),
        ("a: b\x85c", "E0006", "\x85"),
        ("a: 1\rb: 2", "E0006", "\r"),
        ("a: \ud800", "E0006", "\ud800"),
        ("a: 1\n\ufeffb: 2", "E0005", "\ufeff"),
    ],
)
def test_refusals(text: str, code: str, marked: str | None) -> None:
    found = findings(text)
    assert found, text
    assert found[0][0] == code
    if marked is not None:
        assert found[0][1] == marked


def test_duplicate_key_says_where_the_first_is() -> None:
    sink = Sink()
    node = load_text(SourceFile("m.yaml", "a: 1\nb: 2\na: 3\na: 4\n"), sink)
    assert [d.message for d in sink.items] == ["duplicate key `a`"] * 2
    assert [str(r.span) for d in sink.items for r in d.related] == ["m.yaml:1:1"] * 2
    assert node is not None
    assert to_plain(node) == {"a": 1, "b": 2}


def test_several_mistakes_are_reported_together() -> None:
    found = codes("a: 1\na: 2\nb: !t 3\n0: x\nc: 1e999")
    assert sorted(found) == ["E0008", "E0009", "E0011", "E0019"]


def test_version_directive_1_2_is_fine() -> None:
    assert to_plain(read("%YAML 1.2\n---\na: on\n")) == {"a": "on"}


def test_byte_order_mark_is_a_warning_and_offsets_stay_right() -> None:
    text = "\ufeffa: 1\nb: x"
    sink = Sink()
    node = load_text(SourceFile("m.yaml", text), sink)
    assert [d.code for d in sink.items] == ["W0001"]
    assert isinstance(node, Mapping)
    assert [text[e.value.span.start : e.value.span.end] for e in node.entries] == ["1", "x"]
    assert [text[e.key.span.start : e.key.span.end] for e in node.entries] == ["a", "b"]


def test_aliases_share() -> None:
    root = mapping("a: &x {k: [1, 2]}\nb: *x\nc: [*x, *x]\nd: &s 5\ne: *s\n")
    assert root.get("a") is root.get("b")
    assert to_plain(root)["e"] == 5  # type: ignore[index, call-overload]


def test_alias_bomb() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 12)]
    assert codes("\n".join(lines)) == ["E0016"]


def test_a_chain_of_aliases_is_as_deep_as_nesting() -> None:
    lines = ["a0: &a0 [x]"] + [f"a{i}: &a{i} [*a{i - 1}]" for i in range(1, 2000)]
    assert codes("\n".join(lines)) == ["E0014"]


@pytest.mark.parametrize(
    "text",
    [
        "[" * 200_000,
        "[" * 200_000 + "]" * 200_000,
        "{a: " * 200_000,
        "- " * 200_000,
        "? " * 200_000,
        "a: " + "[" * 200_000,
        "\n".join(" " * i + "a:" for i in range(2000)),
        "[{" * 100_000,
    ],
    ids=["open", "closed", "maps", "lists", "keys", "value", "block", "mixed"],
)
def test_deep_nesting_is_an_error(text: str) -> None:
    assert codes(text) == ["E0014"]


def test_depth_limit_is_exact() -> None:
    good = "[" * yaml12.MAX_DEPTH + "]" * yaml12.MAX_DEPTH
    assert codes(good) == []
    assert codes(f"[{good}]") == ["E0014"]


def test_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml12, "MAX_BYTES", 100)
    assert codes("a: " + "x" * 200) == ["E0015"]
    path = tmp_path / "m.yaml"
    path.write_text("a: " + "x" * 200)
    sink = Sink()
    assert load_file(path, sink) is None
    assert [d.code for d in sink.items] == ["E0015"]


def load_bytes(path: Path, data: bytes) -> tuple[Node | None, Sink]:
    path.write_bytes(data)
    sink = Sink()
    return load_file(path, sink, "m.yaml"), sink


def test_not_utf8_has_the_byte_s_position(tmp_path: Path) -> None:
    node, sink = load_bytes(tmp_path / "m.yaml", "é: 1\nb: caf".encode() + b"\xe9\n")
    assert node is None
    (found,) = sink.items
    assert found.code == "E0004"
    assert str(found.span) == "m.yaml:2:7"
    assert "0xe9" in found.message


def test_utf16_and_missing_files(tmp_path: Path) -> None:
    _, sink = load_bytes(tmp_path / "m.yaml", "a: 1".encode("utf-16"))
    assert [d.code for d in sink.items] == ["E0005"]
    for path in (tmp_path / "none.yaml", tmp_path, tmp_path / "nul\0.yaml"):
        sink = Sink()
        assert load_file(path, sink) is None
        assert [d.code for d in sink.items] == ["E0002"]


def test_python_parser_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where PyYAML has no libyaml, its Python parser is used."""
    texts = ["a: {b: [1, 'x', \"y\"]}\nc: |\n  t\n", "\ufeffa: é\n", "a: &x 1\nb: *x"]
    before = [load_text(SourceFile("m", t), Sink()) for t in texts]
    bad = [
        "a: b: c",
        "a: [1",
        "a: 'b",
        "\ta: 1",
        "a: 1\na: 2",
        "[" * 500,
        "a: @",
        "a:\n  b: 1\n c: 2",
    ]
    expected = [codes(t) for t in bad]
    monkeypatch.setattr(yaml12, "_LOADER", yaml.Loader)
    assert [load_text(SourceFile("m", t), Sink()) for t in texts] == before
    assert [codes(t) for t in bad] == expected


@settings(max_examples=400, deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_end_in_diagnostics(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    node, sink = load_bytes(path, data)
    assert node is not None or sink.items


@settings(max_examples=800, deadline=None)
@given(st.text(alphabet="ab01 \n\t-:?,[]{}#&*!|>'\"%@`<~.\\()é\r\ufeff", max_size=60))
def test_random_yaml_like_text_ends_in_diagnostics(text: str) -> None:
    file = SourceFile("m.yaml", text)
    sink = Sink()
    node = load_text(file, sink)
    assert node is not None or sink.items
    for item in sink.items:
        assert item.span is not None
        assert 0 <= item.span.start <= item.span.end <= len(text)
    if node is not None:
        check_spans(node, len(text))


def check_spans(node: Node, size: int) -> None:
    assert 0 <= node.span.start <= node.span.end <= size
    match node:
        case Mapping(entries=entries):
            for e in entries:
                assert isinstance(e.key.text, str)
                check_spans(e.key, size)
                check_spans(e.value, size)
        case Sequence(items=items):
            for i in items:
                check_spans(i, size)
        case Scalar():
            pass


plain_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "Z")), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abc_", min_size=1, max_size=4), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(plain_values)
def test_plain_python_there_and_back(value: object) -> None:
    assert to_plain(from_plain(value)) == value


def test_tree_helpers() -> None:
    root = mapping("a: 1\nb: [x, y]\n")
    assert list(root.keys()) == ["a", "b"]
    assert "a" in root
    assert root.get("zzz") is None
    assert without(root, "q") is root
    assert to_plain(without(root, "a")) == {"b": ["x", "y"]}
    assert to_plain(with_entry(root, "a", scalar(7))) == {"a": 7, "b": ["x", "y"]}
    assert to_plain(with_entry(root, "c", scalar("z"))) == {"a": 1, "b": ["x", "y"], "c": "z"}
    assert root == from_plain({"a": 1, "b": ["x", "y"]})
    assert hash(root) == hash(from_plain({"a": 1, "b": ["x", "y"]}))
    assert from_plain("1e-3") != read("1e-3")
    with pytest.raises(TypeError):
        from_plain({1: 2})
    with pytest.raises(TypeError):
        from_plain(object())


def test_origins_append_outwards() -> None:
    root = mapping("a: [1]\n")
    inner = with_origin(root, Origin("use", "use of x", NOWHERE))
    outer = with_origin(inner, Origin("for", "for i = 3", NOWHERE))
    assert isinstance(outer, Mapping)
    via = outer.entries[0].value.span.via
    assert via is not None
    assert (via.label, via.parent and via.parent.label) == ("use of x", "for i = 3")
    assert outer == root
    assert root.span.via is None


def test_within_maps_offsets_to_the_source() -> None:
    text = "a: v_rest - v\nb: 'x + y'\nc: \"x\\ty\"\n"
    root = mapping(text)

    def part(name: str, start: int, end: int) -> str:
        node = root.get(name)
        assert isinstance(node, Scalar)
        span: Span = within(node, start, end)
        return text[span.start : span.end]

    assert part("a", 9, 10) == "v"
    assert part("a", 0, 6) == "v_rest"
    assert part("b", 4, 5) == "y"
    assert part("c", 0, 1) == '"x\\ty"'


def large_model(entries: int, bytes_per_entry: int) -> str:
    """A model text of `entries` populations; to measure load_text, large_model(65_000, 150)."""
    lines = ["language: 1", "populations:"]
    for i in range(entries):
        head = f"  p{i}: {{neuron: lif, size: {i % 7 + 1}, params: {{tau: {10 + i * 1e-3:.3f} ms}}}}"
        lines.append(head + " #" + "x" * max(0, bytes_per_entry - len(head) - 3))
    return "\n".join(lines) + "\n"


def test_large_files_load() -> None:
    root = mapping(large_model(2000, 150))
    populations = root.get("populations")
    assert isinstance(populations, Mapping)
    assert len(populations) == 2000
    last = populations.entries[-1]
    assert isinstance(last, Entry)
    assert to_plain(last.value) == {"neuron": "lif", "size": 5, "params": {"tau": "11.999 ms"}}


def test_a_text_that_is_read_again_says_the_same() -> None:
    text = "a: 1\na: 2\n"
    first, second, other = Sink(), Sink(), Sink()
    trees = [load_text(SourceFile(name, text), sink) for name, sink in (("x", first), ("x", second), ("y", other))]
    assert trees[0] is trees[1] is not trees[2]
    assert first.items == second.items and [d.code for d in second.items] == ["E0008"]
    assert [d.span.file.path for s in (second, other) for d in s.items if d.span] == ["x", "y"]
