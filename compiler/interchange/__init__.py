"""Files that other programs read and write: weights in safetensors, networks in ONNX."""
