"""Kernels as text, and the source map of a file that holds them.

Assumes: a legal Merged (verify/verify.py).
Guarantees: the span in the model of each line (from 1) that has one, which `refused` names.
Does not: render skeletons.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import compiler.ir.level2.program as l2
from backends.c_family.access import Kernel, compiled, open_kernel, read, row_struct
from backends.c_family.cprint import Dialect, PrintError
from backends.kernel_ir.descriptor import Compiled, CompiledKernel
from backends.kernel_ir.layout import broken, remark
from backends.kernel_ir.stmt import Remark, Stmt, marked_lines, used
from backends.kernel_ir.verify import verify
from backends.protocol import BackendError
from compiler.core.source import NOWHERE, Span
from compiler.expr.ast import Expr, Ref, refs, show, substitute


@dataclass(frozen=True)
class Printed:
    """The text of kernels; `spans`: by line, from 0. What the user wrote is in a comment above the first line of a
    kernel that comes from it."""

    text: str
    spans: Mapping[int, Span]

    def within(self, file: str) -> dict[int, Span]:
        """The spans by line of a file that holds the text, from 1."""
        first = file[: file.index(self.text)].count("\n") + 1
        return {first + n: span for n, span in self.spans.items()}


def printed(kernels: Iterable[Iterable[Stmt]]) -> Printed:
    """Kernels, with an empty line between them."""
    out: list[str] = []
    spans: dict[int, Span] = {}
    for kernel in kernels:
        quoted: set[tuple[int, int]] = set()
        for line in marked_lines(kernel):
            lines = list(broken(line))
            if (at := (line.span.start, line.span.end)) not in quoted and (written := _written(line.span)):
                quoted.add(at)
                lines[:0] = remark(written, line.depth)
            for text, depth, span, _ in lines:
                if span is not NOWHERE:
                    spans[len(out)] = span
                out.append("    " * depth + text if text and not text.startswith("#") else text)
        out.append("")
    return Printed("\n".join(out), spans)


def comment(text: str) -> str:
    """Any text as a piece of a block comment, in one line: names, paths and descriptions come from outside.

    Only printable ASCII is left, and nothing that ends or opens a comment, continues the line or is a trigraph; other
    characters are replaced by their codes.
    """
    plain = "".join(c if c.isascii() and c.isprintable() else f"<{ord(c):X}>" for c in text[:_LONGEST])
    return re.sub(r"\*(?=/)|/(?=\*)|/(?=/)|\?(?=\?)|\\(?=\s*$)", r"\g<0> ", plain) + ("..." if text[_LONGEST:] else "")


_LONGEST = 400
"""Characters of a comment."""


def _written(span: Span) -> str:
    """What stands at a span, with its place: `cuba.yaml:23  dv/dt: (ge - v) / tau`; "" where it is no expression or
    statement in one line."""
    text = span.file.text[span.start : span.end]
    if not _FORMULA.search(text) or "\n" in text or len(text) > _QUOTED:
        return ""
    before = span.file.line(span.line)[: span.column - 1]
    key = re.search(r"([\w/.]+: ?)[\"']?$", before, flags=re.ASCII)
    return comment(f"{span.file.path.rpartition('/')[2]}:{span.line}  {key[1] if key else ''}{text}")


_FORMULA = re.compile(r"[=+*/<>(-]")
"""What tells a formula from a name or a number."""
_QUOTED = 160
"""Characters of a formula that is quoted."""


def heading(k: Kernel) -> list[Stmt]:
    """The comments that name a kernel and its place in the model, and say what a contraction sums."""
    template = k.template
    where = f"  ({template.span})" if template.span is not NOWHERE else ""
    title = Remark(f"---- k{template.index}  {comment(f'{template.name}{where}')}")
    body = template.body
    return [title, Remark(comment(_formula(k, body.nest)))] if isinstance(body, l2.Contract) else [title]


def _formula(k: Kernel, nest: l2.Nest) -> str:
    """A sum and what follows it: `acc = sum over k of x * weight; y = relu(acc + bias)`."""

    def shown(e: Expr) -> str:
        return show(substitute(e, {n: Ref(k.namer.shown(n)) for n in refs(e)}))

    assert nest.term is not None
    steps = [(x.target, x.value) for x in nest.epilogue if isinstance(x, l2.Assign)]
    whole = f"sum over {', '.join(k.namer.shown(d.name) for d in nest.red)} of {shown(nest.term)}"
    if [value for _, value in steps] == [Ref(nest.acc)]:
        return f"{k.namer.shown(steps[0][0])} = {whole}"
    return "; ".join([f"{nest.acc} = {whole}", *(f"{k.namer.shown(y)} = {shown(value)}" for y, value in steps)])


def kernels_of(
    program: l2.Merged, dialect: Dialect, language: str, body: Callable[[Kernel], Sequence[Stmt]]
) -> tuple[list[list[Stmt]], Compiled]:
    """The comment, row structure and functions of each template, and their descriptors. Raises BackendError (E0903)."""
    blocks, made = list[list[Stmt]](), list[CompiledKernel]()
    for template in program.templates:
        try:
            k = open_kernel(template, dialect)
            statements = used(body(k))
            found = read(k, statements)
            blocks.append([*heading(k), row_struct(k, found), *statements])
            verify(k.function, blocks[-1], program.precision)
            made.append(compiled(k, found))
        except PrintError as e:
            raise no_text(template, language, e) from None
    return blocks, tuple(made)


def no_text(template: l2.Template, language: str, e: PrintError) -> BackendError:
    """E0903: a kernel that a target cannot express."""
    where = e.span if e.span is not NOWHERE else template.span
    at = f" ({where})" if where is not NOWHERE else ""
    return BackendError("E0903", f"`{template.name}` has no {language} text: {e.message}{at}")


def fixed_order(program: l2.Merged) -> bool:
    """Whether a*b+c must stay two operations (no contraction to FMA)."""
    return program.order is l2.Order.BITWISE or any(t.order is l2.Order.BITWISE for t in program.templates)


def refused(compiler: str, said: str, error: str, spans: Mapping[int, Span]) -> BackendError:
    """E0902: what the `compiler` said about a text, and the model line of the first line of it that has one; `error`:
    the pattern of an error, whose group 1 is the line."""
    matches = list(re.finditer(error, said))
    span = next((s for m in matches if (s := spans.get(int(m[1])))), None)
    first = said.rfind("\n", 0, matches[0].start()) + 1 if matches else 0  # warnings may stand before it
    where, shown = "" if span is None else f"; it comes from {span}", "\n".join(said[first:].strip().split("\n")[:12])
    return BackendError(
        "E0902",
        f"{compiler} refused the generated code{where}:\n{shown}",
        "this is a fault of the code generator unless the compiler's installation is broken: please report it",
    )
