"""Folders of images, one sub-folder for each class, through Pillow (extra `images`): the arrays `images` and `labels`.

Assumes: nothing.
Guarantees: classes are the names of the sub-folders in the order of their code points, samples go by class, then by
file name; `images` is (samples, channels, height, width) uint8, `labels` (samples,) the number of the class; what is
wrong with a folder is a ValueError or OSError with one line of text that names the file. That all images have one size
is checked once, and again when the size or modification time of a file changes.
Does not: resize, turn (EXIF), or convert colours: images have one size and are all grayscale or all RGB.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from compiler.core.cache import cache_folder, find_value, keep_value
from compiler.core.diagnostics import RunError

IMAGES: Final = "images"
LABELS: Final = "labels"
SUFFIXES: Final = (".png", ".jpg", ".jpeg")
_CHANNELS: Final = {"L": 1, "RGB": 3}

Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Listing:
    """`files` (class/name, counted from `folder`) and the number of the class of each."""

    folder: Path
    classes: tuple[str, ...]
    files: tuple[str, ...]
    labels: tuple[int, ...]


def listing(folder: Path) -> Listing:
    """The images of a folder; names that begin with a dot are skipped. Raises OSError, ValueError."""
    inside = sorted(p for p in folder.iterdir() if not p.name.startswith("."))
    classes = [p for p in inside if p.is_dir()]
    stray = next((p for p in inside if p not in classes and p.suffix.lower() in SUFFIXES), None)
    if stray is not None:
        raise ValueError(f"`{stray.name}` lies in no sub-folder, which would be its class")
    if not classes:
        raise ValueError("it has no sub-folders, one for each class")
    files: list[str] = []
    labels: list[int] = []
    for number, place in enumerate(classes):
        names = sorted(p.name for p in place.iterdir() if not p.name.startswith("."))
        other = next((n for n in names if not n.lower().endswith(SUFFIXES)), None)
        if other is not None:
            raise ValueError(f"`{place.name}/{other}` is no image ({', '.join(SUFFIXES)})")
        if not names:
            raise ValueError(f"the class `{place.name}` has no images")
        files += (f"{place.name}/{name}" for name in names)
        labels += [number] * len(names)
    return Listing(folder, tuple(p.name for p in classes), tuple(files), tuple(labels))


def _opened(listed: Listing, name: str) -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise ValueError("reading it needs Pillow: install the extra `images`") from None
    try:
        return Image.open(listed.folder / name)
    except Image.DecompressionBombError as error:
        raise ValueError(f"`{name}`: {error}") from None
    except OSError as error:  # its message would repeat the whole path
        reason = error.strerror or "it is no image that Pillow knows"
        raise ValueError(f"`{name}`: {reason}") from None


def _shape(image: Any, name: str) -> Shape:
    if image.mode not in _CHANNELS:
        raise ValueError(f"`{name}` has the mode {image.mode}: images are grayscale (L) or RGB, of 8 bits")
    return _CHANNELS[image.mode], image.height, image.width


def _shown(shape: Shape) -> str:
    return f"{'grayscale' if shape[0] == 1 else 'RGB'}, {shape[2]} x {shape[1]}"


def _same(shape: Shape, wanted: Shape, listed: Listing, name: str) -> None:
    if shape != wanted:
        raise ValueError(f"`{name}` is {_shown(shape)}, but `{listed.files[0]}` {_shown(wanted)}")


def shape_of(listed: Listing, every: bool = False) -> Shape:
    """Channels, height and width of the first image; with `every`, of all of them. Raises ValueError."""
    wanted: Shape | None = None
    for name in listed.files if every else listed.files[:1]:
        with _opened(listed, name) as image:
            shape = _shape(image, name)
        wanted = wanted or shape
        _same(shape, wanted, listed, name)
    assert wanted is not None
    return wanted


def decode(listed: Listing, numbers: Iterable[int], wanted: Shape) -> npt.NDArray[np.uint8]:
    """(samples, channels, height, width) of the samples of these numbers. Raises ValueError."""
    chosen = list(numbers)
    out = np.empty((len(chosen), *wanted), np.uint8)
    for k, number in enumerate(chosen):
        name = listed.files[number]
        with _opened(listed, name) as image:
            _same(_shape(image, name), wanted, listed, name)
            try:
                pixels = np.asarray(image)
            except (OSError, SyntaxError, ValueError) as error:  # Pillow reports broken PNG files as SyntaxError
                raise ValueError(f"`{name}` is broken: {' '.join(str(error).split())}") from None
        out[k] = pixels.reshape(wanted[1], wanted[2], wanted[0]).transpose(2, 0, 1)
    return out


def image_headers(folder: Path, every: bool = True) -> dict[str, tuple[tuple[int, ...], str, str]]:
    """Shape, kind and type of both arrays; the header of every image, or of the first, is read. Raises OSError,
    ValueError."""
    listed = listing(folder)
    count = len(listed.files)
    shape = _known_shape(listed) if every else shape_of(listed)
    return {IMAGES: ((count, *shape), "u", "uint8"), LABELS: ((count,), "i", "int64")}


def _known_shape(listed: Listing) -> Shape:
    """`shape_of` every image, which is kept in the cache folder."""
    digest = hashlib.sha256(str(listed.folder.resolve()).encode())
    for name in listed.files:
        state = (listed.folder / name).stat()
        digest.update(f"{name}\0{state.st_size}\0{state.st_mtime_ns}\0".encode())
    note = cache_folder() / "images" / f"{digest.hexdigest()}.json"
    if (known := find_value(note)) is not None:
        channels, height, width = known["shape"]
        return channels, height, width
    shape = shape_of(listed, every=True)
    with contextlib.suppress(RunError):  # without a writable cache the sizes are read every time
        keep_value(note, {"shape": list(shape)})
    return shape


def read_images(folder: Path, name: str) -> npt.NDArray[Any]:
    """`images` or `labels`. Raises OSError, ValueError."""
    listed = listing(folder)
    if name == LABELS:
        return np.array(listed.labels, np.int64)
    if name != IMAGES:
        raise ValueError(f"it has no array `{name}`")
    return decode(listed, range(len(listed.files)), shape_of(listed))
