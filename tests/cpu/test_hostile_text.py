"""Untrusted names, paths and descriptions: they cannot change the compiled code."""

from __future__ import annotations

import keyword
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file

from backends.c_family.source_map import comment
from backends.cpu.emit.emit import emit
from backends.cuda.emit.compile import compile_text
from backends.cuda.emit.emit import emit as emit_cuda
from backends.registry import backend
from compiler.core.yaml_text import quoted
from compiler.frontend.load import load_model, name_of
from compiler.interchange.onnx.import_file import import_file
from compiler.ir.level2.program import Merged
from compiler.passes.pipeline.lower import lower
from compiler.runtime.artifacts.expanded import expanded_yaml
from tests.construct_runs import compare, results

pytestmark = pytest.mark.usefixtures("cc", "not_optimized")

STATE_TEXT = """
    INT64_MAX NULL int class ctx self real rows lo hi last step_ unix linux i386 malloc free qsort y0 jn signbit
    wchar_t alignas threadIdx blockDim warpSize float4 dim3 nl_run NL_FN nl_exp_f32 NL_CHUNK nl_i64 I EOF errno
    restrict typeof main asm _ template operator static_cast co_await requires constexpr bool true_ uint8_t size_t
    register volatile half printf stdout assert max fmaxf __syncthreads __shared__ __LINE__ v v_ v_p v_p_ i_ a__b
    """
NAMES = [n for n in STATE_TEXT.split() if n[0].isalpha() and not keyword.iskeyword(n)]
STEMS = ("auto", "define", "include", "INT32_MIN", "decltype", "nullptr", "export", "inline", "far", "near", "min")
HOSTILE = (
    "*/",
    "*\\\n",
    "*??/\n",
    "a // b\\",
    "'\"`$(touch ran)\n#error ran\n#include <ran>",
    "\x01 0\x02",
    "{{ 1/0 }}{% raw %}",
    "%s%n%d {0}",
    "\u202e\u2028\u0085é\x7f\x1b[31m\r\x0c",
    "-o",
    "??=error",
)


def names_model() -> str:
    """Neurons, synapses and functions with names that are reserved in a compiler or a header."""
    updates = ", ".join(f"{n} = 0.5 * {n} + {number} * exp(-x)" for number, n in enumerate(NAMES))
    params = ", ".join(f'"{n}": {number}' for number, n in enumerate(STEMS))
    total = " + ".join(STEMS)
    return f"""\
language: 1
name: names
functions:
  printf(int): exp(-int) + 1
neurons:
  struct:
    params: {{{params}}}
    state: {{x: {{uniform: {{low: 0, high: 1}}}}, {", ".join(f'"{n}": 0' for n in NAMES)}}}
    inputs: {{volatile_: {{}}, switch: {{decay: 3 ms}}}}
    let: {{NAN: 0.01 * ({total}), INFINITY: printf(x)}}
    update: [{updates}, EOF_ = 2 * x, x = 0.9 * x + 0.2 * random() + 0.01 * switch + 0.001 * NAN + 0 * INFINITY]
    spike: {{when: x > 0.9, reset: [x = 0, int = INT64_MAX + 1]}}
synapses:
  union:
    state: {{INT64_MAX: 0.1, unsigned: 0}}
    on_pre: [unsigned = unsigned + 1, INT64_MAX = INT64_MAX + 0.1 * pre.threadIdx / 1000, deliver(INT64_MAX)]
    on_post: [unsigned = unsigned * 0.5]
populations: {{auto: {{neuron: struct, size: 20}}, "NULL": {{neuron: struct, size: 7}}}}
projections:
  namespace: {{from: auto, to: "NULL", connect: {{fixed_probability: {{p: 0.5}}}}, synapse: union,
              deliver: {{into: switch}}, delay: 1 ms}}
record: [{{spikes: {{from: all}}}}, {{trace: {{from: auto, variables: [x, INT64_MAX, "NULL"], members: all}}}}]
simulate: {{dt: 1 ms, duration: 30 ms, seed: 3}}
numerics: {{order: bitwise}}
"""


def merged(path: Path, target: str) -> Merged:
    return lower(load_model(path), backend(target).capabilities).merged


def test_names_of_c_are_names_of_the_user(tmp_path: Path) -> None:
    path = tmp_path / "names.yaml"
    path.write_text(names_model())
    ours, theirs = (results(load_model(path), tmp_path, target) for target in ("cpu", "reference"))
    compare("names", ours, theirs)


@pytest.mark.nvrtc
def test_names_of_cuda_are_names_of_the_user(tmp_path: Path) -> None:
    path = tmp_path / "names.yaml"
    path.write_text(names_model())
    artifact = compile_text(emit_cuda(merged(path, "cuda")), "names", True, "sm_90")
    assert artifact.binary.read_bytes().startswith(b"\x7fELF")


