"""Expressions as LaTeX, and the equations of the whole library as MathML."""

from __future__ import annotations

import pytest

from scripts.site.latex import derivative, expression, statement, unit

CASES = [
    ("a + b * c", r"a + b \, c"),
    ("(a + b) * c", r"\left( a + b \right) \, c"),
    ("a - (b - c)", r"a - \left( b - c \right)"),
    ("a * 2", r"a \cdot 2"),
    ("(v_rest - v) / tau_m", r"\frac{v_{\mathrm{rest}} - v}{\tau_{\mathrm{m}}}"),
    ("-x / tau", r"-\frac{x}{\tau}"),
    ("a * -b", r"a \, \left( -b \right)"),
    ("(a / b) ** 2", r"\left( \frac{a}{b} \right)^{2}"),
    ("m ** 3 * h", r"m^{3} \, h"),
    ("exp(-dt / tau)", r"\exp\left( -\frac{\Delta t}{\tau} \right)"),
    ("2 * exprel(x) ** -1", r"2 \, \frac{x}{e^{x} - 1}"),
    ("a if v > 1 mV else b", r"\begin{cases} a & \text{if } v > 1\,\mathrm{mV} \\ b & \text{otherwise} \end{cases}"),
    ("0.02 / (1 ms)", r"0.02\,\mathrm{ms}^{-1}"),
    ("1e-6 + beta1", r"10^{-6} + \beta_{1}"),
    ("post.y * m_hat", r"{y}^{\mathrm{post}} \, \hat{m}"),
    ("clip(w, 0, w_max)", r"\mathrm{clip}\left( w,\, 0,\, w_{\mathrm{max}} \right)"),
    ("a >= b and not c", r"a \ge b \;\text{and}\; \neg c"),
]


@pytest.mark.parametrize(("text", "latex"), CASES)
def test_expression(text: str, latex: str) -> None:
    assert expression(text) == latex


def test_statements() -> None:
    assert statement("v = v_reset") == r"v \leftarrow v_{\mathrm{reset}}"
    assert statement("w += b") == r"w \leftarrow w + b"
    assert statement("deliver(w)") == r"\text{deliver } w"
    assert derivative("v", "-v / tau") == r"\frac{dv}{dt} = -\frac{v}{\tau}"
    assert statement("param = param - g", {"param": r"\theta"}) == r"\theta \leftarrow \theta - g"


def test_units() -> None:
    assert unit("uF/cm**2") == r"\mathrm{µF}/\mathrm{cm}^{2}"
