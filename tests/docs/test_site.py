"""What the site is put together from: every page is in a list of contents, every link between pages leads somewhere,
and the reference by topic is all of docs/reference.md."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

import pytest

from scripts.site import gallery, library, reference

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = (ROOT / "docs" / "reference.md").read_text("utf-8")


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    """By path: the text of every page, generated ones included."""
    written = {p.relative_to(ROOT / "docs").as_posix(): p.read_text("utf-8") for p in (ROOT / "docs").rglob("*.md")}
    return written | library.pages() | gallery.pages() | reference.pages(REFERENCE)


def test_links_lead_somewhere(pages: dict[str, str]) -> None:
    for name, text in pages.items():
        for target in re.findall(r"\]\(([\w./-]+\.md)(?:#[\w-]+)?\)", text):
            path = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))
            assert path in pages or (path.startswith("../") and (ROOT / "docs" / path).exists()), f"{name}: {target}"


def test_pages_are_in_a_list_of_contents(pages: dict[str, str]) -> None:
    listed = {"index"}
    for name, text in pages.items():
        for inner in re.findall(r"^```\{toctree\}\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            entries = [line for line in inner.splitlines() if line and not line.startswith(":")]
            listed |= {posixpath.join(posixpath.dirname(name), entry) for entry in entries}
    assert listed == {name.removesuffix(".md") for name in pages}


def test_the_reference_by_topic_is_complete(pages: dict[str, str]) -> None:
    text = "".join(text for name, text in pages.items() if name.startswith("reference"))
    anchors = re.findall(r'<a id="(\w+)">', REFERENCE)
    assert sorted(anchors) == sorted(re.findall(r"^\((\w+)\)=$", text, re.MULTILINE))
    assert {a for a in re.findall(r"\]\(#(\w+)\)", text)} <= set(anchors)
    rows = [line for line in REFERENCE.splitlines() if line.startswith("| `")]
    assert len(rows) == len([line for line in text.splitlines() if line.startswith("| `")])


def test_every_model_is_in_the_gallery(pages: dict[str, str]) -> None:
    models = {p.stem for p in (ROOT / "models").glob("*.yaml")}
    assert {f"gallery/{m}.md" for m in models} <= pages.keys()
    assert set(gallery.RUNS) <= models
