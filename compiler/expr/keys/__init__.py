"""The vocabulary in which keys of a model file are described."""
