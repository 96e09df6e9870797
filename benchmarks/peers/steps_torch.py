"""Training steps in PyTorch, on a GPU or on one thread of a core (gpu_training.py)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

Maker = Callable[[bool], torch.optim.Optimizer]
"""Whether steps are captured -> the optimizer."""


def torch_steps(
    model: nn.Module, make_optimizer: Maker, samples: np.ndarray, labels: np.ndarray, batch: int, captured: bool
) -> tuple[Callable[[int], float], Callable[[], float]]:
    """(run steps and wait, last loss), with everything on the device of the module; samples of uint8 are divided by
    255; `captured`: a step is one CUDA graph."""
    torch.manual_seed(1)
    device = next(model.parameters()).device
    words = samples.dtype == np.int32
    scale = 255 if samples.dtype == np.uint8 else 1
    x = torch.from_numpy(samples.astype(np.int64) if words else samples.astype(np.float32) / scale).to(device)
    y = torch.from_numpy(labels.astype(np.int64)).to(device)
    optimizer = make_optimizer(captured)
    loss_of = nn.CrossEntropyLoss()
    order = torch.randperm(len(x), device=device).reshape(-1, batch)
    chosen = order[0].clone()
    last = torch.zeros((), device=device)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        scores, right = model(x[chosen]), y[chosen]  # scores of all steps of a sequence are rows
        loss = loss_of(scores, right.flatten() if scores.dim() == 2 else right)
        loss.backward()
        optimizer.step()
        last.copy_(loss.detach())

    once = _on_gpu(step, captured) if device.type == "cuda" else step
    done = 0

    def run(steps: int) -> float:
        nonlocal done
        begin = time.perf_counter()
        for _ in range(steps):
            chosen.copy_(order[done % len(order)])
            once()
            done += 1
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - begin

    return run, lambda: float(last)


def _on_gpu(step: Callable[[], None], captured: bool) -> Callable[[], Any]:
    """A step after some of them, on a GPU."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):
            step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    if not captured:
        return step
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    replay: Callable[[], Any] = graph.replay
    return replay
