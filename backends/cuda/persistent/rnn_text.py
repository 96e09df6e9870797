"""rnn_text: the functions of the shapes of stages: the pointwise work on the sums of the products.

Assumes: shapes of rnn_plan.py.
Guarantees: a link reads the results of earlier links at its point from registers; all stores come last, since none of
them is read again in the stage.
Does not: sum; depend on sizes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import compiler.ir.level2.program as l2
from backends.c_family.access import mentioned, open_kernel
from backends.c_family.cprint import Dialect, Line, Symbol, indent
from backends.c_family.source_map import comment
from backends.cuda.kernels.kernel import BLOCK, columns
from backends.cuda.kernels.nest import NestPrinter
from backends.cuda.persistent.rnn_plan import Part, Shape, Shapes, row_bytes
from compiler.ir.level2.batch_independence import nest_of, product_of


def shape_lines(program: l2.Merged, shapes: Shapes, dialect: Dialect) -> list[Line]:
    """The functions of all shapes: the pointwise work on the sums of the products."""
    lines: list[Line] = []
    for shape, n in shapes.number.items():
        names = ", ".join(program.templates[p.template].name.split(":")[0] for p in shape)
        lines += [Line(""), Line(f"/* {comment(names)} */")]
        lines += [Line(f"NL_FN void nl_stage_{n}(const char *nl_rows, nl_i64 step, const nl_points &nl_t)"), Line("{")]
        lines += [*indent(_points(program, shape, shapes.stored[n], shapes.fed[n], dialect)), Line("}")]
    return lines


def _points(
    program: l2.Merged, shape: Shape, stored: frozenset[int], fed: frozenset[int], dialect: Dialect
) -> list[Line]:
    head = [
        Line("#pragma unroll 1"),
        Line(f"for (int nl_e = threadIdx.x; nl_e < nl_t.size; nl_e += {BLOCK}) {{"),
        Line("const int nl_own = nl_e >> nl_t.bits, nl_out = nl_t.out + (nl_e & ((1 << nl_t.bits) - 1));", 1),
        Line("if (nl_out >= nl_t.outs) continue;", 1),
        Line("const nl_i64 nl_sample = nl_t.first + nl_own;", 1),
    ]
    body: list[Line] = []
    end: list[Line] = []
    at, results, products = 0, 0, 0
    for part in shape:
        template = program.templates[part.template]
        number = products if product_of(template) is not None else None
        products += number is not None
        first = results
        results += len(part.results)
        names = [f"nl_y{r}" for r in range(first, results)]
        body.append(Line(f"{dialect.real} {', '.join(names)};"))
        kept = [r for r in range(first, results) if r in stored]
        body += [Line(f"{dialect.real} *nl_at{r};") for r in kept]
        body.append(Line(f"{{ /* {comment(template.name)} */"))
        body += indent(_part(template, part, at, number, first, kept, dialect))
        body.append(Line("}"))
        end += [Line(f"*nl_at{r} = nl_y{r};") for r in kept]
        at += row_bytes(template)
    end += [Line(f"nl_feed(nl_t, {place}, nl_own, nl_out, nl_y{r});") for place, r in enumerate(sorted(fed))]
    return [*head, *indent([*body, *end]), Line("}")]


def _part(
    template: l2.Template, part: Part, at: int, number: int | None, first: int, kept: Sequence[int], dialect: Dialect
) -> list[Line]:
    """One link at one point, its results in nl_y<first>, ... `number`: of its sums, if it is a product."""
    k = open_kernel(template, dialect, set())
    nest = nest_of(template)
    assert nest is not None
    printer = NestPrinter(k, nest)
    body = printer.body(known={formal: Symbol(f"nl_y{r}", dialect.precision) for formal, r in part.known})
    par = [printer.vars[d.name] for d in printer.par]
    places = ["nl_sample * nl_t.outs + nl_out"] if len(par) == 1 else ["nl_sample", "nl_out"]
    lines: list[Line] = []
    if number is not None:
        acc = k.namer.own(nest.acc)
        body.scope[nest.acc] = Symbol(acc, dialect.precision)
        lines.append(Line(f"const {dialect.real} {acc} = nl_sum_of(nl_t, {number}, nl_e);"))
    lines += body.run((*nest.prologue, *nest.epilogue))
    for r, formal in enumerate(part.results, first):
        if (text := body.scope[formal].text) != f"nl_y{r}":
            lines.append(Line(f"nl_y{r} = {text};"))
        if r in kept:
            lines.append(Line(f"nl_at{r} = &{printer.elements[formal].place};"))
    words = set(re.findall(r"\w+", " ".join(x.text for x in lines)))
    here = [Line(f"const nl_i64 {v} = {place};") for v, place in zip(par, places, strict=True) if v in words]
    loads = columns(k, mentioned(k, lines))
    row = [Line(f"const {k.row_type} *const self = (const {k.row_type} *)(nl_rows + {at});")] if loads else []
    return [*row, *loads, *here, *lines]
