"""Builders of ONNX graphs and of imported models; the package onnx is not required."""
