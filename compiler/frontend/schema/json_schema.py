"""The language as a JSON Schema (draft-07): the public contract, and the source of completions in editors.

Assumes: compiler/frontend/language.
Guarantees: only keywords of draft-07, and `markdownDescription`, which validators ignore and editors show. A document
is valid exactly when compiler/frontend/schema/validate.py accepts it, up to the exceptions listed there.
Does not: describe what no schema can: name resolution, units, expressions.

`python -m compiler.frontend.schema.json_schema` writes schemas/model.schema.json again.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

import compiler.expr.keys.kinds as spec
from compiler.frontend.language import ROOT

Schema = dict[str, Any]

COMMITTED = Path(__file__).parents[3] / "schemas" / "model.schema.json"
"""Path of the schema in a checkout."""

ID = "urn:netloom:schema:model:1"
"""The identity of the schema: that of version 1 of the language."""

_SEVERAL, _LONG = 3, 200
"""Definitions that have a key alike, and characters of it, from which on it is a definition of its own."""
_NOT_EMPTY = r"\S"
_UNSUPPORTED = "Not supported yet: the compiler refuses it."


@dataclass
class _Definitions:
    """Shared schemas by title; `kinds` guards against duplicate titles."""

    schemas: dict[str, Schema] = field(default_factory=dict)
    kinds: dict[str, spec.Kind] = field(default_factory=dict)


def generate() -> Schema:
    """The schema of a model file, as data for `json`."""
    shared = _Definitions()
    root = _block(ROOT, shared)
    _share_keys(shared)
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": ID,
        "title": "Netloom model",
        "description": ROOT.doc,
        **{k: v for k, v in root.items() if k not in ("title", "description")},
        "definitions": dict(sorted(shared.schemas.items())),
    }


def _share_keys(shared: _Definitions) -> None:
    """Makes definitions of the keys that several definitions have alike, such as those of every layer: `key_inputs`,
    or `key_inputs_2` where another one is called so."""
    maps = [s["properties"] for s in shared.schemas.values() if "properties" in s]
    count = Counter((name, json.dumps(x)) for keys in maps for name, x in keys.items())
    names: dict[tuple[str, str], str] = {}
    for (name, text), many in count.items():
        if many >= _SEVERAL and len(text) >= _LONG:
            number = sum(n == name for n, _ in names) + 1
            names[name, text] = f"key_{name}" + (f"_{number}" if number > 1 else "")
    for keys in maps:
        for name, x in keys.items():
            if (title := names.get((name, json.dumps(x)))) is not None:
                shared.schemas.setdefault(title, x)
                keys[name] = {"$ref": f"#/definitions/{title}"}


def render() -> str:
    """The text of schemas/model.schema.json."""
    return json.dumps(generate(), indent=1, ensure_ascii=False) + "\n"


def _schema(kind: spec.Kind, shared: _Definitions) -> Schema:
    """The schema of any kind; titled ones are added to the definitions and referenced."""
    match kind:
        case spec.Block(title=str(title)) | spec.OneKey(title=str(title)):
            return _refer(title, kind, shared)
        case spec.Later(title, resolve):
            return _refer(title, resolve(), shared)
        case _:
            return _inline(kind, shared)


def _refer(title: str, kind: spec.Kind, shared: _Definitions) -> Schema:
    known = shared.kinds.setdefault(title, kind)
    if known is not kind:
        raise ValueError(f"two things are called {title}")
    if title not in shared.schemas:
        shared.schemas[title] = {}  # placeholder during recursion
        shared.schemas[title] = _inline(kind, shared)
    return {"$ref": f"#/definitions/{title}"}


def _inline(kind: spec.Kind, shared: _Definitions) -> Schema:
    match kind:
        case spec.Block():
            return _block(kind, shared)
        case spec.OneKey():
            return _one_key(kind, shared)
        case spec.MapOf(_, value, key, _, low):
            members = {
                "type": "object",
                "patternProperties": {key: _schema(value, shared)},
                "additionalProperties": False,
            }
            return {**members, "minProperties": low} if low else members
        case spec.ListOf(item, low, high):
            schema: Schema = {"type": "array", "items": _schema(item, shared)}
            if low:
                schema["minItems"] = low
            if high is not None:
                schema["maxItems"] = high
            return schema
        case spec.OneOf(kinds):
            return _one_of(kinds, shared)
        case spec.Later():
            return _schema(kind, shared)
        case _:
            return _scalar(kind)


def _one_of(kinds: tuple[spec.Kind, ...], shared: _Definitions) -> Schema:
    """Any of several kinds; maps are discriminated by their keys: only the intended one reports errors."""
    others = [_schema(k, shared) for k in kinds if not isinstance(k, spec.Block | spec.OneKey | spec.MapOf)]
    maps = [k for k in kinds if isinstance(k, spec.Block | spec.OneKey | spec.MapOf)]
    plain = others[0] if len(others) == 1 else {"anyOf": others or [{"type": "object"}]}
    if not maps:
        return plain
    # Blocks are recognised by any of their keys; the one-key map or collection gets the rest.
    maps.sort(key=lambda k: not isinstance(k, spec.Block))
    chosen = _schema(maps[-1], shared)
    for kind in reversed(maps[:-1]):
        if not isinstance(kind, spec.Block):
            raise ValueError(f"maps that nothing tells apart: {[str(k)[:60] for k in maps]}")
        keys = tuple(f.name for f in kind.fields)
        chosen = {"if": _any_of(keys), "then": _schema(kind, shared), "else": chosen}
    return {"if": {"type": "object"}, "then": chosen, "else": plain}


def _scalar(kind: spec.Kind) -> Schema:
    match kind:
        case spec.Text() | spec.Statement():
            return {"type": "string", "pattern": _NOT_EMPTY}
        case spec.Flag():
            return {"type": "boolean"}
        case spec.Constant(value):
            return {"type": "integer", "enum": [value]}
        case spec.Value(_, _, integer, low, high, above, below):
            schema: Schema = {
                "type": ["integer" if integer else "number", "string"],
                "pattern": _NOT_EMPTY,
            }
            if low is not None:
                schema["exclusiveMinimum" if above else "minimum"] = low
            if high is not None:
                schema["exclusiveMaximum" if below else "maximum"] = high
            return schema
        case spec.Expression():
            return {"type": ["string", "number", "boolean"], "pattern": _NOT_EMPTY}
        case spec.Name():
            return {"type": "string", "pattern": rf"^{spec.NAME}$"}
        case spec.Reference(_, _, pattern, known):
            words = {"examples": list(known)} if known else {}
            return {"type": "string", "pattern": pattern, **words}
        case spec.Pattern(_, pattern):
            return {"type": "string", "pattern": pattern}
        case spec.Choice(_, words):
            return {
                "type": "string",
                "enum": [w.value for w in words],
                "markdownEnumDescriptions": [w.doc for w in words],
            }
    raise TypeError(f"no scalar: {kind}")


def _map(kind: spec.Block | spec.OneKey) -> Schema:
    title, doc = {"title": kind.noun} if kind.title is not None else {}, {"description": kind.doc} if kind.doc else {}
    return {"type": "object", **title, **doc}


def _block(kind: spec.Block, shared: _Definitions) -> Schema:
    schema = _map(kind)
    schema["properties"] = {f.name: _property(f, shared) for f in kind.fields}
    schema["patternProperties"] = {spec.EXTENSION: {}}
    schema["additionalProperties"] = False
    rules: list[Schema] = []
    excluded: dict[str, Schema | list[str]] = {}
    if kind.open_with:
        rules += [_any_of((key, *kind.open_with)) for key in kind.required]
    elif kind.required:
        schema["required"] = list(kind.required)
    for group in kind.one_of:
        rules.append(_any_of((*group, *kind.open_with)))
        pairs = [(a, [b for b in group[i + 1 :]]) for i, a in enumerate(group[:-1])]
        # In this form an editor reports that the second one is not allowed, and where.
        excluded |= {a: {"properties": dict.fromkeys(b, False)} for a, b in pairs}
    if kind.at_least_one:
        rules.append(_any_of((*kind.at_least_one, *kind.open_with)))
    excluded |= {key: list(others) for key, others in kind.needs}
    if excluded:
        schema["dependencies"] = excluded
    if rules:
        schema["allOf"] = rules
    return schema


def _any_of(keys: tuple[str, ...]) -> Schema:
    """At least one of `keys` is present."""
    return {"anyOf": [{"required": [k]} for k in keys]}


def _one_key(kind: spec.OneKey, shared: _Definitions) -> Schema:
    schema = _map(kind)
    schema["properties"] = {a.name: _alternative(a, shared) for a in kind.alternatives}
    if kind.own is not None:
        others = "|".join(a.name for a in kind.alternatives)
        schema["patternProperties"] = {rf"^(?!(?:{others})$){spec.NAME}$": _schema(kind.own, shared)}
    schema["additionalProperties"] = False
    schema["minProperties"] = 1
    # Not beside `properties`: there, editors match it against the enclosing map, and offer no completions.
    schema["allOf"] = [{"maxProperties": 1}]
    if not kind.bare:
        return schema
    words = [a.name for a in kind.alternatives if not (isinstance(a.kind, spec.Block) and a.kind.required)]
    return {"anyOf": [{"type": "string", "enum": words}, schema]}


def _property(f: spec.Field, shared: _Definitions) -> Schema:
    """A field's schema with its hover text; annotations beside a `$ref` are for editors only."""
    schema = dict(_schema(f.kind, shared))
    schema["description"] = f.doc
    schema["markdownDescription"] = hover(f)
    if f.default is not None:
        schema["default"] = f.default
    example = _example_value(f)
    if example is not None and "examples" not in schema:
        schema["examples"] = [example]
    return schema


