"""Layers of networks: a file a family."""
