"""Runs a kernel of an emitted CUDA text on threads of the host, one for each of its own, under sanitizers.

Assumes: a C++ compiler for Linux; a kernel of a chain, whose blocks wait for each other by nl_meet and by barriers of
clusters alone.
Guarantees: the text is compiled as it is, but for assembler. Asynchronous copies arrive at once, or as late as they
may.
Does not: say how long a kernel takes, or what a device's memory may reorder.
"""

from __future__ import annotations

import re
import struct
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
FIRST, APART = 1 << 28, 1 << 26
"""Where arenas begin, and bytes between two: sanitizers let memory be mapped there."""
_GUARD: Final = '#if __CUDA_ARCH__ >= 800\n    asm volatile("{}" ::{}"memory");\n#endif'
_REPLACED: Final = {
    "extern __shared__ __align__(16) char nl_chip[];": "char *const nl_chip = host_here->chip;",
    "*to = inside ? *from : (real)0;": "host_copy(to, inside ? from : nullptr, sizeof(real));",
    "*(nl_unit *)to = *(const nl_unit *)from;": "host_copy(to, from, 16);",
    "*(nl_four *)to = inside ? *(const nl_four *)from : nl_four{};": "host_copy(to, inside ? from : nullptr, 16);",
    _GUARD.format("cp.async.commit_group;", ": "): "host_commit();",
    _GUARD.format("cp.async.wait_all;", ": "): "host_wait(-1);",
    _GUARD.format("cp.async.wait_group %0;", '"n"(MANY) : '): "host_wait(MANY);",
    "while (*(volatile nl_u32 *)arrived < met) {}": "while (host_poll(arrived) < met) {}",
    'extern "C" {\n__constant__ nl_state nl_run;\n}': "static nl_state nl_run;",
}
_ASSEMBLER: Final = {
    re.compile(r'asm\("rcp\.approx\.ftz\.f32[^\n]*\n'): "r = 1.0f / y;\n",
    re.compile(r'asm\("cvt\.rna\.tf32\.f32[^\n]*\n'): "rounded = (__float_as_uint(x) + 0x1000u) & ~0x1fffu;\n",
    re.compile(r'asm\("mma\.sync\.aligned\.m16n8k8.*?;\n', re.DOTALL): "host_multiply(sum, a, b);\n",
    re.compile(r"NL_FN nl_u32 nl_shared\(.*?nl_meet_cluster\(\) \{.*?\n\}\n", re.DOTALL): "",
}
_CLUSTER: Final = re.compile(r"__cluster_dims__\((\d+), 1, 1\) [^\n]* (\w+)\(NL_ARGUMENTS\)")


@dataclass(frozen=True)
class Launched:
    """A launch of a kernel: what NL_ARGUMENTS has of it, and bytes of shared memory."""

    blocks: int
    threads: int
    table: int
    chunk: int
    memory: int
    shared: int


def built(folder: Path, text: str, kernel: str, sanitizers: str) -> Path:
    """A program that runs a kernel of the text; `sanitizers`: of the compiler (`thread`, `address,undefined`). Text
    without races is not optimized, which takes a third of the time and leaves every access in it."""
    for old, new in _REPLACED.items():
        assert old in text or kernel not in new + old, old
        text = text.replace(old, new)
    for pattern, new in _ASSEMBLER.items():
        text = pattern.sub(new, text)
    clusters = {name: blocks for blocks, name in _CLUSTER.findall(text)}
    begin, end = (f'#include "{HERE}/cuda_threads{x}.h"' for x in ("", ".main"))
    names = f"#define HOST_KERNEL {kernel}", f"#define HOST_CLUSTER {clusters.get(kernel, 1)}"
    (folder / "kernel.cpp").write_text("\n".join((begin, text, *names, end, "")))
    flags = [
        "-std=c++17",
        "-O1" if sanitizers == "thread" else "-O0",
        "-g",
        "-w",
        "-no-pie",
        "-pthread",
        f"-fsanitize={sanitizers}",
        "-fno-sanitize=alignment",
    ]
    done = subprocess.run(
        ["g++", *flags, "kernel.cpp", "-o", "kernel"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder / "kernel"


def run(program: Path, image: Path, launch: Launched, memory: Mapping[int, bytes], late: bool) -> dict[int, bytes]:
    """Memory by address after the launch, which sanitizers have nothing to say about."""
    words = launch.blocks, launch.threads, launch.table, launch.chunk, launch.memory, -(-launch.shared // 16) * 16
    parts = [struct.pack("<7q", len(memory), *words)]
    for at, content in memory.items():
        parts += [struct.pack("<2q", at, len(content)), content]
    image.write_bytes(b"".join(parts))
    surroundings = {
        "TSAN_OPTIONS": "halt_on_error=1",
        "ASAN_OPTIONS": "detect_leaks=0",
        "UBSAN_OPTIONS": "halt_on_error=1",
    }
    done = subprocess.run(
        [program, image, str(int(late))], env=surroundings, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    found, data, place = {}, image.read_bytes(), 56
    for at, content in memory.items():
        place += 16
        found[at] = data[place : place + len(content)]
        place += len(content)
    return found
