"""Connectivity rules: invariants of the registry, and that nothing else in the compiler depends on their names."""

from __future__ import annotations

import ast
from pathlib import Path

from compiler.connect import CONNECT, RULE, RULES, Form
from compiler.connect.keys import STORAGE
from compiler.connect.storage import STORAGES, Need
from compiler.expr.keys.kinds import Choice, Flag, Value
from scripts.storage_docs import PAGE, page


def test_names_are_unique() -> None:
    assert len(RULES) == len(CONNECT.by_name)
    assert len(RULE) == len([r for r in RULES if r.expressed is None])


def test_a_rule_has_what_its_form_asks_for() -> None:
    for rule in RULES:
        assert (rule.planes is not None) == (rule.form is Form.WINDOWS), rule.name
        assert (rule.rows is not None) == (rule.form in (Form.WINDOWS, Form.GIVEN)), rule.name
        assert (rule.bits is not None) == rule.reversible, rule.name
        assert not rule.expression or rule.form is Form.DRAWN, rule.name
        assert not rule.amount or isinstance(rule.block.by_name[rule.amount].kind, Value), rule.name


def test_the_table_of_storages_has_those_of_the_language() -> None:
    assert isinstance(STORAGE.kind, Choice)
    assert {o.value for o in STORAGE.kind.options} == {"auto", *(s.name for s in STORAGES.values() if s.written)}
    assert all(any(need in s.cells for s in STORAGES.values()) for need in Need)
    assert not STORAGES["sparse"].cells


def test_the_page_has_the_table_of_storages() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert page(text) == text, "stale: run `python -m scripts.storage_docs`"


def test_columns_are_arguments_or_known_to_every_rule() -> None:
    known = {"same", "w_from", "h_from", "w_to", "h_to"}
    for rule in RULES:
        given = {f.name for f in rule.block.fields if isinstance(f.kind, Flag | Value)}
        assert set(rule.columns) <= given | known, rule.name


def test_names_of_rules_decide_nothing_outside_of_rules(root: Path) -> None:
    """No comparison with, no case of, and no table by the name of a rule; `pairs`, `expression` and `one_to_one` are
    names of other things, too."""
    wrong, names = [], RULE.keys() - {"pairs", "expression", "one_to_one"}
    for path in sorted(p for folder in ("compiler", "backends") for p in (root / folder).rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if name.startswith(("compiler/connect/", "compiler/layers/", "compiler/interchange/")):
            continue
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text if any(f'"{n}"' in text for n in names) else "")):
            values: list[ast.expr] = []
            if isinstance(node, ast.Compare):
                values = [x for c in (node.left, *node.comparators) for x in ast.walk(c) if isinstance(x, ast.expr)]
            elif isinstance(node, ast.MatchValue):
                values = [node.value]
            elif isinstance(node, ast.Dict):
                values = [k for k in node.keys if k is not None]
            wrong += [f"{name}:{v.lineno}" for v in values if isinstance(v, ast.Constant) and v.value in names]
    assert wrong == []
