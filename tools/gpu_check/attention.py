#!/usr/bin/env python3
"""Attention of the engine beside PyTorch's kernels, at the shapes that `meshwright calibrate` measures.

  attention.py PROFILE [FILE]   PROFILE: of a GPU, as calibrate wrote it. One line for each shape and
                                direction: name, our seconds, the fastest of PyTorch's and its name,
                                TFLOP/s of ours. Without PyTorch "-" where its numbers are.
FLOPs are the simulator's, the same for both sides: only seconds are compared.
"""
import json
import sys

# tools/measure/gpu_rates.cpp, GpuRates::attention: sequence and width of a head, causal, 16 heads.
MEASURED = [(128, 64), (256, 64), (512, 64), (1024, 64), (2048, 128), (4096, 128), (8192, 128)]
HEADS = 16
COMPARED = (1024, 2048, 4096, 8192)


def our_seconds(profile):
    """(sequence, width, batch, {direction: (seconds, FLOP/s)}) of each shape that was measured."""
    gpu, efficiency = profile["gpu"], profile["efficiency"]
    peak = gpu["peak_flop_per_s"].get("bf16") or gpu["peak_flop_per_s"]["fp16"]
    curves = {"forward": efficiency["attention"], "backward": efficiency["attention_backward"]}
    for i, (sequence, width) in enumerate(MEASURED):
        if sequence not in COMPARED or any(i >= len(curve) for curve in curves.values()):
            continue
        batch = max(1, int(gpu["sm_count"]) * 4 * 128 // (HEADS * sequence))
        found = {}
        for direction, curve in curves.items():
            flops_of_head, share = curve[i]
            found[direction] = (flops_of_head * HEADS * batch / (share * peak), share * peak)
        yield sequence, width, batch, found


def timed(torch, run, until=0.2):
    """Median seconds of run(), by the device's clock."""
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    run()
    end.record()
    torch.cuda.synchronize()
    times = []
    for _ in range(max(5, min(100, int(until * 1e3 / max(begin.elapsed_time(end), 1e-3))))):
        begin.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / 1e3)
    return sorted(times)[len(times) // 2]


def their_seconds(torch, sequence, width, batch, half):
    """{direction: (seconds, backend)} of the fastest backend that takes the shape; {}: none does."""
    from torch.nn import attention
    from torch.nn.functional import scaled_dot_product_attention

    best = {}
    for name in ("FLASH_ATTENTION", "CUDNN_ATTENTION"):
        backend = getattr(attention.SDPBackend, name, None)
        if backend is None:
            continue
        shape = (batch, HEADS, sequence, width)
        q, k, v = (torch.randn(shape, device="cuda", dtype=half, requires_grad=True)
                   for _ in range(3))
        try:
            with attention.sdpa_kernel(backend):
                y = scaled_dot_product_attention(q, k, v, is_causal=True)
                gradient = torch.randn_like(y)
                with torch.no_grad():
                    forward = timed(
                        torch, lambda: scaled_dot_product_attention(q, k, v, is_causal=True))
                backward = timed(torch, lambda: torch.autograd.grad(
                    y, (q, k, v), gradient, retain_graph=True))
        except RuntimeError as error:
            print(f"{name} {shape}: {error}", file=sys.stderr)
            continue
        for direction, seconds in (("forward", forward), ("backward", backward)):
            if direction not in best or seconds < best[direction][0]:
                best[direction] = (seconds, name.split("_")[0].lower())
    return best


def main():
    with open(sys.argv[1]) as file:
        profile = json.load(file)
    try:
        import torch
        if not torch.cuda.is_available():
            torch = None
    except ImportError:
        torch = None
    out = open(sys.argv[2], "w") if len(sys.argv) > 2 else sys.stdout
    for sequence, width, batch, ours in our_seconds(profile):
        theirs = {}
        if torch is not None:
            half = torch.bfloat16 if torch.cuda.get_device_capability()[0] >= 8 else torch.float16
            theirs = their_seconds(torch, sequence, width, batch, half)
        for direction, (seconds, flop_per_s) in ours.items():
            fastest, name = theirs.get(direction, ("-", "-"))
            print(f"{sequence}.{direction}", seconds, fastest, name, f"{flop_per_s / 1e12:.4g}",
                  file=out, flush=True)


if __name__ == "__main__":
    main()
