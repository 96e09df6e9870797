"""Checks cases of mutations.py, and reports those that ended in anything but a model or a diagnostic.

`python -m tests.property.check_worker SEED FIRST LAST FOLDER [lower]`: cases FIRST .. LAST-1, in a folder of its own.
One line of JSON for each fault; one with the number of cases at the end. A case has SECONDS of CPU time, and the whole
process BYTES of memory more than it begins with; the process ends where a case has not ended in HANGS of wall time.
"""

from __future__ import annotations

import faulthandler
import json
import os
import resource
import sys
import time
import traceback
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path

from compiler.core.catalogue import CATALOGUE
from compiler.core.diagnostics import Diagnostic, ModelError
from compiler.core.render import render
from compiler.core.resources import library_path
from compiler.ir.level2.target import Capabilities
from compiler.passes.pipeline.lower import lower
from compiler.runtime.common.options import Options
from compiler.runtime.common.timing import Times
from compiler.runtime.prepare import load_checked, refuse_nothing_to_run
from compiler.verify.model import model_violations
from tests.property.mutations import ROOT, Case, case, seeds

SECONDS = 5.0
HANGS = 120.0
BYTES = 1 << 30
REFERENCE = Capabilities("reference", 0, True, frozenset())


def main() -> None:
    seed, first, last, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    lowered = "lower" in sys.argv[5:]
    warnings.simplefilter("error")
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (in_use + BYTES, in_use + BYTES))
    for number in range(first, last):
        made = case(number, seed)
        path = placed(made, folder)
        print(json.dumps({"begin": number}), flush=True)
        faulthandler.dump_traceback_later(HANGS, exit=True)
        start = time.process_time()
        fault = attempt(path, lowered)
        seconds = time.process_time() - start
        faulthandler.cancel_dump_traceback_later()
        if fault is None and seconds > SECONDS:
            fault = f"took {seconds:.1f} s"
        if fault is not None:
            print(json.dumps({"case": number, "seed": made.seed.name, "fault": fault}), flush=True)
    print(json.dumps({"done": last - first}), flush=True)


def placed(made: Case, folder: Path) -> Path:
    """The file of a case, in a folder from which the files that its seed names are found."""
    inside = folder / made.seed.parent.relative_to(ROOT)
    path = inside / "changed_model.yaml"
    if not path.exists():
        inside.mkdir(parents=True, exist_ok=True)
        for other in made.seed.parent.iterdir():
            holds_seeds = any(s.is_relative_to(other) for s in seeds()) and other.is_dir()  # the case goes there, too
            if not holds_seeds and not (inside / other.name).exists():
                (inside / other.name).symlink_to(other)
        data = folder / "tests" / "errors" / "data"
        if inside.parent == data.parent and not data.exists():
            data.symlink_to(ROOT / data.relative_to(folder))
    path.write_bytes(made.data)
    return path


def attempt(path: Path, lowered: bool) -> str | None:
    """Check a file as the command line does: None, or what was wrong about the way in which it ended."""
    try:
        try:
            model, found = load_checked(path, Options(), Times())
            for format in ("human", "short", "json"):
                render(found, format)
            if wrong := next(misplaced(found), None):
                return wrong
            if violations := model_violations(model):
                return f"an illegal model: {violations[0]}"
            if lowered:
                refuse_nothing_to_run(model)
                lower(model, REFERENCE)
        except ModelError as error:
            if not error.diagnostics:
                return "no diagnostic"
            if wrong := next(misplaced(error.diagnostics), None):
                return wrong
            for format in ("human", "short", "json"):
                render(error.diagnostics, format)
    except Exception as error:
        if type(error).__name__ in ("RunError", "BackendError"):
            return None
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"{type(error).__name__}: {str(error)[:300]} ({Path(where.filename).name}:{where.lineno})"
    return None


def misplaced(found: Iterable[Diagnostic]) -> Iterator[str]:
    """What is wrong with the code of a diagnostic, or with where it points."""
    for d in found:
        if d.code not in CATALOGUE:
            yield f"{d.code} is not documented: {d.message}"
        if d.file is None or d.line is None or d.column is None:
            yield f"{d.code} points nowhere: {d.message}"
            continue
        file = library_path().parent / d.file if d.file.startswith("library/") else Path(d.file)
        lines = file.read_bytes().decode("utf-8", "replace").splitlines() or [""]
        if not 1 <= d.line <= len(lines) + 1 or d.column < 1:
            yield f"{d.code} points to {d.line}:{d.column} of {len(lines)} lines: {d.message}"


if __name__ == "__main__":
    main()
