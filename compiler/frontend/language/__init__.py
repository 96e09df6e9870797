"""The definition of the language, in one place: validator, JSON Schema and reference are made from
it.

compiler/expr/keys is the vocabulary; spiking/neurons.py, spiking/populations.py, spiking/connections.py,
network.py, training/training.py and run.py are the parts, root.py the whole.
"""

from compiler.frontend.language.root import ROOT

__all__ = ["ROOT"]
