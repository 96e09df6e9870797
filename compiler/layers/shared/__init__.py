"""Shared by the families of layers."""
