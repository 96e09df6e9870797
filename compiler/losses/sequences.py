"""The loss of a list of labels without times (connectionist temporal classification), and its metric.

Graves et al. 2006, "Connectionist temporal classification: labelling unsegmented sequence data with recurrent neural
networks": the sum over all ways to spread the labels over the steps, with blanks between them, of the probability of
the way. A way is at one of 2 labels + 1 states, which are the labels with blanks around each of them (section 4.1).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

import compiler.ir.level1.graph as l1
from compiler.expr.ast import Call, Cond, Expr, Num, Ref
from compiler.expr.keys.kinds import Field, Value, choice, entry, instead, switch
from compiler.ir.level1.builder import FIRST, GraphBuilder, Operand, identity
from compiler.ir.space import Affine, along
from compiler.layers.shared.keys import LAYER_REFERENCE
from compiler.losses.keys import LOGITS, MASK, TARGET
from compiler.losses.kind import Answers, LossKind, Measured, MetricKind, Parts, Rows, Sums
from compiler.losses.rows import X0, X1, X2, X3, first_class, softmax_parts

NEVER: Final = -1e30
"""The logarithm of the probability of what cannot be: finite, so that differences from it are numbers."""

N, T, S, C = (along(d) for d in "ntsc")


def _earlier(by: int) -> Affine:
    """The state that is so many before."""
    return Affine((("s", 1),), -by)


def _either(a: Expr, b: Expr) -> Expr:
    """log(exp a + exp b). Its derivatives are right where both are equal, too."""
    return Cond(a > b, a + Call("softplus", (b - a,)), b + Call("softplus", (a - b,)))


def _length(m: Measured, key: str, all_of_them: int) -> l1.Tensor:
    """How many steps or labels each sample has."""
    like = l1.Tensor("", m.prediction.shape[:1], "real", True)
    name = f"{m.name}.{key}"
    if key in m.beside:
        return m.g.map(name, Call("float", (X0,)), (identity(m.beside[key]),))
    return m.g.map(name, Ref("all"), (), like=like, scalars=(("all", float(all_of_them)),))


Step = Callable[[GraphBuilder, str, l1.Tensor, list[l1.Tensor]], l1.Tensor]
"""Adds the nodes of a step, named `<name>.<...>`: of its state before it and of what is given to it the state after."""


def _over_steps(m: Measured, begin: l1.Tensor, given: Sequence[l1.Tensor], step: Step) -> l1.Tensor:
    """The state after all steps. `begin`: before the first; `given`: (batch, steps, ...)."""
    g, at, body, (batch, steps, *_) = m.g, f"{m.name}.at", GraphBuilder(), m.prediction.shape
    inside: list[l1.Given] = []
    for tensor in given:
        rest = tensor.shape[2:]
        whole = l1.Tensor(f"{tensor.name}.steps", (batch * steps, *rest), "real", True)
        g.add(l1.StepsFirst(whole, tensor.name, steps))
        part = l1.Tensor(f"{at}.{tensor.name.rpartition('.')[2]}", (batch, *rest), "real", True)
        inside.append(l1.Given(part, whole.name))
    before, last = (replace(begin, name=name) for name in (f"{at}.before", f"{m.name}.last"))
    after = step(body, at, before, [x.part for x in inside])
    nodes = tuple(n for n in body.nodes if isinstance(n, l1.Map | l1.Contract | l1.Reindex))
    return g.add(l1.Scan(at, steps, (l1.Carried(before, begin.name, after.name, last),), tuple(inside), (), nodes))


def _chances(m: Measured, label: l1.Tensor) -> tuple[l1.Tensor, l1.Tensor]:
    """The logarithm of the probability of each state's class in each step, and what is a constant to autodiff."""
    g, name, logits, row = m.g, m.name, m.prediction, (0, 1)
    batch, steps, classes = logits.shape
    largest, total = softmax_parts(g, name, logits)
    dims = (("n", batch), ("t", steps), ("s", label.shape[1]), ("c", classes))
    chosen = Cond(X1.eq(Ref("c")), X0, Num(0.0))
    scores = g.contract(f"{name}.scores", dims, (N, T, S), ((logits, (N, T, C)), (label, (N, S))), chosen)
    operands: tuple[Operand, ...] = (identity(scores), (largest, row), (total, row))
    return g.map(f"{name}.chances", X0 - X1 - Call("log", (X2,)), operands), largest


