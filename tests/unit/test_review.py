"""What a reviewer of an emitted text would ask to be left out: words that say nothing, names of what is used once."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from backends.cpu.backend import CpuBackend
from backends.cuda.run.backend import CudaBackend
from backends.kernel_ir.layout import WIDTH
from compiler.frontend.load import load_model
from compiler.passes.pipeline.lower import lower
from compiler.strategies.cost.devices import CORE

IDLE = {
    "a factor of 1": r"(?<!/)\* 1(?![\w.])|(?<![\w.)])1 \* ",
    "a sum from 0": r"\b0(LL)? \+ |\+ 0\b",
    "a sign behind an operator": r" [+-] -\d",
    "a cast of a literal to its own type": r"\(nl_i32\)\d",
    "a suffix beside what has 64 bits": r"\b(step|block) [-+*] \d+LL|[?:<>=]=? \d+LL|\b0LL",
    "a power that is not called after its factors": r"(constant|power)(_\d)? = nl_pow_\w+\(\w+, \(real\)step\)",
    "an index that is another one": r"const nl_i64 \w+ = r\d*;",
    "braces around one store in a loop": r"for \([^\n]*\) \{\n *[\w\[\]. +*]+ \+?= [^\n{}]*;\n *\}\n",
    "braces around a return or a store": r"^ *if \([^\n]*\) \{\n *(return|continue|[\w\[\]]+ = [^\n{}]*);\n *\}\n",
    "a function's brace in its own line": r"^[^\n ][^\n]*\)\n\{",
    "a head that is broken where it fits": r"for \((nl_i64|int) \w+ = [^\n;]*; [^\n;]*;\n *\w+(\+\+|[ ][+]= \w+)\)",
    "a normal that is drawn twice": r"nl_normal_of_f32\((words\S* ?\S* ?\S*), [^;]*nl_normal_of_f32\(\1,",
}
MODELS = ("lenet5", "stdp", "microcircuit")


@cache
def kernels(root: Path, name: str, target: str) -> str:
    model = load_model(root / "models" / f"{name}.yaml")
    if target == "cuda":
        text = CudaBackend().emit(lower(model, CudaBackend().capabilities).merged)
    else:
        text = CpuBackend().emit(lower(model, replace(CpuBackend().capabilities, device=CORE)).merged)
    return text[text.index("/* ==== kernels") :]


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("name", MODELS)
def test_kernels_say_nothing_idle(root: Path, name: str, target: str) -> None:
    text = kernels(root, name, target)
    found = {what: m[0] for what, pattern in IDLE.items() if (m := re.search(pattern, text, re.MULTILINE))}
    assert found == {}
    assert max(map(len, text.splitlines())) <= WIDTH


@pytest.mark.parametrize("name", MODELS)
def test_a_declaration_of_a_thread_is_read(root: Path, name: str) -> None:
    """Of the constants of a kernel's share, none is declared that nothing reads."""
    for kernel in re.split(r"^/\* ---- ", kernels(root, name, "cuda"), flags=re.MULTILINE)[1:]:
        body = kernel.partition("_row {")[2]
        for m in re.finditer(r"^ +const (?:real|nl_\w+|bool|int) (\w+) = ", body, re.MULTILINE):
            assert len(re.findall(rf"\b{m[1]}\b", body)) > 1, m[0]


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_a_kernel_names_its_line_and_operands_their_roles(root: Path, target: str) -> None:
    """Of losses, metrics and gradients, too; a weight is called so in the layer before it, whose gradient reads it."""
    text = kernels(root, "lenet5", target)
    titles = re.findall(r"^/\* ---- (k\d+  .*) \*/$", text, re.MULTILINE)
    assert len(titles) > 20 and all(re.search(r"\.yaml:\d+:\d+\)$", x) for x in titles)
    (loss,) = (x for x in re.split(r"(?m)^/\* ---- k\d+  ", text) if x.startswith("loss: sum"))
    assert {"mask_", "count_", "largest_", "picked_", "total_"} <= set(re.findall(r"(\w+_); /\*", loss))
    assert not re.search(r"\bx(_\d)?_; /\* (real )?\[[okc]\]\[[okc]\]", text)
