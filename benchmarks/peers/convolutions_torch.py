"""One convolution in PyTorch on one thread, which is oneDNN's (see bench_cpu_convolutions.py).

Usage: convolutions_torch.py BATCH CHANNELS ROWS COLS FILTERS WINDOW PAD STRIDE GROUPS
prints one JSON object: CPU milliseconds of the forward pass, of the gradient of the input and of that of the weights;
each the median of several calls.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable

import torch


def measure(call: Callable[[], object], seconds: float = 0.5) -> float:
    """CPU milliseconds of a call: the median of three at least."""
    call()
    times: list[float] = []
    while len(times) < 3 or sum(times) < seconds:
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return 1e3 * statistics.median(times)


def main() -> None:
    batch, channels, rows, cols, filters, window, pad, stride, groups = map(int, sys.argv[1:])
    torch.set_num_threads(1)
    torch.manual_seed(1)
    x = torch.randn(batch, channels, rows, cols)
    w = torch.randn(filters, channels // groups, window, window)
    strides, pads = [stride, stride], [pad, pad]
    with torch.no_grad():
        y = torch.nn.functional.conv2d(x, w, None, strides, pads, 1, groups)

        def back(image: bool) -> object:
            mask = [image, not image, False]
            return torch.ops.aten.convolution_backward(
                y, x, w, None, strides, pads, [1, 1], False, [0, 0], groups, mask
            )

        found = {
            "forward": measure(lambda: torch.nn.functional.conv2d(x, w, None, strides, pads, 1, groups)),
            "to input": measure(lambda: back(True)),
            "to weights": measure(lambda: back(False)),
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