def _rows(m: Measured) -> Rows:
    """`m.target` (batch, labels), `m.prediction` (batch, steps, classes). The state of the Scan: the logarithm of the
    probability of all ways that are there after a step (section 4.1, alpha)."""
    g, name, (batch, steps, _), labels = m.g, m.name, m.prediction.shape, m.target.shape[1]
    here, blank = (("n", batch), ("s", 2 * labels + 1)), dict(m.loss.attrs)["blank"]
    second = Affine((("s", 1),), -1, 2)  # every second state is that of a label; it is outside for all others
    label = g.contract(f"{name}.label", here, (N, S), ((m.target, (N, second)),), X0, fill=blank)
    pair = ((label, (N, S)), (label, (N, _earlier(2))))
    jumps = g.contract(f"{name}.jumps", here, (N, S), pair, Cond(X0.ne(X1), Num(1.0), Num(0.0)), fill=-1.0)
    begin = g.contract(f"{name}.begin", here, (N, S), (), Cond(Ref("s").eq(0), Num(0.0), Num(NEVER)))
    chances, largest = _chances(m, label)
    there = Cond(Ref("t") < X0, Num(1.0), Num(0.0))
    length = _length(m, "input_lengths", steps)
    within = g.contract(f"{name}.within", (("n", batch), ("t", steps)), (N, T), ((length, (N,)),), there)

    def step(b: GraphBuilder, at: str, before: l1.Tensor, given: list[l1.Tensor]) -> l1.Tensor:
        """From the state itself, the one before, and over a blank between labels that differ (eq. 6)."""
        moved = b.contract(f"{at}.moved", here, (N, S), ((before, (N, _earlier(1))),), X0, fill=NEVER)
        over = ((before, (N, _earlier(2))), (jumps, (N, S)))
        jumped = b.contract(f"{at}.jumped", here, (N, S), over, Cond(X1.ne(0.0), X0, Num(NEVER)), fill=NEVER)
        near = b.map(f"{at}.near", _either(X0, X1), (identity(before), identity(moved)))
        chance, going = given
        operands = (identity(near), identity(jumped), identity(chance), (going, (0,)), identity(before))
        return b.map(f"{at}.after", Cond(X3.ne(0.0), _either(X0, X1) + X2, Ref("x4")), operands)

    last = _over_steps(m, begin, (chances, within), step)
    words = _length(m, "target_lengths", labels)
    off = 2.0 * X1 - Ref("d1")  # the last label, or the blank behind it (eq. 8)
    ends, state = off.eq(0.0) | off.eq(1.0), (identity(last), (words, (0,)))
    best = g.reduce(f"{name}.best", Cond(ends, X0, Num(NEVER)), state, last, (0,), combine="max", fill=-math.inf)
    both = Cond(ends, Call("exp", (X0 - X2,)), Num(0.0))
    total = g.reduce(f"{name}.both", both, (*state, (best, (0,))), last, (0,))
    sure = X0 + Call("log", (X1,))
    loss: Expr = Cond(sure < 0.5 * NEVER, Ref("impossible"), -sure)
    if m.loss.mean == "labels":
        loss = loss / Cond(X2 > 1.0, X2, Num(1.0))
    scalars = (("impossible", 0.0 if dict(m.loss.attrs)["zero_infinity"] else math.inf),)
    found = g.map(f"{name}.rows", loss, (identity(best), identity(total), identity(words)), scalars=scalars)
    return found, frozenset({largest.name, best.name})


