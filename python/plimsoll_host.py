# SPDX-License-Identifier: Apache-2.0
"""Times what Python and PyTorch's dispatcher cost this machine's host, for `plimsoll calibrate`.

python3 plimsoll_host.py DEVICE [SECONDS]: forward and backward passes of a small model of plain modules, whose kernels
are so short that the GPU waits for the host. Prints one line of JSON: the operations that launch a kernel and the
weights of a pass, and the host's seconds for each of many passes, forward and backward; or what is missing here.
"""

import json
import sys
import time


def missing(why):
    print(json.dumps({"missing": why}))
    sys.exit(0)


def make_model(torch, layers=16, width=128):
    nn = torch.nn

    class Norm(nn.Module):
        """As decoders have it: in fp32, operation by operation."""

        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(width))

        def forward(self, x):
            h = x.to(torch.float32)
            h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)
            return self.weight * h.to(x.dtype)

    class Mlp(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(width, width, bias=False)
            self.up = nn.Linear(width, width, bias=False)
            self.down = nn.Linear(width, width, bias=False)
            self.activation = nn.SiLU()

        def forward(self, x):
            return self.down(self.activation(self.gate(x)) * self.up(x))

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = Norm()
            self.mlp = Mlp()

        def forward(self, x):
            return x + self.mlp(self.norm(x))

    return nn.Sequential(*[Layer() for _ in range(layers)])


def launches_of(torch, step):
    """Operations that compute something; views and empty tensors launch nothing."""
    from torch.utils._python_dispatch import TorchDispatchMode
    silent = ("aten.detach", "aten.empty", "aten.t.", "aten.alias", "aten.as_strided", "aten.expand", "aten.view",
              "aten._unsafe_view", "aten.transpose", "aten.permute", "aten.reshape", "aten.unsqueeze", "aten.squeeze")

    class Count(TorchDispatchMode):
        launches = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if not str(func).startswith(silent):
                Count.launches += 1
            return func(*args, **(kwargs or {}))

    with Count():
        step()
    return Count.launches


def main():
    device = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    budget = float(sys.argv[2]) if len(sys.argv) > 2 else 3.0
    try:
        import torch
    except ImportError as error:
        missing("PyTorch is not installed for %s: %s" % (sys.executable, error))
    if not torch.cuda.is_available():
        missing("the PyTorch of %s sees no GPU" % sys.executable)
    torch.cuda.set_device(device)
    model = make_model(torch).cuda()
    x = torch.randn(16, 128, device="cuda")
    times = {"forward": [], "backward": []}

    def step(keep=False):
        model.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        start = time.perf_counter()
        loss = model(x).sum()
        middle = time.perf_counter()
        loss.backward()
        end = time.perf_counter()
        if keep:
            times["forward"].append(middle - start)
            times["backward"].append(end - middle)

    for _ in range(10):
        step()
    launches = launches_of(torch, step)
    until = time.perf_counter() + budget
    while time.perf_counter() < until and len(times["forward"]) < 500:
        step(keep=True)
    print(json.dumps({"torch": torch.__version__, "python": sys.version.split()[0], "launches": launches,
                      "weights": sum(1 for _ in model.parameters()), "forward_seconds": [round(t, 7) for t in times["forward"]],
                      "backward_seconds": [round(t, 7) for t in times["backward"]]}))


if __name__ == "__main__":
    main()
