"""Maps with two points per thread: draws, loads and computations, and their order."""

from __future__ import annotations

from backends.cuda.kernels.nests.several_points import in_pairs
from backends.kernel_ir.expr import call, name
from backends.kernel_ir.stmt import Do, For, Kind, Let, Set, Stmt, lines_of
from backends.kernel_ir.tree import Code

WAIT = Do(call("wait"))
i, k, u, v, w, x, v_, w_ = (name(n) for n in ("i", "k", "u", "v", "w", "x", "v_", "w_"))


def let(local: Code, value: Code, kind: str = "real") -> Let:
    return Let(kind, local, value, const=False)


def texts(*inner: Stmt) -> list[str]:
    points = For(i, 0, name("n"), inner, kind=Kind.THREADS)
    return [x.text for x in lines_of(in_pairs(points, WAIT, frozenset({"v_", "w_"})))]


def body(lines: list[str], name: str) -> list[str]:
    """The lines of one of the functions."""
    start = next(n for n, x in enumerate(lines) if x.startswith(f"const auto nl_{name} ="))
    return lines[start + 1 : lines.index("};", start)]


def test_both_points_are_loaded_before_either_is_worked_on() -> None:
    lines = texts(let(v, v_[i]), let(w, w_[i]), Set(v, v + w), Set(v_[i], v))
    assert body(lines, "load") == ["real v = v_[i];", "real w = w_[i];", "return nl_load_found{v, w};"]
    assert body(lines, "work") == ["real v = nl_load_of.v;", "real w = nl_load_of.w;", "v = v + w;", "v_[i] = v;"]
    loop = lines[next(n for n, x in enumerate(lines) if x.startswith("for (")) :]
    calls = [x for x in loop if "nl_load(" in x or "nl_work(" in x]
    assert ["nl_work(" in x for x in calls] == [False, False, True, True]


def test_numbers_are_drawn_before_the_wait() -> None:
    lines = texts(let(u, call("nl_uniform_f32", "key", i)), WAIT, let(v, v_[i]), Set(v, v + u), Set(v_[i], v))
    assert body(lines, "draw") == ["real u = nl_uniform_f32(key, i);", "return nl_draw_found{u};"]
    at = lines.index("wait();")
    assert sum("nl_draw(nl_" in x for x in lines[:at]) == 2 and not any("nl_draw(nl_" in x for x in lines[at:])
    assert sum("nl_load(nl_" in x for x in lines[at:]) == 2
    assert body(lines, "work")[0] == "real u = nl_draw_of.u;"


def test_what_depends_on_something_changed_stays_where_it_is() -> None:
    """An index that follows from a value that was changed, and all that follows from it."""
    lines = texts(let(k, v_[i], "nl_i32"), Set(k, k + 1), let(w, w_[k]), let(x, 2 * w), Set(v_[i], x))
    assert body(lines, "load") == ["nl_i32 k = v_[i];", "return nl_load_found{k};"]
    assert body(lines, "work")[1:] == ["k = k + 1;", "real w = w_[k];", "real x = 2 * w;", "v_[i] = x;"]


def test_a_map_that_reads_nothing() -> None:
    lines = texts(Set(v_[i], 1))
    assert body(lines, "work") == ["v_[i] = 1;"]
    assert not any("nl_load" in x for x in lines)
