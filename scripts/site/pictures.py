"""Which pictures are made for the site, and when: again only when what they show has changed.

Assumes: scripts/site/figures.py draws the library; tutorials name pictures as `../generated/<model>/<plot>`.
Guarantees: every picture that a page names below generated/ is there. A picture depends on the text of its model and on
the code of the compiler, by a digest beside it.
Does not: write outside the folder of the sources.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import netloom
from scripts.follow import blocks
from scripts.site import figures, gallery
from scripts.site.library import KINDS, LIBRARY, ROOT, definitions

NAMED = re.compile(r"\]\(\.\./generated/([\w-]+)/([\w-]+\.(?:svg|png))\)")


def draw(sources: Path) -> None:
    """All pictures, into <sources>/generated."""
    for kind in KINDS:
        names = [d.name for d in definitions(kind)]
        texts = [p.read_text("utf-8") for p in sorted((LIBRARY / kind).glob("*.yaml"))]
        folder = sources / "generated" / kind
        _when_changed(folder, texts, lambda kind=kind, names=names, folder=folder: _of_library(kind, names, folder))
    for name in gallery.names():
        folder = sources / "generated" / name
        text = (ROOT / "models" / f"{name}.yaml").read_text("utf-8")
        _when_changed(folder, [text], lambda name=name, folder=folder: gallery.draw(name, folder))
    for page in sorted((ROOT / "docs" / "tutorials").glob("*.md")):
        _of_tutorial(page, sources / "generated")


def _of_library(kind: str, names: list[str], folder: Path) -> None:
    getattr(figures, kind)(names, folder)


def _of_tutorial(page: Path, folder: Path) -> None:
    """The plots of the models of a page; of a page without models in files, what its Python draws."""
    text = page.read_text("utf-8")
    shown = list(blocks(page))
    for name, file in NAMED.findall(text):
        if name == page.stem:
            _when_changed(folder / name, [text], lambda name=name: _of_python(page, folder / name))
            continue
        models = [b.text for b in shown if b.language == "yaml" and f"\nname: {name}\n" in b.text]
        if not models:
            raise figures.Missing(f"{page}: no model is called {name}")
        _when_changed(
            folder / name, models[:1], lambda name=name, m=models[0], file=file: _plots(m, folder / name, file)
        )


def _of_python(page: Path, folder: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        code = (
            "import sys; from pathlib import Path; from scripts.follow import follow; follow(*map(Path, sys.argv[1:]))"
        )
        subprocess.run([sys.executable, "-c", code, str(page), name], cwd=ROOT, check=True)
        for path in Path(name).glob("*.png"):
            shutil.copyfile(path, folder / path.name)


def _plots(text: str, folder: Path, file: str, **options: Any) -> None:
    """Run a model, and keep its plots."""
    with tempfile.TemporaryDirectory() as name:
        netloom.load(text, folder=ROOT / "models" / "data").run(out=f"{name}/run", plots=True, **options)
        for path in (Path(name) / "run" / "plots").glob("*.svg"):
            shutil.copyfile(path, folder / path.name)
    if not (folder / file).exists():
        raise figures.Missing(f"{folder.name} draws no {file}")


def _when_changed(folder: Path, texts: Iterable[str], make: Callable[[], None]) -> None:
    digest = hashlib.sha256("\0".join([_code(), *texts]).encode()).hexdigest()
    stamp = folder / ".digest"
    if stamp.exists() and stamp.read_text("utf-8") == digest:
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    make()
    stamp.write_text(digest, encoding="utf-8")


def _code() -> str:
    """What pictures depend on beside their models."""
    return "\0".join((ROOT / "scripts" / "site" / f).read_text("utf-8") for f in ("figures.py", "gallery.py"))