def code_only(text: str) -> str:
    """The text after the first translation phases: trigraphs replaced, lines spliced, then comments removed, in the
    order of the standard."""
    text = text.replace("??/", "\\").replace("??=", "#").replace("\\\n", "")
    parts = r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\""
    return re.sub(parts, lambda m: m[0] if m[0][0] == '"' else " ", text, flags=re.DOTALL)


@given(st.text(max_size=600) | st.text(alphabet="*/\\?\n\r =#\x01", max_size=40))
def test_no_text_leaves_its_comment(text: str) -> None:
    shown = comment(text)
    assert shown.isascii() and shown.isprintable()
    for around in ("/* {} */ x", "/* a: {}\n\n   b */ x", "/*{}*/ x"):
        assert code_only(around.replace("{}", shown)) == "  x"


@pytest.mark.parametrize("hostile", HOSTILE)
def test_paths_and_descriptions(tmp_path: Path, hostile: str) -> None:
    """The C and CUDA texts differ in comments only, and the C text builds and runs."""
    text = f"""\
language: 1
description: {quoted(hostile)}
neurons:
  n: {{description: {quoted(hostile)}, state: {{v: 0}}, update: [v = v + 0.1], spike: {{when: v > 1, reset: [v = 0]}}}}
populations: {{a: {{neuron: n, size: 3}}}}
simulate: {{dt: 1 ms, duration: 20 ms}}
record: [{{spikes: {{from: a}}}}]
"""
    folder, plain = tmp_path / hostile.replace("/", "\u2215"), tmp_path / "plain"
    # a folder's name ends where `/` stands: `*\` newline `/` is a way to end a comment
    folder.mkdir()
    plain.mkdir()
    path, other = folder / f"system(1); {hostile.replace('/', '_')}.yaml", plain / "m.yaml"
    path.write_text(text)
    other.write_text(text)
    model = load_model(path)
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]*", model.name)
    for target, emitter in (("cpu", emit), ("cuda", emit_cuda)):
        texts = [emitter(merged(p, target)).text for p in (path, other)]
        assert texts[0].isascii() and "system(1)" in texts[0]
        assert code_only(texts[0]) == code_only(texts[1]) and "system" not in code_only(texts[0])
    found = results(model, tmp_path, "cpu")
    assert len(found["a'spikes'record"]) == 6


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_what_is_quoted_is_read_back(text: str) -> None:
    assert quoted(text).isprintable()
    assert yaml.safe_load(f"[{quoted(text)}, 1]") == [text, 1]


def test_the_expanded_model_is_read_back(tmp_path: Path) -> None:
    """A run's model.yaml, which `predict` and `--resume` read."""
    text = "".join(HOSTILE)
    path = tmp_path / "m.yaml"
    shape = "network: {inputs: {x: {shape: [2]}}, layers: [dense: {units: 1}]}"
    path.write_text(f"language: 1\ndescription: {quoted(text)}\nx-note: two\n\n  lines\n{shape}\n", encoding="utf-8")
    again = tmp_path / "again.yaml"
    again.write_text(expanded_yaml(path, {}), encoding="utf-8")
    assert load_model(again).description == load_model(path).description == text.strip()


def test_names_of_onnx_graphs(tmp_path: Path) -> None:
    """Names of files, graphs, nodes and tensors: the model that is written holds none of them but as a word."""
    onnx = pytest.importorskip("onnx")
    evil = "x\n*/ }: {{ 1 }} \"' # \\"
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    weight = onnx.numpy_helper.from_array(np.ones((4, 3), np.float32), f"w{evil}")
    nodes = [
        helper.make_node("MatMul", [f"in{evil}", f"w{evil}"], [f"y{evil}"], name=f"node{evil}", doc_string=evil),
        helper.make_node("Relu", [f"y{evil}"], [f"out{evil}"], name="INT64_MAX"),
    ]
    ends = [helper.make_tensor_value_info(f"{n}{evil}", kind, ["N", k]) for n, k in (("in", 4), ("out", 3))]
    graph = helper.make_graph(nodes, f"graph{evil}", ends[:1], ends[1:], [weight], doc_string=evil)
    model = helper.make_model(graph, producer_name=evil, opset_imports=[helper.make_opsetid("", 17)])
    source, out = tmp_path / "*e'\n}: \"#.onnx", tmp_path / "*m'\"#{x}.yaml"
    onnx.save(model, source)
    imported = import_file(source, out)
    assert imported.layers > 0 and load_model(out, unread=frozenset({"weights"})).network is not None
    assert all(re.fullmatch(r"[\w.]+", n) for n in load_file(imported.weights))


@pytest.mark.parametrize("stem", ["..", "-x", "a b", "*", "$(x)", "é", "x" * 200, ".hidden", "a'b"])
def test_the_name_of_a_file_becomes_a_plain_one(stem: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,100}", name_of(Path("/tmp") / f"{stem}.yaml"))


def test_plain_names_of_files_stay() -> None:
    assert name_of(Path("a/2d_model-b.v2.yaml")) == "2d_model-b.v2"
