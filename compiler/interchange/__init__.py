"""Interchange formats: weights in safetensors, networks in ONNX."""
