"""The built-in activations of layers, as source text of the expression language over `x`.

Assumes: nothing.
Guarantees: one entry per name, in the order in which the reference shows them; derivatives follow from the texts
(compiler/expr/diff.py), with PyTorch's values at kinks that the functions in them have.
Does not: take parameters; an activation with other constants is a user function in the file's `functions`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from compiler.expr.ast import Expr
from compiler.expr.parse import own_expr

ACTIVATIONS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "relu": "relu(x)",
        "leaky_relu": "x if x > 0 else 0.01 * x",
        # Clevert, Unterthiner & Hochreiter 2016, with alpha = 1
        "elu": "x if x > 0 else expm1(x)",
        # Hendrycks & Gimpel 2016, the exact form
        "gelu": f"0.5 * x * (1.0 + erf(x * {math.sqrt(0.5)!r}))",
        "silu": "x * sigmoid(x)",
        "sigmoid": "sigmoid(x)",
        "tanh": "tanh(x)",
        "softplus": "softplus(x)",
        # Klambauer et al. 2017, eq. 2 and 14
        "selu": "1.0507009873554805 * (x if x > 0 else 1.6732632423543772 * expm1(x))",
        # Hendrycks & Gimpel 2016, the approximation by tanh
        "gelu_tanh": f"0.5 * x * (1.0 + tanh({math.sqrt(2.0 / math.pi)!r} * (x + 0.044715 * x * x * x)))",
        "relu6": "clip(x, 0.0, 6.0)",
        # Courbariaux, Bengio & David 2015, in the form of MobileNetV3 (Howard et al. 2019)
        "hard_sigmoid": "clip(x + 3.0, 0.0, 6.0) / 6.0",
        "hard_swish": "x * clip(x + 3.0, 0.0, 6.0) / 6.0",
        "hard_tanh": "clip(x, -1.0, 1.0)",
        "mish": "x * tanh(softplus(x))",
        "softsign": "x / (1.0 + abs(x))",
        "log_sigmoid": "-softplus(-x)",
    }
)


def activation(name: str) -> Expr:
    """The expression over `x`."""
    return own_expr(ACTIVATIONS[name])
