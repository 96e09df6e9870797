"""ONNX graphs while they are written and read; the package onnx is not needed for that."""
