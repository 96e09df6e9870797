"""Maps with two points per thread: draws, loads and computations, and their order."""

from __future__ import annotations

from backends.cuda.kernels.nests.several_points import in_pairs
from backends.kernel_ir.expr import call, code, name
from backends.kernel_ir.stmt import Do, For, Kind, Let, Set, Stmt, lines_of
from backends.kernel_ir.tree import Code

WAIT = Do(call("wait"))
i, k, d, v, w, x, v_, w_ = (name(n) for n in ("i", "k", "d", "v", "w", "x", "v_", "w_"))


def let(local: Code, value: Code, kind: str = "real") -> Let:
    return Let(kind, local, value, const=False)


def texts(*inner: Stmt) -> list[str]:
    points = For(i, 0, name("n"), inner, kind=Kind.THREADS)
    return [x.text for x in lines_of(in_pairs(points, WAIT, frozenset({"v_", "w_"})))]


def loops(lines: list[str]) -> list[list[str]]:
    """What is done for both points, loop by loop, behind the index of a point."""
    starts = [n + 1 for n, x in enumerate(lines) if x == "#pragma unroll"]
    assert all(lines[n] == "for (int u = 0; u < 2; u++) {" for n in starts)
    assert all(lines[n + 1] == "const nl_i64 i = nl_first + u * blockDim.x;" for n in starts)
    return [lines[n + 2 : lines.index("}", n)] for n in starts]


def test_both_points_are_loaded_before_either_is_worked_on() -> None:
    lines = texts(let(v, v_[i]), let(w, w_[i]), Set(v, v + w), Set(v_[i], v))
    load, work = loops(lines)
    assert load == ["if (u < nl_many) {", "v[u] = v_[i];", "w[u] = w_[i];"]
    assert work == ["if (u >= nl_many) break;", "v[u] = v[u] + w[u];", "v_[i] = v[u];"]
    assert "real v[2] = {}, w[2] = {};" in lines
    assert not any("[&]" in x for x in lines)


def test_numbers_are_drawn_before_the_wait() -> None:
    lines = texts(let(d, call("nl_uniform_f32", "key", i)), WAIT, let(v, v_[i]), Set(v, v + d), Set(v_[i], v))
    draw, load, work = loops(lines)
    assert draw == ["if (u < nl_many) {", "d[u] = nl_uniform_f32(key, i);"]
    assert lines.index(draw[-1]) < lines.index("wait();") < lines.index(load[-1])
    assert work[1] == "v[u] = v[u] + d[u];"


def test_what_depends_on_something_changed_stays_where_it_is() -> None:
    """An index that follows from a value that was changed, and all that follows from it."""
    lines = texts(let(k, v_[i], "nl_i32"), Set(k, k + 1), let(w, w_[k]), let(x, 2 * w), Set(v_[i], x))
    load, work = loops(lines)
    assert load[1:] == ["k[u] = v_[i];"]
    assert work[1:] == ["k[u] = k[u] + 1;", "real w = w_[k[u]];", "real x = 2 * w;", "v_[i] = x;"]


def test_a_map_that_reads_nothing() -> None:
    (work,) = loops(texts(Set(v_[i], 1)))
    assert work[1:] == ["v_[i] = 1;"]


def test_what_has_neither_loads_nor_draws_is_one_loop() -> None:
    """A neuron without equations has no statement at all."""
    assert loops(texts(Set(v_[i], code("1.0f")))) == [["if (u >= nl_many) break;", "v_[i] = 1.0f;"]]
    assert loops(texts()) == [["if (u >= nl_many) break;"]]
