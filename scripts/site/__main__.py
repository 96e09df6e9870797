"""Build the site: `python -m scripts.site [FOLDER]` writes it into build/docs, or the folder that is named.

Assumes: the extra `docs`, a C compiler, a checkout.
Guarantees: the sources of all pages, generated ones included, stand in <FOLDER>-source; a warning of Sphinx is an
error.
Does not: write into docs/, or fetch anything.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

from scripts.site import gallery, library, pictures, reference

ROOT = Path(__file__).resolve().parents[2]


def main(arguments: list[str]) -> int:
    """Put the sources together, and call Sphinx."""
    site = Path(arguments[0]) if arguments else ROOT / "build" / "docs"
    sources = site.with_name(site.name + "-source")
    assemble(sources)
    pictures.draw(sources)
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-a", "-W", "--keep-going", "-q", str(sources), str(site)]
    code = subprocess.run(command, cwd=ROOT, check=False).returncode
    if code == 0:
        print(f"{site / 'index.html'}")
    return code


def assemble(sources: Path) -> None:
    """Write the sources of all pages. Equal files are left alone, so that Sphinx reads only what changed."""
    pages: dict[str, str] = {}
    for path in sorted((ROOT / "docs").rglob("*")):
        name = path.relative_to(ROOT / "docs").as_posix()
        if path.suffix == ".md" and name != "reference.md":
            pages[name] = _within(path.read_text(encoding="utf-8"))
        elif path.is_file() and path.suffix in (".svg", ".png", ".css", ".py") and "__pycache__" not in path.parts:
            (sources / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, sources / name)
    pages |= library.pages() | gallery.pages()
    pages |= reference.pages((ROOT / "docs" / "reference.md").read_text(encoding="utf-8"))
    for name, text in pages.items():
        _write(sources / name, text)
    for path in sources.rglob("*.md"):
        if path.relative_to(sources).as_posix() not in pages:
            path.unlink()


OUTSIDE = re.compile(r"\[[^\]]*\]\((?:\.\./)+((?:editors|models|tests|benchmarks|compiler)/[\w./-]+)\)")
"""Links that lead out of docs/; there is no page for them."""


def _within(text: str) -> str:
    return OUTSIDE.sub(r"`\1`", text)


def _write(path: Path, text: str) -> None:
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
