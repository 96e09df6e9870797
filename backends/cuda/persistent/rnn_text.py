"""rnn_text: the functions of the shapes of stages: the pointwise work on the sums of the products.

Assumes: shapes of rnn_plan.py.
Guarantees: a link reads the results of earlier links at its point from registers; all stores come last, since none of
them is read again in the stage.
Does not: sum; depend on sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import backends.kernel_ir.stmt as ir
import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel, columns, mentioned, open_kernel
from backends.c_family.cprint import Dialect, Symbol
from backends.c_family.source_map import comment
from backends.cuda.kernels.kernel import BLOCK
from backends.cuda.kernels.nests.nest import NestPrinter
from backends.cuda.persistent.rnn_plan import Part, Shape, Shapes, row_bytes
from backends.kernel_ir.expr import cast, code, form, name
from backends.kernel_ir.stmt import Block, Do, For, Kind, Let, Set, Stmt, names_of
from compiler.ir.level2.batch_independence import nest_of, product_of


@dataclass(frozen=True)
class Link:
    """One link at one point, without its row: its kernel, its statements, and the formals that they name."""

    kernel: Kernel
    lines: Sequence[Stmt]
    read: frozenset[str]


def links_of(program: l2.Merged, shapes: Shapes, dialect: Dialect) -> list[list[Link]]:
    """The links of all shapes."""
    return [_links(program, shape, shapes.stored[n], dialect) for shape, n in shapes.number.items()]


def shape_lines(shapes: Shapes, links: Sequence[Sequence[Link]], dialect: Dialect, widths: Sequence[int]) -> list[Stmt]:
    """The functions of all shapes: the pointwise work on the sums of the products. `widths`: the
    columns of a row, by template."""
    lines: list[Stmt] = []
    for (shape, n), made in zip(shapes.number.items(), links, strict=True):
        names = ", ".join(x.kernel.template.name.split(":")[0] for x in made)
        given = [("const char *", "nl_rows"), ("nl_i64", "step"), ("const T &", "nl_t")]
        points = _points(shape, made, shapes.stored[n], shapes.fed[n], dialect, widths)
        lines += [
            ir.Text(""),
            ir.Remark(comment(names)),
            ir.Text("template <class T>"),
            ir.Definition(f"NL_FN void nl_stage_{n}", [Let(kind, name(x)) for kind, x in given], [points]),
        ]
    return lines


def _links(program: l2.Merged, shape: Shape, stored: frozenset[int], dialect: Dialect) -> list[Link]:
    made: list[Link] = []
    results, products = 0, 0
    for part in shape:
        template = program.templates[part.template]
        number = products if product_of(template) is not None else None
        products += number is not None
        first = results
        results += len(part.results)
        made.append(_link(template, part, number, first, [r for r in range(first, results) if r in stored], dialect))
    return made


def _points(
    shape: Shape,
    links: Sequence[Link],
    stored: frozenset[int],
    fed: frozenset[int],
    dialect: Dialect,
    widths: Sequence[int],
) -> Stmt:
    body: list[Stmt] = [
        ir.constants("int", nl_own="nl_e >> nl_t.bits", nl_out="nl_t.out + (nl_e & ((1 << nl_t.bits) - 1))"),
        ir.when("nl_out >= nl_t.outs", ir.Leave("continue")),
        ir.constants("nl_i64", nl_sample="nl_t.first + nl_own"),
    ]
    end: list[Stmt] = []
    at, results = 0, 0
    for part, link in zip(shape, links, strict=True):
        first = results
        results += len(part.results)
        own, *others = (Let(dialect.real, code(f"nl_y{r}")) for r in range(first, results))
        kept = [r for r in range(first, results) if r in stored]
        body += [replace(own, beside=others), *(Let(f"{dialect.real} *", code(f"nl_at{r}")) for r in kept)]
        body.append(Block("", [*_row(link, at), *link.lines], note=comment(link.kernel.template.name)))
        end += [Set(code(f"*nl_at{r}"), f"nl_y{r}") for r in kept]
        at += row_bytes(widths[part.template])
    end += [Do(f"nl_feed(nl_t, {place}, nl_own, nl_out, nl_y{r})") for place, r in enumerate(sorted(fed))]
    return For(code("nl_e"), "threadIdx.x", "nl_t.size", [*body, *end], BLOCK, "int", Kind.ONCE)


def _row(link: Link, at: int) -> list[Stmt]:
    """The columns of a link, whose row is `at` bytes behind the first one."""
    loads, kind = columns(link.kernel, link.read), f"const {link.kernel.row_type} *"
    return [Let(f"{kind}const", name("self"), cast(kind, f"nl_rows + {at}"), const=False), *loads] if loads else []


def _link(
    template: l2.Template, part: Part, number: int | None, first: int, kept: Sequence[int], dialect: Dialect
) -> Link:
    """One link, its results in nl_y<first>, ... `number`: of its sums, if it is a product."""
    k = open_kernel(template, dialect)
    nest = nest_of(template)
    assert nest is not None
    printer = NestPrinter(k, nest)
    body = printer.body(known={formal: Symbol(name(f"nl_y{r}"), dialect.precision) for formal, r in part.known})
    par = [printer.vars[d.name] for d in printer.par]
    places = ["nl_sample * nl_t.outs + nl_out"] if len(par) == 1 else ["nl_sample", "nl_out"]
    lines = [] if number is None else printer.summed_to(f"nl_sum_of(nl_t, {number}, nl_e)", body)
    lines += body.run((*nest.prologue, *nest.epilogue))
    for r, formal in enumerate(part.results, first):
        if (value := body.scope[formal].code) != name(f"nl_y{r}"):
            lines.append(Set(code(f"nl_y{r}"), value))
        if r in kept:
            lines.append(Set(code(f"nl_at{r}"), form("&{}", printer.elements[formal].place)))
    used = names_of(lines)
    here = [Let("nl_i64", v, code(x)) for v, x in zip(par, places, strict=True) if v.text in used]
    return Link(k, [*here, *lines], frozenset(mentioned(k, lines)))
