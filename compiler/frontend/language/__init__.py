"""The definition of the language, in one place: validator, JSON Schema and reference are made from
it.

kinds.py is the vocabulary, values.py what all parts share, spiking.py, tensors.py and run.py the
parts, root.py the whole.
"""

from compiler.frontend.language.root import ROOT

__all__ = ["ROOT"]
