"""Products of two computed tensors that are not those of attention, as `matmul` layers.

Assumes: values of layers/shared/onnx/importer.py, with the batch before the last two axes.
Guarantees: a factor with its last two axes exchanged is `transposed`.
Does not: recognise attention (import_attention.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from compiler.layers.elementwise import broadcast
from compiler.layers.shared.context import HIDDEN
from compiler.layers.shared.onnx.importer import Computed, Importer, Scores, Setting, refused
from compiler.layers.shared.onnx.inputs import hint_of, ranked


def plain_product(m: Importer, node: Any, a: Computed, b: Computed) -> Computed:
    """`a` times `b`, whose leading axes are broadcast. Raises RunError (E0918)."""
    rank = max(a.rank, b.rank)
    a, b = ranked(m, a, rank), ranked(m, b, rank)
    apart = a.own or b.own or a.batch != b.batch or a.batch > rank - 3
    leading = None if apart or a.shape[-1] != b.shape[-2] else broadcast((a.shape[:-2], b.shape[:-2]))
    if leading is None:
        raise refused(node, "it multiplies two computed tensors along the batch, or of batches at other axes")
    return _product(m, hint_of(node), a, b, (*leading, a.shape[-2], b.shape[-1])).at(a)


def plain_scores(m: Importer, node: Any, scores: Scores) -> Computed:
    """What would have been the argument of a softmax, as a tensor."""
    q, k, whole, hint = scores.q, scores.k, scores.whole, hint_of(node)
    if scores not in m.shown:
        shape = (*q.shape[:-1], k.shape[-1])
        y = _product(m, hint, q, k, shape)
        text = y.name if scores.scale == 1.0 else f"{scores.scale!r} * {y.name}"
        if scores.offset is not None:
            text = f"{text} + {scores.offset.name}"
        if scores.causal:
            late = np.triu(np.full(shape[-2:], HIDDEN), 1)
            shown = m.layer("learned", f"{hint}_late", [], {"shape": list(late.shape)}, late.shape, {"weight": late})
            text = f"{text} + {shown.name}"
        if scores.mask is not None:
            text = f"{text} if {scores.mask.name} != 0.0 else {HIDDEN!r}"
        y = y if text == y.name else m.formula(hint, text, shape)
        m.shown[scores] = m.reshape(f"{hint}_whole", y, whole.shape).at(whole)
    return m.shown[scores]


def _product(m: Importer, hint: str, a: Computed, b: Computed, shape: tuple[int, ...]) -> Computed:
    (a, first), (b, second) = _unturned(m, a), _unturned(m, b)
    word = {(True, False): "first", (False, True): "second", (True, True): "both"}.get((first, second))
    settings: dict[str, Setting] = {} if word is None else {"transposed": word}
    return m.layer("matmul", hint, [a, b], settings, shape)


def _unturned(m: Importer, x: Computed) -> tuple[Computed, bool]:
    """The source of a layer that exchanges the last two axes only."""
    made, last = m.made(x.name), len(x.shape) - 1
    turned = made is not None and made.kind == "permute" and made.settings["axes"] == [*range(last - 1), last, last - 1]
    return (m.sources[x.name], True) if turned else (x, False)
