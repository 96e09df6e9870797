"""The single definition of the language, from which validator, JSON Schema and reference are generated.

compiler/expr/keys is the vocabulary; spiking/neurons.py, spiking/populations.py, spiking/connections.py,
network.py, training/training.py and run.py are the parts, root.py the whole.
"""

from compiler.frontend.language.root import ROOT

__all__ = ["ROOT"]
