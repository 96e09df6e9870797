"""The JSON Schema and the reference: up to date, complete, and consistent with the validator."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from compiler.core.diagnostics import Sink
from compiler.core.source import SourceFile
from compiler.expr.keys.kinds import (
    Alternative,
    Block,
    Field,
    Kind,
    Later,
    ListOf,
    MapOf,
    OneKey,
    OneOf,
    Reference,
)
from compiler.frontend.language import ROOT
from compiler.frontend.language.training.training import OPTIMIZER_CHOICE
from compiler.frontend.schema import json_schema as schema_json
from compiler.frontend.schema.validate import validate, validate_kind
from compiler.frontend.yaml.tree import Mapping, from_plain, to_plain
from compiler.frontend.yaml.yaml12 import load_file, load_text
from compiler.layers.shared.activations import ACTIVATIONS
from scripts import reference_docs as docs
from tests.grids import one_in

CHECKOUT = Path(__file__).parents[2]
MODELS = sorted((CHECKOUT / "models").glob("*.yaml"))
LIBRARY = sorted((CHECKOUT / "models" / "library").glob("*/*.yaml"))
SCHEMA = schema_json.generate()
CHECKER = jsonschema.Draft7Validator(SCHEMA)

KEYWORDS = """
$schema $id $ref $comment title description default examples readOnly multipleOf maximum
exclusiveMaximum minimum exclusiveMinimum maxLength minLength pattern items additionalItems maxItems
minItems uniqueItems contains maxProperties minProperties required properties patternProperties
additionalProperties dependencies propertyNames const enum type format if then else allOf anyOf
oneOf not definitions
"""
DRAFT_07 = set(KEYWORDS.split())
EDITORS = {"markdownDescription", "markdownEnumDescriptions"}
"""Annotations beyond draft-07, as yaml-language-server reads them."""


def plain(path: Path) -> Any:
    sink = Sink()
    node = load_file(path, sink)
    assert node is not None, sink.items
    return to_plain(node)


def mistakes(document: object) -> list[str]:
    """What the validator finds, less what the schema cannot say."""
    sink = Sink()
    validate(from_plain(document), sink)
    return [f"{d.code} {d.message}" for d in sink.items if d.code != "E0801"]


def test_committed_schema_is_up_to_date() -> None:
    assert schema_json.COMMITTED.read_text(encoding="utf-8") == schema_json.render(), (
        "stale: run `python -m compiler.frontend.schema.json_schema`"
    )


def test_committed_reference_is_up_to_date() -> None:
    assert docs.COMMITTED.read_text(encoding="utf-8") == docs.render(), "stale: run `python -m scripts.reference_docs`"


def test_metaschema_accepts_the_schema() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)


def schemas_in(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema inside of `schema`, itself too."""
    if not isinstance(schema, dict):
        return
    yield schema
    for key in ("properties", "patternProperties", "definitions", "dependencies"):
        for inner in schema.get(key, {}).values():
            yield from schemas_in(inner)
    for key in ("items", "additionalProperties", "if", "then", "else", "not", "propertyNames"):
        yield from schemas_in(schema.get(key))
    for key in ("allOf", "anyOf", "oneOf"):
        for inner in schema.get(key, []):
            yield from schemas_in(inner)


def test_only_keywords_of_draft_07() -> None:
    allowed = DRAFT_07 | EDITORS
    used = {key for schema in schemas_in(SCHEMA) for key in schema}
    assert used - allowed == set()


def test_every_block_is_closed_and_every_reference_leads_somewhere() -> None:
    for schema in schemas_in(SCHEMA):
        if "properties" in schema and schema.get("type") == "object":
            assert schema["additionalProperties"] is False
        if "$ref" in schema:
            assert schema["$ref"].removeprefix("#/definitions/") in SCHEMA["definitions"]


@pytest.mark.parametrize("path", MODELS + LIBRARY, ids=lambda p: p.stem)
def test_models_are_valid(path: Path) -> None:
    document = plain(path)
    assert [e.message for e in CHECKER.iter_errors(document)] == []
    assert mistakes(document) == []


# ------------------------------------------------------------------ the language about itself


def parts(kind: Kind, seen: set[int] | None = None) -> Iterator[tuple[str, Field | Alternative]]:
    """Every field and alternative of the language, with the title of what it stands in."""
    seen = set() if seen is None else seen
    if id(kind) in seen:
        return
    seen.add(id(kind))
    match kind:
        case Block(fields=fields):
            for f in fields:
                yield f"{kind.title or kind.noun}.{f.name}", f
                yield from parts(f.kind, seen)
        case OneKey(alternatives=alternatives):
            for a in alternatives:
                yield f"{kind.title or kind.noun}.{a.name}", a
                yield from parts(a.kind, seen)
        case ListOf(item):
            yield from parts(item, seen)
        case MapOf(_, value):
            yield from parts(value, seen)
        case OneOf(kinds):
            for k in kinds:
                yield from parts(k, seen)
        case Later(_, resolve):
            yield from parts(resolve(), seen)


PARTS = list(parts(ROOT))


def test_every_part_has_a_hover_text() -> None:
    bad = [name for name, p in PARTS if not re.fullmatch(r"[A-Z`].*[.)]", p.doc, re.DOTALL)]
    assert bad == []


