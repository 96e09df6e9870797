"""`netloom init`: writes a small commented model to start from, or one that fits given data.

Assumes: the starters, data and schema that are installed with the compiler (compiler/core/resources.py).
Guarantees: the texts are legal models that run at once (tests/unit/test_init.py and tests/wheel run them); nothing is
written when the model cannot be.
Does not: write over a file.
"""

from __future__ import annotations

import re
from pathlib import Path
from types import MappingProxyType
from typing import Final

import typer

from compiler.core.diagnostics import RunError
from compiler.core.disk import write_bytes, write_text
from compiler.core.resources import data_path, schema_path, starters_path

KINDS: Final = ("spiking", "e_i", "stdp", "mlp", "cnn", "text", "autoencoder")
OTHER_NAMES: Final = MappingProxyType({"network": "mlp"})
IGNORED: Final = "build/\nruns/\n"
"""The .gitignore: everything that can be generated."""


def list_kinds() -> None:
    """Print the starters with their descriptions."""
    for kind in KINDS:
        found = re.search(r"^description: (.+)$", starter(kind), re.MULTILINE)
        typer.echo(f"{kind:<12} {found[1] if found else ''}")


def starter(kind: str) -> str:
    """The text of a starter as it is installed."""
    return (starters_path() / f"{OTHER_NAMES.get(kind, kind)}.yaml").read_text(encoding="utf-8")


def model_text(text: str, name: str) -> str:
    """A starter with another name. Its first line tells editors where the schema of this version is."""
    schema = (schema_path() / "model.schema.json").absolute().as_uri()
    text = re.sub(r"\A# yaml-language-server.*", lambda _: f"# yaml-language-server: $schema={schema}", text)
    return re.sub(r"^name: .*$", f"name: {name}", text, count=1, flags=re.MULTILINE)


def model_file(file: Path) -> Path:
    """`file` with the suffix .yaml, which is added where there is none. Raises RunError (E0912, exit 2) where it has
    another."""
    if file.suffix in (".yaml", ".yml"):
        return file
    if not file.name:
        raise RunError("E0912", f"`{file}` is a folder", "write `netloom init model.yaml`")
    named = file.with_name(f"{file.name}.yaml")
    if file.suffix:
        raise RunError("E0912", f"`{file}` does not end in .yaml", f"write `netloom init {named}`")
    return named


def write_model(file: Path, kind: str, source: Path | None = None) -> None:
    """Write the starter of a kind, with the data that it reads, or a model for the data `source`; a .gitignore beside
    it. Raises RunError (E0911, E0912, E0917, exit 2) when the model exists, or other data have the name of its own, or
    `source` holds nothing to learn; nothing is written then."""
    file = model_file(file)
    if file.exists():
        raise RunError("E0911", f"`{file}` exists", "choose another name")
    if source is None:
        text = starter(kind)
        found = re.search(r"^    file: (\S+)", text, re.MULTILINE)
        own = found[1] if found else None
    else:
        from compiler.cli.actions.fitting import fitting_model

        text, own = fitting_model(source, file.parent), None
    content = data_path(own).read_bytes() if own is not None else b""
    data = file.with_name(own) if own is not None else None
    if data is not None and data.exists() and data.read_bytes() != content:
        message = f"`{data}` exists and holds other data than those of this model"
        raise RunError("E0911", message, "write the model into another folder")
    name = "".join(c if c.isascii() and c.isalnum() else "_" for c in file.stem)
    name = f"m{name}" if not name[:1].isalpha() or name.lower() in ("null", "true", "false") else name
    written = [file.name]
    if data is not None and not data.exists():
        write_bytes(data, content, "the data of the model")
        written.append(data.name)
    try:
        write_text(file, model_text(text, name), "the model")
    except RunError:
        for other in written[1:]:
            file.with_name(other).unlink(missing_ok=True)
        raise
    ignored = file.with_name(".gitignore")
    if not ignored.exists():
        write_text(ignored, IGNORED, "what git ignores")
        written.append(ignored.name)
    beside = f" (beside it {' and '.join(written[1:])})" if written[1:] else ""
    typer.echo(f"{file} written{beside}; run it with: netloom run {file}")
