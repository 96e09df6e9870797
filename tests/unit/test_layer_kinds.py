"""Kinds of layers: invariants of the registry, and that nothing else in the compiler depends on their names."""

from __future__ import annotations

import ast
from pathlib import Path

from compiler.interchange.onnx.import_layers import COMPOSITE
from compiler.layers import KIND, KINDS
from compiler.layers.shared.onnx.importer import Importer

MAY = ("compiler/layers/", "compiler/verify/model.py", "compiler/interchange/onnx/import_")
"""The layers; the verifier, which knows that a `learned` layer alone reads nothing; the import of ONNX,
which looks at layers that it has written itself."""


def test_names_and_operators_are_unique() -> None:
    assert len(KIND) == len(KINDS)
    operators = [operator for kind in KINDS for operator in kind.read]
    assert len(set(operators)) == len(operators)
    assert not set(operators) & set(COMPOSITE)


def test_names_of_kinds_decide_nothing_outside_of_layers(root: Path) -> None:
    """No comparison of `….kind`, and no case, with the name of a kind of layer."""
    wrong = []
    for path in sorted((root / "compiler").rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if name.startswith(MAY):
            continue
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text if ".kind" in text else "")):
            if isinstance(node, ast.Compare) and _of_a_layer(node.left):
                values = [c.value for x in node.comparators for c in ast.walk(x) if isinstance(c, ast.Constant)]
                wrong += [f"{name}:{node.lineno}" for v in values if v in KIND]
    assert wrong == []


def _of_a_layer(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "kind" and "layer" in ast.unparse(node.value)


def test_names_of_an_onnx_file_stay_where_they_may_stand() -> None:
    m = Importer(21)
    given, kept = ("t", "dt", "x", "x", "pi", "loss", "a.b"), ["t", "dt", "x", "x_2", "pi_layer", "loss_layer", "a_b"]
    assert [m.fresh(name) for name in given] == kept