def test_every_part_that_is_not_obvious_has_an_example() -> None:
    bad = [name for name, p in PARTS if p.example is None and not name.endswith((".sha256", ".description"))]
    assert bad == []


def problems_with(kind: Kind, text: str, key: str | None) -> list[str]:
    """What the validator says about an example; `key` is the key that stands in it."""
    sink = Sink()
    node = load_text(SourceFile("example", text), sink)
    if key is not None and isinstance(node, Mapping):
        node = node.get(key)
    assert node is not None, (text, sink.items)
    validate_kind(kind, node, sink)
    return [f"{text}: {d.message}" for d in sink.items if d.code != "E0801"]


def test_examples_are_valid() -> None:
    found = []
    for _, p in PARTS:
        if p.example is None or "..." in p.example:
            continue
        if isinstance(p, Field):
            found += problems_with(p.kind, p.example, p.name)
        else:
            found += problems_with(OneKey("choice", (p,)), p.example, None)
    assert found == []


def test_examples_of_kinds_are_valid() -> None:
    found = []
    for _, p in PARTS:
        kinds = p.kind.kinds if isinstance(p.kind, OneOf) else (p.kind,)
        for kind in kinds:
            example = getattr(kind, "example", None)
            if example is not None and "..." not in example:
                found += problems_with(kind, example, None)
    assert found == []


def test_defaults_are_valid() -> None:
    found = []
    for name, p in PARTS:
        if isinstance(p, Field) and p.default is not None:
            assert not p.required, name
            sink = Sink()
            validate_kind(p.kind, from_plain(p.default), sink, name)
            found += [d.message for d in sink.items]
    assert found == []


def test_optimizers_that_are_offered_are_files_of_the_library() -> None:
    library = CHECKOUT / "models" / "library"
    optimizers = {p.stem for p in (library / "optimizers").glob("*.yaml")}
    assert {a.name for a in OPTIMIZER_CHOICE.alternatives} == optimizers


def test_activations_are_those_that_can_be_lowered() -> None:
    (known,) = {
        p.kind.known for _, p in PARTS if isinstance(p.kind, Reference) and p.name in ("activation", "function")
    }
    assert set(known) == set(ACTIVATIONS)


def test_reference_names_every_key() -> None:
    text = docs.render()
    assert [name for name, p in PARTS if f"`{p.name}`" not in text] == []


def test_links_of_the_reference_lead_somewhere() -> None:
    text = docs.render()
    targets = set(re.findall(r'<a id="([^"]+)"></a>', text))
    assert set(re.findall(r"\]\(#([^)]+)\)", text)) - targets == set()


# --------------------------------------------------------- agreement on documents with mistakes

REPLACEMENTS: tuple[object, ...] = (
    None,
    True,
    0,
    3,
    -1,
    2.5,
    "text",
    "two words",
    "",
    " ",
    "9..3",
    [],
    {},
    [1],
    ["a", "b"],
    [[1, 2]],
    {"a": 1},
    {"file": "a.npz"},
    {"array": "b"},
    {"uniform": {"low": 0, "high": 1}},
    {"value": 1},
    {"use": "library/neurons/lif"},
)


def places(document: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield path
    if isinstance(document, dict):
        for key, value in document.items():
            yield from places(value, (*path, key))
    elif isinstance(document, list):
        for index, value in enumerate(document):
            yield from places(value, (*path, index))


def at(document: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        document = document[step]
    return document


def mutations(document: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str, Any]]:
    """Copies of `document` with one thing changed at `path`."""

    def changed() -> tuple[Any, Any]:
        new = copy.deepcopy(document)
        return new, at(new, path[:-1])

    if path:
        new, parent = changed()
        del parent[path[-1]]
        yield "delete", new
        for value in REPLACEMENTS:
            new, parent = changed()
            parent[path[-1]] = value
            yield f"replace by {value!r}", new
    here = at(document, path)
    if isinstance(here, dict):
        for key in ("unknown", "x-free", "2nd", "size", "shape", "use", "std", "two words"):
            new = copy.deepcopy(document)
            at(new, path)[key] = 1
            yield f"add {key}", new
    if isinstance(here, list):
        new = copy.deepcopy(document)
        at(new, path).append(1)
        yield "append", new


@pytest.mark.parametrize("path", one_in(3, MODELS), ids=lambda p: p.stem)
def test_schema_and_validator_agree(path: Path) -> None:
    document = plain(path)
    rng = random.Random(path.stem)
    where = list(places(document))
    for step in rng.sample(where, min(len(where), 40)):
        for what, changed in rng.sample(list(mutations(document, step)), 3):
            ours = mistakes(changed)
            theirs = CHECKER.is_valid(changed)
            assert theirs == (not ours), (what, step, ours[:3])


def test_agreement_has_both_outcomes() -> None:
    document = plain(CHECKOUT / "models" / "cuba.yaml")
    where = ("populations", "exc")
    outcomes = {what: CHECKER.is_valid(new) for what, new in mutations(document, where)}
    assert outcomes["add x-free"] and not outcomes["add unknown"] and not outcomes["add shape"]


def test_the_schema_is_small_enough_for_an_editor() -> None:
    assert len(json.dumps(SCHEMA)) < 500_000
