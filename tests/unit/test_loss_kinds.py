"""Kinds of losses and metrics: invariants of the registry, and that nothing else depends on their names."""

from __future__ import annotations

import ast
from pathlib import Path

from compiler.losses import LOSS, LOSS_KIND, LOSSES, METRICS, Answers, metric_of


def test_names_are_unique() -> None:
    assert len(LOSS_KIND) == len(LOSSES) == len(LOSS.by_name)
    assert len({m.name for m in METRICS}) == len(METRICS)
    synonyms = [word for kind in LOSSES for word in kind.synonyms]
    assert len(set(synonyms)) == len(synonyms)


def test_a_loss_has_nodes_or_is_made_of_others() -> None:
    for kind in LOSSES:
        assert (kind.rows is None) == (kind.answers is Answers.OWN), kind.name


def test_metrics_are_found_by_their_names() -> None:
    assert all(metric_of(f"{m.name}_5" if m.number else m.name) is m for m in METRICS)


def test_names_of_losses_decide_nothing_outside_of_losses(root: Path) -> None:
    """No comparison with, and no table by the name of a loss or a metric but `expression` and `sum`, which read others,
    the plot of `confusion`, and words that mean other things, too."""
    others = {"expression", "sum", "confusion", "precision", "top", "recall", "cosine", "poisson"}
    wrong, names = [], (LOSS_KIND.keys() | {m.name for m in METRICS}) - others
    for path in sorted((root / "compiler").rglob("*.py")):
        name = path.relative_to(root).as_posix()
        if name.startswith("compiler/losses/"):
            continue
        text = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text if any(f'"{n}"' in text for n in names) else "")):
            values: list[ast.expr] = []
            if isinstance(node, ast.Compare):
                values = [x for c in (node.left, *node.comparators) for x in ast.walk(c) if isinstance(x, ast.expr)]
            elif isinstance(node, ast.Dict):
                values = [k for k in node.keys if k is not None]
            wrong += [f"{name}:{v.lineno}" for v in values if isinstance(v, ast.Constant) and v.value in names]
    assert wrong == []
