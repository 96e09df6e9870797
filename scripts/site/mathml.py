"""A Sphinx extension: equations as MathML, which browsers typeset by themselves.

Assumes: LaTeX as compiler/expr/latex.py writes it, and what latex2mathml reads.
Guarantees: pages need no script and no network for their equations.
Does not: number equations.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx


def _inline(self: Any, node: nodes.math) -> None:
    self.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _block(self: Any, node: nodes.math_block) -> None:
    self.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Make `mathml` a value of html_math_renderer."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))  # type: ignore[arg-type]
    return {"parallel_read_safe": True, "parallel_write_safe": True}
