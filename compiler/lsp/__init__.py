"""The language server: what an editor shows of a model file while it is written."""