def _alternative(a: spec.Alternative, shared: _Definitions) -> Schema:
    schema = dict(_schema(a.kind, shared))
    schema["description"] = a.doc
    schema["markdownDescription"] = _hover(a.doc, None, a.example, a.supported)
    return schema


def hover(f: spec.Field) -> str:
    """The hover text of a field in Markdown, with the words of a choice and the examples."""
    return _hover(f.doc, f.default, None if _example_value(f) is not None else f.example, f.supported)


def _hover(doc: str, default: object, example: str | None, supported: bool) -> str:
    parts = [doc]
    if not supported:
        parts.append(f"*{_UNSUPPORTED}*")
    if default is not None:
        parts.append(f"Default: `{json.dumps(default).strip(chr(34))}`")
    if example is not None:
        parts.append(f"```yaml\n{example}\n```")
    return "\n\n".join(parts)


def _example_value(f: spec.Field) -> object:
    """The scalar in a field's example; editors offer it as a value. No name of an example: they would offer names
    that the file does not declare."""
    scalars = f.kind.scalars if isinstance(f.kind, spec.OneOf) else (f.kind,)
    if f.example is None or not scalars or not all(isinstance(k, spec.Value) for k in scalars):
        return None
    value = yaml.safe_load(f.example)[f.name]
    if isinstance(value, str):
        try:
            return float(value)  # PyYAML reads 1e-5 as a string
        except ValueError:
            return value
    return value if isinstance(value, int | float) else None


def main() -> None:
    """Write the committed file again."""
    COMMITTED.parent.mkdir(exist_ok=True)
    COMMITTED.write_text(render(), encoding="utf-8")
    sys.stdout.write(f"wrote {COMMITTED}: {len(generate()['definitions'])} {spec.plural('definition')}\n")


if __name__ == "__main__":
    main()
