"""Writes text.npz, the characters of sentences of a small grammar, beside this file.

Assumes: nothing.
Guarantees: the same bytes on every run: raw output of Philox, which numpy promises to keep.
Does not: hold text of others.

Arrays: `characters` uint8 (1500, 32): 0 a space, 1 to 26 a to z, 27 a full stop; `next` the same, one character later.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from fixed_npz import write_npz

SUBJECTS = ("the cat", "a small dog", "the old sailor", "one bird", "my neighbour", "the queen")
VERBS = ("sees", "follows", "paints", "likes", "forgets")
OBJECTS = ("the river", "a green house", "the moon", "an apple", "the long road", "a letter")
LENGTH, SAMPLES = 32, 1500


def main() -> None:
    drawn = iter(np.random.Philox(key=1).random_raw(LENGTH * SAMPLES).tolist())
    text = ""
    while len(text) <= LENGTH * SAMPLES:
        text += " ".join(words[next(drawn) % len(words)] for words in (SUBJECTS, VERBS, OBJECTS)) + ". "
    codes = np.array([" abcdefghijklmnopqrstuvwxyz.".index(c) for c in text], np.uint8)
    shape = (SAMPLES, LENGTH)
    shifted = {"characters": codes[: LENGTH * SAMPLES], "next": codes[1 : LENGTH * SAMPLES + 1]}
    write_npz(Path(__file__).with_name("text.npz"), {name: values.reshape(shape) for name, values in shifted.items()})


if __name__ == "__main__":
    main()