def _edits(m: Measured) -> Sums:
    """Levenshtein's distances (1966) between targets and the best class of every step, repeated ones merged and blanks
    left out; and the numbers of labels. The state of the Scan: the distances between what came of the steps so far and
    the first 0, 1, ... labels of the target."""
    g, name, (batch, steps, _), labels = m.g, m.name, m.prediction.shape, m.target.shape[1]
    lengths, words = _length(m, "input_lengths", steps), _length(m, "target_lengths", labels)
    best = first_class(m)
    fresh = X0.ne(X1) & X0.ne(Ref("blank")) & (Ref("t") < X2)
    operands = ((best, (N, T)), (best, (N, Affine((("t", 1),), -1))), (lengths, (N,)))
    heard = g.contract(
        f"{name}.heard", (("n", batch), ("t", steps)), (N, T), operands, Cond(fresh, X0, Num(-1.0)), fill=-1.0,
        scalars=(("blank", dict(m.loss.attrs)["blank"]),),
    )  # fmt: skip
    here = (("n", batch), ("s", labels + 1))
    begin = g.contract(f"{name}.begin", here, (N, S), (), Call("float", (Ref("s"),)))

    def step(b: GraphBuilder, at: str, before: l1.Tensor, given: list[l1.Tensor]) -> l1.Tensor:
        """A label more than before, or one of the target; then labels of the target that are missing."""
        one = Call("min", (X0 + 1.0, X1 + Cond(X2.eq(X3), Num(0.0), Num(1.0))))
        before_it = (before, (N, _earlier(1))), (m.target, (N, _earlier(1))), (given[0], (N,))
        single = b.contract(f"{at}.single", here, (N, S), ((before, (N, S)), *before_it), one, fill=FIRST)
        missing = Cond(Ref("k") <= Ref("s"), X0 + (Ref("s") - Ref("k")), Num(FIRST))
        reads, dims = ((single, (N, along("k"))),), (*here, ("k", labels + 1))
        several = b.contract(f"{at}.several", dims, (N, S), reads, missing, combine="min", fill=math.inf)
        operands = (identity(before), identity(several), (given[0], (0,)))
        return b.map(f"{at}.after", Cond(X2 >= 0.0, X1, X0), operands)

    last = _over_steps(m, begin, (heard,), step)
    found = Cond(X1.eq(Ref("d1")) & X2.ne(0.0), X0 * X2, Num(0.0))
    edits = g.reduce(f"{name}.edits", found, (identity(last), (words, (0,)), (m.mask, (0,))), last, ())
    weighed = g.reduce(f"{name}.labels", X0 * X1, (identity(words), identity(m.mask)), words, ())
    return {"edits": edits, "labels": weighed}


def _per_label(parts: Parts, count: float) -> float:
    labels = float(np.sum(parts["labels"]))
    return float(np.sum(parts["edits"])) / labels if labels else math.nan


LABEL_ERROR_RATE = MetricKind(
    "label_error_rate",
    "Insertions, deletions and replacements that turn the best class of every step, repeated ones merged and blanks "
    "left out, into the target; in the whole epoch, over the number of labels of all targets.",
    frozenset({Answers.LABELS}),
    _edits,
    _per_label,
    smaller=True,
)


def _lengths(name: str, of: str, all_of_them: str) -> Field:
    return Field(
        name,
        LAYER_REFERENCE,
        f"A network input with the number of {of} of each sample (`{{shape: [], dtype: int32}}`), of which what is "
        f"behind is not read; without it, {all_of_them}.",
        example=f"{name}: {name.partition('_')[0]}_length",
    )


CTC = LossKind(
    entry(
        "loss",
        "ctc",
        "Minus the logarithm of the probability of a list of labels, however spread over the steps: each stands in one "
        "or more steps in a row, in others a blank does (connectionist temporal classification, Graves et al. 2006). "
        "The softmax is part of the loss.",
        LOGITS,
        TARGET,
        _lengths("input_lengths", "steps", "all of the layer"),
        _lengths("target_lengths", "labels", "all of the target"),
        Field("blank", Value("a whole number", "0", integer=True, low=0), "The class of no label.", default=0),
        switch(
            "zero_infinity",
            "Whether labels that fit into no steps add 0 to the loss. Without it, the loss is infinite; they have no "
            "gradient in both cases.",
        ),
        Field(
            "mean",
            choice(
                "mean",
                labels="Losses are divided by the numbers of labels first, as in PyTorch.",
                samples="They are not.",
            ),
            "What the mean is over.",
            default="labels",
        ),
        MASK,
        title="ctc",
        elsewhere=instead(
            "`logits`: prediction log_probs",
            "`target`: label labels targets",
            "`input_lengths`: lengths logit_length logits_length",
            "`target_lengths`: label_length label_lengths",
            "`blank`: blank_index blank_id",
            "`mean`: reduction",
            "`mask`: sample_weight",
        ),
    ),
    Answers.LABELS,
    _rows,
    whole=True,
    beside=("input_lengths", "target_lengths"),
    infinite="with `zero_infinity: true` labels that fit into no steps add 0",
    synonyms=("ctc_loss", "connectionist_temporal_classification"),
)
