"""scripts/lines.py: which lines of a history count as added, and its table of what was."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from scripts.lines import KINDS, ROOT, SHORT, Added, Table, counted, folder_of, report, table


def test_the_table_names_files_that_there_are_once() -> None:
    named = table()
    commits = Counter(c for a in named.added for c in a.commits)
    assert commits and set(commits.values()) == {1} and {len(c) for c in commits} == {SHORT}
    assert {a.kind for a in named.added} == set(KINDS) and len({a.name for a in named.added}) == len(named.added)
    paths = [p for a in named.added for p in a.paths]
    assert not [p for p in paths if not (ROOT / p).exists() or (ROOT / p).is_dir() != p.endswith("/")]
    assert not [p for p in paths if sum(a.has(p) for a in named.added) != 1]


class History:
    """A repository of one's own, whose files are written commit by commit."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.git("init", "-q")

    def git(self, *words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        return subprocess.run(["git", *who, *words], cwd=self.root, check=True, capture_output=True, text=True).stdout

    def commit(self, **files: str) -> str:
        for name, text in files.items():
            path = self.root / "compiler" / name / "a.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.git("add", ".")
        self.git("commit", "-qm", "x")
        return self.git("rev-parse", "HEAD")[:SHORT]


def text(first: int, last: int) -> str:
    return "".join(f"def f{k}(): return {k * k + 7}\n" for k in range(first, last))


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path)


def test_lines_of_named_commits_and_files_are_apart(history: History) -> None:
    review = history.commit(old=text(0, 20))
    feature = history.commit(old=text(0, 26), new=text(100, 110))
    history.commit(old=text(0, 26) + text(50, 54), new=text(100, 110) + text(200, 203))  # no feature
    found = counted(
        history.root, Table(review, (Added("feature", "capability", (feature,), ("compiler/new/",)),)), "HEAD"
    )
    assert sum(found.before.values()) == 20 and sum(found.now.values()) == 43
    assert {f: n for (_, f), n in found.whole.items()} == {"compiler/new/a.py": 13}
    assert {f: n for (_, f), n in found.parts.items()} == {"compiler/old/a.py": 6}
    assert "of what stood: 24; without the files alone that are new: 30" in list(report(found))


def test_what_a_commit_rewrote_stays_with_what_stood(history: History) -> None:
    """It wrote ten lines in place of eight."""
    review = history.commit(old=text(0, 20))
    feature = history.commit(old=text(0, 12) + text(300, 310))
    found = counted(history.root, Table(review, (Added("feature", "speed", (feature,), ()),)), "HEAD")
    assert sum(found.parts.values()) == 2


def test_a_file_of_the_review_is_not_new(history: History) -> None:
    review = history.commit(old=text(0, 20))
    feature = history.commit(old=text(0, 30))
    with pytest.raises(ValueError, match="is not new: 20 of its 30 lines"):
        counted(history.root, Table(review, (Added("feature", "speed", (feature,), ("compiler/old/a.py",)),)), "HEAD")


def test_what_an_entry_lacks_is_named(history: History) -> None:
    review = history.commit(old=text(0, 20))
    with pytest.raises(ValueError, match="`feature` names the commit 12345678, which there is not"):
        counted(history.root, Table(review, (Added("feature", "speed", ("12345678",), ()),)), "HEAD")
    path = history.root / "table.toml"
    path.write_text(f'review = "{review}"\n[[added]]\nname = "feature"\nkind = "speed"\npaths = []\n')
    with pytest.raises(ValueError, match=r"entry 1 of the table \(feature\) lacks `commits`"):
        table(path)


def test_folders() -> None:
    assert folder_of("compiler/frontend/build/spiking/x.py") == "compiler/frontend/build"
    assert folder_of("backends/cuda/run/x.py") == "backends/cuda" and folder_of("backends/cache.py") == "backends"
