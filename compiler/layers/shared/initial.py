"""Weight initialization: the key `init` of layers with weights.

Assumes: expr/keys/kinds.py, expr/keys/values.py.
Guarantees: every initialiser, with its hover text and example.
Does not: compute (compiler/layers/shared/initial_weights.py does).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from compiler.expr.keys.kinds import Alternative, Field, OneKey, Value, entry, instead, required
from compiler.expr.keys.values import FILE_ARRAY, NUMBER

WITH_FANS: Final = frozenset(
    {"orthogonal", *(f"{family}_{kind}" for family in ("glorot", "he", "lecun") for kind in ("uniform", "normal"))}
)
"""Initialisers of matrices, or of arrays of more axes."""

_SPREAD = Value("a positive number", "0.02", low=0, above=True)


def _with(
    name: str, doc: str, *fields: Field, example: str = "{}", elsewhere: Mapping[str, str] = MappingProxyType({})
) -> Alternative:
    return entry("initialiser", name, doc, *fields, title=f"init_{name}", example=example, elsewhere=elsewhere)


_STD = Field("std", _SPREAD, "The standard deviation.", default=0.02)
_GAIN = Field("gain", _SPREAD, "The length of the rows or columns.", default=1, example="gain: 2 ** 0.5")

INITIALISER = OneKey(
    "initialiser",
    (
        _with("glorot_uniform", "Uniform, variance 2 / (fan in + fan out) (Glorot & Bengio 2010, eq. 16)."),
        _with("glorot_normal", "Normal, variance 2 / (fan in + fan out) (Glorot & Bengio 2010)."),
        _with("he_uniform", "Uniform, variance 2 / fan in (He et al. 2015, eq. 10)."),
        _with("he_normal", "Normal, variance 2 / fan in (He et al. 2015, eq. 10)."),
        _with("lecun_uniform", "Uniform, variance 1 / fan in (LeCun et al. 1998, eq. 16)."),
        _with("lecun_normal", "Normal, variance 1 / fan in (LeCun et al. 1998, eq. 16)."),
        _with("normal", "Normal around 0.", _STD, example="{std: 0.02}"),
        _with(
            "truncated_normal",
            "Normal around 0, cut off at two standard deviations.",
            Field("std", _SPREAD, "The standard deviation before the cut.", default=0.02),
            example="{std: 0.02}",
        ),
        _with(
            "uniform",
            "Uniform between minus and plus a bound.",
            Field("bound", _SPREAD, "The bound.", default=0.05, example="bound: 0.05"),
            example="{bound: 0.05}",
            elsewhere=instead("`bound: 0.05`, for numbers from -0.05 to 0.05: low high a b minval maxval limit"),
        ),
        _with(
            "orthogonal",
            "Rows (or columns, if there are fewer) at right angles to each other, of one length (Saxe, McClelland "
            "& Ganguli 2014). All axes but the first count as one.",
            _GAIN,
            example="{gain: 1}",
        ),
        _with(
            "constant",
            "One number everywhere.",
            required("value", NUMBER, "The number.", example="value: 0.1"),
            example="{value: 0.1}",
        ),
        Alternative(
            "values",
            FILE_ARRAY,
            "An array in a file, of the shape of `<layer>.weight`.",
            example="{values: {file: start.npz, array: conv1}}",
        ),
    ),
    title="init",
    bare=True,
    elsewhere=instead(
        "`glorot_uniform`: xavier_uniform",
        "`glorot_normal`: xavier_normal",
        "`he_uniform`: kaiming_uniform",
        "`he_normal`: kaiming_normal",
        "`constant: {value: 0}`: zeros",
        "`constant: {value: 1}`: ones",
        "`normal`: random_normal",
        "`values: {file: ...}`: file",
    ),
)

INIT = Field(
    "init",
    INITIALISER,
    "How the weights begin (biases are 0): `glorot_uniform` and others, `normal: {std: 0.02}`, or "
    "`values: {file: start.npz, array: conv1}`. Those of all weights together can be read from a file by `network: "
    "{weights: ...}`.",
    example="init: he_normal",
)
