#!/usr/bin/env python3
"""Records steps of small scripts on GPUs that are not there: python tests/own_models/rehearsals.py BUILD

The recorder runs as `meshwright rehearse` starts it. What is expected follows from the scripts by hand.
"""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

WIDTH, BATCH, LAYERS = 1024, 64, 3
PARAMETERS = LAYERS * WIDTH * WIDTH * 4   # bytes

HEAD = """
import os, torch, torch.distributed as dist
from torch import nn
WIDTH, BATCH, LAYERS = {}, {}, {}
def net():
    return nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS))).cuda()
def train(model, optimizer, steps=6):
    for _ in range(steps):
        x = torch.randn(BATCH, WIDTH, device="cuda")
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(loss.item())
def ranks():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    assert dist.get_world_size() == int(os.environ["WORLD_SIZE"])
""".format(WIDTH, BATCH, LAYERS)

SCRIPTS = {
    "plain": "model = net()\ntrain(model, torch.optim.AdamW(model.parameters()))",
    "every other": """
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(9):
    model(torch.randn(BATCH, WIDTH, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step in (1, 2):   # what the first timed steps do besides
        print(model[0].weight.sum().item())""",
    "few steps": "model = net()\ntrain(model, torch.optim.AdamW(model.parameters()), 2)",
    "too large": "torch.empty(1 << 40, device='cuda')",
    "exit": "import sys\nsys.exit(7)",
    "mistake": "raise KeyError('mine')",
    "replicas": """
ranks()
model = nn.parallel.DistributedDataParallel(net(), device_ids=[int(os.environ["LOCAL_RANK"])])
found = [None] * dist.get_world_size()
dist.all_gather_object(found, {"rank": dist.get_rank()})
assert len(found) == dist.get_world_size()
sizes = [torch.zeros(1, device="cuda") for _ in found]
dist.all_gather(sizes, torch.tensor([7.0], device="cuda"))
assert all(each.item() == 7 for each in sizes)   # small values arrive: each rank holds what this one does
train(model, torch.optim.SGD(model.parameters(), lr=0.1))""",
    "shards": """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
ranks()
mesh = init_device_mesh("cuda", (2, dist.get_world_size() // 2), mesh_dim_names=("replicas", "shards"))
model = net()
for layer in model:
    fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
train(model, torch.optim.AdamW(model.parameters(), fused=True))""",
    # Compute that needs the result of an asynchronous communication waits for it, whichever way the script asks
    # for that.
    "waits": """
import torch.distributed._functional_collectives as functional
ranks()
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
before = torch.zeros(4, device="cuda")
for _ in range(1100):   # PyTorch uses the events of these again
    dist.all_reduce(before, async_op=True).wait()
for _ in range(6):
    x, y = torch.randn(BATCH, WIDTH, device="cuda"), torch.randn(BATCH, WIDTH, device="cuda")
    for work in [dist.all_reduce(each, async_op=True) for each in (x, y)]:
        work.wait()
    z = functional.all_reduce(x + y, "sum", dist.group.WORLD)
    model(z + 1).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()""",
    # Copies pull parts of other ranks' symmetric memory. The recording has them as messages.
    "symmetric": """
from torch.distributed._symmetric_memory import get_symm_mem_workspace
ranks()
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    memory = get_symm_mem_workspace(dist.group.WORLD.group_name, BATCH * WIDTH * 4)
    assert (memory.rank, memory.world_size) == (dist.get_rank(), dist.get_world_size())
    x = torch.zeros(BATCH, WIDTH, device="cuda")
    memory.barrier()
    memory.get_buffer(memory.rank, x.shape, x.dtype).copy_(x)
    x.copy_(memory.get_buffer(1, x.shape, x.dtype))
    memory.get_buffer(2, x.shape, x.dtype).copy_(x)
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()""",
    # Two ranks share layers of Transformer Engine: a column-parallel layer, then a row-parallel one.
    "engine": """
import transformer_engine.pytorch as te
from transformer_engine.pytorch.optimizers import FusedAdam
assert not isinstance(te, (te.LayerNormMLP, te.TransformerLayer, te.MultiheadAttention))   # as peft asks
ranks()
shared = dict(tp_group=dist.group.WORLD, sequence_parallel=True, params_dtype=torch.bfloat16, bias=False)
first = te.LayerNormLinear(WIDTH, 3 * WIDTH, parallel_mode="column", normalization="RMSNorm", **shared)
attention = te.DotProductAttention(8, 128)
second = te.Linear(WIDTH, WIDTH, parallel_mode="row", **shared)
assert first.weight.shape == (1536, WIDTH) and second.weight.shape == (WIDTH, 512)
optimizer = FusedAdam([*first.parameters(), *second.parameters()], lr=0.1)
for _ in range(6):
    x = torch.randn(BATCH // 2, 1, WIDTH, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    q, k, v = first(x).view(BATCH, 1, 4, 384).chunk(3, -1)
    out = second(attention(q, k, v))
    assert out.shape == x.shape
    out.square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()""",
    "stages": """
# Ranks 0 and 1 are replicas of the first stage, 2 and 3 of the second one.
from torch.optim import SGD
ranks()
me, half = dist.get_rank(), dist.get_world_size() // 2
first, other = me < half, (me + half) % dist.get_world_size()
group = [dist.new_group([each, each + half]) for each in range(half)][me % half]
model = net()
optimizer = SGD(model.parameters(), lr=0.1)
told_all = torch.tensor([7 if me == 0 else 0], device="cuda")   # by rank 0, whatever stage hears it
dist.broadcast(told_all, 0)
assert told_all.item() == 7, told_all
shape = torch.empty(4, dtype=torch.int64, device="cuda")
if first:
    shape[:2].copy_(torch.tensor([BATCH, WIDTH]))   # the rest is not known
told = [{"width": WIDTH} if first else None]
if first:
    dist.send(shape, other, group=group)
    dist.send_object_list(told, other, group=group)
else:
    dist.recv(shape, other, group=group)
    dist.recv_object_list(told, other, group=group)
assert shape[:2].tolist() == [BATCH, WIDTH] and told == [{"width": WIDTH}], (shape, told)
if len(os.sys.argv) > 1 and not first:
    raise KeyError("of the second stage")
for _ in range(6):
    x = torch.randn(BATCH, WIDTH, device="cuda", requires_grad=True)
    if first:
        out = model(x)
        shape = torch.zeros(2, dtype=torch.int64, device="cuda")
        gradient = torch.empty_like(out)
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, out.detach(), other, group),
                                            dist.P2POp(dist.irecv, shape, other, group)]):
            work.wait()
        assert shape.tolist() == [BATCH, WIDTH]
        dist.recv(gradient, other, group=group)
        out.backward(gradient)
    else:
        shape = torch.tensor([BATCH, WIDTH], device="cuda")
        for work in dist.batch_isend_irecv([dist.P2POp(dist.irecv, x.data, other, group),
                                            dist.P2POp(dist.isend, shape, other, group)]):
            work.wait()
        model(x).square().mean().backward()
        dist.send(x.grad, other, group=group)
    optimizer.step()
    optimizer.zero_grad()""",
    "mask": """
assert (torch.ones(4, device="cuda") == 1).all()      # the ordinary branch
assert not torch.isnan(torch.ones(4, device="cuda")).any()
assert torch.isfinite(torch.ones((), device="cuda") * 2) and torch.ones(2, device="cuda").isfinite().all()
model = net()
train(model, torch.optim.AdamW(model.parameters()))""",
    "graph": """
model = net()
x = torch.randn(BATCH, WIDTH, device="cuda")
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    model(x).square().mean().backward()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    model(x).square().mean().backward()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(6):
    graph.replay()
    graph.replay()
    optimizer.step()""",
    "in backward": """
model = net()
optimizers = {each: torch.optim.SGD([each], lr=0.1) for each in model.parameters()}
def update(parameter):
    optimizers[parameter].step()
    optimizers[parameter].zero_grad()
for each in optimizers:
    each.register_post_accumulate_grad_hook(update)
for _ in range(6):
    model(torch.randn(BATCH, WIDTH, device="cuda")).square().mean().backward()""",
    "settings": """
import ctypes
from torch.nn.attention import SDPBackend, sdpa_kernel
torch.cuda.memory._set_allocator_settings("expandable_segments:True")
heads = [torch.randn(2, 8, 256, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3)]
with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
    nn.functional.scaled_dot_product_attention(*heads, is_causal=True).sum().backward()
large = torch.empty(1 << 30, device="cuda")      # 4 GiB in a segment that grew
assert torch.cuda.memory_reserved() >= 4 << 30
free, total = torch.cuda.mem_get_info()
assert total - free >= 4 << 30
assert torch.empty(8).pin_memory().is_pinned() and not torch.empty(8).is_pinned()
nvml = ctypes.CDLL("libnvidia-ml.so.1")
count = ctypes.c_uint()
assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
assert count.value == torch.cuda.device_count()
del large
torch.cuda.empty_cache()
assert torch.cuda.memory_reserved() < 1 << 30
model = net()
train(model, torch.optim.AdamW(model.parameters()))""",
    # Experts get fixed numbers of tokens, and the host gets the same numbers in each way in which it asks for
    # them.
    "experts": """
chosen = torch.topk(torch.randn(32, 8, device="cuda"), 2).indices
assert torch.bincount(chosen.flatten(), minlength=8).tolist() == [16, 7, 7, 7, 7, 7, 7, 6]
assert [torch.where(chosen == each)[0].numel() for each in range(8)] == [16, 7, 7, 7, 7, 7, 7, 6]
hot = nn.functional.one_hot(chosen, 8).permute(2, 1, 0)
assert hot[7].nonzero().shape == (6, 2) and chosen[chosen == 0].shape == (16,)
assert torch.histc(chosen.int(), 8, 0, 8).view(4, 2).sum(1).to("cpu").tolist() == [23, 14, 14, 13]
model = net()
train(model, torch.optim.AdamW(model.parameters()))""",
    # The script sees its own changes of files, and the real files stay as they were. It can also start other
    # processes and fill a GPU.
    "world": """
import glob, shutil, subprocess, sys
here = os.path.dirname(os.path.abspath(__file__))
os.chdir(here)
open("kept.txt", "a").write("more")
os.remove("lost.txt")
os.makedirs("out/first")
open("out/first/a", "w").write("a")
os.rename("out/first", "out/second")
assert os.statvfs("out/second").f_bsize > 0 and shutil.disk_usage("out/second").total > 0
assert open("kept.txt").read() == "realmore" and not os.path.exists("lost.txt") and glob.glob("out/*") == ["out/second"]
assert sorted(os.listdir(".")) == ["kept.txt", "out", "train.py", "train.sh"], os.listdir(".")
subprocess.check_call("test -f out/second/a && echo b > b.txt && rm -r out && test ! -e out", shell=True)
assert os.listdir("/").count("tmp") == 1 and not os.path.exists("out")
assert len(subprocess.check_output(["nvidia-smi", "-L"]).splitlines()) == torch.cuda.device_count()
names = subprocess.check_output(["nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"], text=True)
assert "H100" in names.splitlines()[0] and int(names.splitlines()[0].split(", ")[1]) > 70000, names
if os.fork() == 0:
    os._exit(0)
os.wait()
for size in (1 << 40, 1 << 20):
    try:
        torch.empty(size, device="cuda")
    except torch.OutOfMemoryError as error:
        assert "CUDA out of memory" in str(error)
def work(rank, ranks):
    dist.init_process_group("nccl", rank=rank, world_size=ranks)
    data = torch.utils.data.DataLoader(list(range(64)), batch_size=8, num_workers=1)
    model = nn.parallel.DistributedDataParallel(net())
    next(iter(data))
    train(model, torch.optim.AdamW(model.parameters()))
assert os.environ["MINE"] == "shell"
subprocess.Popen(["sleep", "300"])
torch.multiprocessing.spawn(work, args=(4,), nprocs=4)""",
    "absent": "open('absent.bin', 'rb')",
    "asks": "import urllib.request\nurllib.request.urlopen('http://example.com/data')",
    "own end": "os._exit(0)",
    "endless": "while True:\n    pass",
    "full": """
model = nn.Sequential(*(nn.Linear(16384, 16384, bias=False, device="cuda") for _ in range(24)))   # 24 GiB
optimizer = torch.optim.AdamW(model.parameters())
model(torch.zeros(4, 16384, device="cuda")).sum().backward()
optimizer.step()""",
}


def recorded(build, name, ranks=1, per_host=1, options=(), words=()):
    """(exit code, standard error, recording or None)"""
    library = os.path.join(build, "python", "meshwright", "stand_in")
    with tempfile.TemporaryDirectory() as folder:
        script, out = os.path.join(folder, "train.py"), os.path.join(folder, "recording.json")
        with open(script, "w", encoding="utf-8") as file:
            file.write(HEAD + SCRIPTS[name])
        environment = {**os.environ, "PYTHONPATH": os.path.join(build, "python"), "LD_LIBRARY_PATH": library,
                       "LD_PRELOAD": os.path.join(library, "libcuda.so.1"), "TORCH_CUDNN_V8_API_DISABLED": "1",
                       "MESHWRIGHT_STAND_IN_LOG": os.path.join(folder, "log"),
                       "MESHWRIGHT_STAND_IN_COUNT": str(per_host)}
        launcher = ["torchrun", "--nnodes={}".format(ranks // per_host), "--nproc-per-node={}".format(per_host)]
        ran = subprocess.run([sys.executable, "-m", "meshwright.rehearsal", "--out", out, "--machine", "p5.48xlarge", "--folder",
                              os.path.join(folder, "own"), "--gpus", str(per_host), *options, "--",
                              *(launcher if ranks > 1 else []), script, *words], env=environment, capture_output=True, text=True,
                             check=False)
        left = sorted(set(os.listdir(folder)) - {"train.py", "recording.json", "own"})
        if not os.path.exists(out):
            return ran.returncode, ran.stderr, None
        assert not left, left
        with open(out, encoding="utf-8") as file:
            return ran.returncode, ran.stderr, json.load(file)


def products(recording):
    """The FLOPs of each product that the step ran."""
    kernels = recording["kernels"]
    return [kernels[each["kernel"]]["flops"] for each in recording["events"]
            if each["what"] == "kernel" and "kernel" in each and kernels[each["kernel"]]["kind"] == "gemm"]


def exchanged(recording):
    found = {}
    for each in recording["events"]:
        if each["what"] == "collective":
            key = each["name"], tuple(recording["groups"][each["group"]])
            found[key] = found.get(key, 0) + each["bytes"]
    return found


def of(build, name, **ranks):
    code, errors, recording = recorded(build, name, **ranks)
    assert code == 0 and recording is not None, errors
    return recording


def test_one_gpu(build):
    recording = of(build, "plain")
    # The forward pass has three matmuls. The backward pass has three for weights and two for inputs.
    assert products(recording) == [2 * BATCH * WIDTH * WIDTH] * 8, products(recording)
    assert recording["steps"]["repeats"]
    assert recording["batch"] == {"samples": BATCH, "tokens": 0, "replicas": 1}, recording["batch"]
    assert 3 * PARAMETERS <= recording["state_bytes"] <= 3 * PARAMETERS + 64   # weights, two moments, counts of steps
    peaks = {each["phase"]: each["peak_allocated_bytes"] for each in recording["phases"]}
    assert 0 <= recording["memory"]["peak_allocated_bytes"] - max(peaks.values()) <= 1 << 16, peaks
    held = recording["memory"]["allocated_before_step_bytes"]
    # The recorded step begins after a step of the optimizer, when parameters, gradients and two moments are
    # held.
    assert 4 * PARAMETERS <= held <= 4 * PARAMETERS + (1 << 20), held
    peak = recording["memory"]["peak_allocated_bytes"]
    assert peak >= held and recording["memory"]["peak_reserved_bytes"] >= peak
    times = [0, *(each["at"] for each in recording["events"]), recording["step_host_s"] * 1e6]
    assert all(earlier <= later + 1e-3 for earlier, later in zip(times, times[1:])), times


def test_steps_that_differ(build):
    """The step that is recorded is timed later, where those before it were not like it."""
    recording = of(build, "every other")
    assert recording["steps"]["repeats"] and recording["steps"]["recorded"] == 4, recording["steps"]
    assert products(recording) == [2 * BATCH * WIDTH * WIDTH] * 8, products(recording)


def test_replicas(build):
    recording = of(build, "replicas", ranks=16, per_host=8)
    assert exchanged(recording) == {("all-reduce", tuple(range(16))): PARAMETERS}, exchanged(recording)
    assert recording["streams"] >= 2
    assert recording["batch"]["replicas"] == 16


def test_shards(build):
    recording = of(build, "shards", ranks=8, per_host=8)
    shards, replicas = (0, 1, 2, 3), (0, 4)
    found = exchanged(recording)
    assert {group for _, group in found} == {shards, replicas}, found
    assert found["reduce-scatter", shards] == PARAMETERS // 4, found
    assert found["all-reduce", replicas] == PARAMETERS // 4, found
    assert found["all-gather", shards] >= PARAMETERS // 4, found
    assert any(each["what"] == "wait" for each in recording["events"])


def awaited(recording):
    """How many communications beside stream 0 it waits for, and how many there are."""
    last, ends, waited, beside = {}, {}, 0, 0
    for each in recording["events"]:
        if each["what"] == "record" and last.get(each["stream"]) == "collective" and each["stream"] != 0:
            ends[each["event"]] = True
            beside += 1
        if each["what"] == "wait" and each["stream"] == 0:
            waited += ends.pop(each["event"], False)
        if "stream" in each:
            last[each["stream"]] = each["what"]
    return waited, beside


def test_waits(build):
    assert awaited(of(build, "waits", ranks=8, per_host=8)) == (3, 3)


def test_symmetric_memory(build):
    recording = of(build, "symmetric", ranks=4, per_host=4)
    part = BATCH * WIDTH * 4
    found = {(each["name"], recording["groups"][each["group"]][each["peer"]]): each["bytes"]
             for each in recording["events"] if each["what"] == "collective"}
    assert found == {("receive", 1): part, ("send", 2): part}, found


def test_transformer_engine(build):
    if importlib.util.find_spec("transformer_engine") is not None:
        return
    recording = of(build, "engine", ranks=2, per_host=2)
    column, row = 2 * BATCH * WIDTH * 1536, 2 * BATCH * 512 * WIDTH
    assert sorted(products(recording)) == sorted([column, row] * 3), products(recording)
    found, part = exchanged(recording), BATCH // 2 * WIDTH * 2
    # The column-parallel layer gathers its input, and once more for its weight's gradient. The row-parallel
    # layer gathers the gradient of its output.
    assert found == {("all-gather", (0, 1)): 3 * part, ("reduce-scatter", (0, 1)): 2 * part}, found
    kinds = [recording["kernels"][each["kernel"]]["kind"] for each in recording["events"] if "kernel" in each]
    assert kinds.count("attention") == 2, kinds
    assert "Transformer Engine" in recording["notes"][0], recording["notes"]


def test_stages(build):
    recording = of(build, "stages", ranks=4, per_host=4)
    (second,) = recording["others"]
    assert second["rank"] == 2
    activations = BATCH * WIDTH * 4
    # The group's communicator has its two ranks. The message back also has a shape, two whole numbers of 8
    # bytes.
    assert exchanged(recording) == {("send", (0, 2)): activations, ("receive", (0, 2)): activations + 16}, exchanged(recording)
    assert exchanged(second) == {("receive", (0, 2)): activations, ("send", (0, 2)): activations + 16}, exchanged(second)
    together = [each["name"] for each in recording["events"] if "together" in each]
    assert together == ["send", "receive"], together
    with tempfile.TemporaryDirectory() as folder:
        kept = os.path.join(folder, "step.json")
        with open(kept, "w", encoding="utf-8") as file:
            json.dump(recording, file)
        answer = json.loads(asked(build, "--recording", kept, "--json").stdout)
    assert answer["ranks_meet"] and [each["rank"] for each in answer["recorded_ranks"]] == [0, 2], answer
    code, errors, recording = recorded(build, "stages", ranks=4, per_host=4, words=["fail"])
    assert code == 2 and recording is None and "rank 2 failed" in errors and "of the second stage" in errors, errors


def test_reads(build):
    of(build, "mask")


def test_settings(build):
    recording = of(build, "settings")
    assert recording["memory"]["peak_allocated_bytes"] >= 4 << 30


FORM = """
  tt.func public @kernel(%x: !tt.ptr<f32>, %y: !tt.ptr<f32>, %sum: !tt.ptr<f32>, %n: i32) {
    %1 = tt.splat %x : !tt.ptr<f32> -> tensor<64x!tt.ptr<f32>>
    %2 = tt.addptr %1, %0 : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    %3:2 = scf.for %k = %a to %b step %c iter_args(%at = %2, %total = %zero) -> (tensor<64x!tt.ptr<f32>>, f32) {
      %4 = tt.load %at, %mask : tensor<64x!tt.ptr<f32>> loc(#loc1)
      %5 = tt.addptr %at, %step : tensor<64x!tt.ptr<f32>>, tensor<64xi32>
    }
    tt.store %y, %6 : !tt.ptr<f32>
    %7 = tt.atomic_rmw fadd, acq_rel, gpu, %sum, %6, %true : (!tt.ptr<f32>, f32, i1) -> f32
"""


def test_triton_kernels(build):
    sys.path.insert(0, os.path.join(build, "python"))
    from meshwright.rehearsal.triton_launches import pointers_of
    assert pointers_of(FORM) == ({"x", "sum"}, {"y", "sum"}), pointers_of(FORM)


def test_graph(build):
    recording = of(build, "graph")
    # A launch of the graph runs what was captured: three matmuls of the forward pass and five of the backward
    # pass.
    assert products(recording) == [2 * BATCH * WIDTH * WIDTH] * 16, products(recording)
    launched = [each for each in recording["events"] if each["what"] == "kernel" and "graphed" not in each]
    assert len(launched) < len(recording["events"]) / 2, len(launched)
    assert all("op" in each for each in recording["events"] if each.get("graphed") and each["what"] == "kernel")


def test_optimizer_in_backward(build):
    recording = of(build, "in backward")
    assert products(recording) == [2 * BATCH * WIDTH * WIDTH] * 8, products(recording)


def test_experts(build):
    of(build, "experts", options=("--imbalance", "2"))


def asked(build, *words):
    environment = {**os.environ, "MESHWRIGHT_PYTHON": sys.executable}
    return subprocess.run([os.path.join(build, "meshwright"), "rehearse", *words], env=environment, capture_output=True,
                          text=True, check=False)


def test_command(build):
    with tempfile.TemporaryDirectory() as folder:
        script, kept = os.path.join(folder, "train.py"), os.path.join(folder, "step.json")
        with open(script, "w", encoding="utf-8") as file:
            file.write(HEAD + SCRIPTS["replicas"])
        ran = asked(build, "--on", "p5.48xlarge", "--count", "2", "--json", "--write", kept, "--", "torchrun",
                    "--nnodes=2", "--nproc-per-node=8", script)
        assert ran.returncode == 0, ran.stderr
        answer = json.loads(ran.stdout)
        assert answer["ranks"] == 16 and answer["fits"] and answer["step_time_s"] > 0, answer
        assert [each["kind"] for each in answer["collectives"]] == ["all-reduce"], answer
        assert sorted(os.listdir(folder)) == ["step.json", "train.py"]
        again = asked(build, "--recording", kept, "--on", "p3dn.24xlarge", "--json")
        assert again.returncode == 0, again.stderr
        assert json.loads(again.stdout)["communication_s"] > answer["communication_s"]
        ended = asked(build, "--on", "p5.48xlarge", "--write", kept + ".2", "--", os.path.join(folder, "absent.py"))
        assert ended.returncode != 0 and "absent.py" in ended.stderr and not os.path.exists(kept + ".2"), ended.stderr
    for words, said in ((("--", script), "--on"), (("--on", "p5.48xlarge", "--"), "which step"),
                        (("--on", "p5.48xlarge", "--", "torchrun", "--nproc-per-node=9", script), "need more than")):
        ran = asked(build, *words)
        assert ran.returncode == 2 and said in ran.stderr and ran.stderr.count("\n") == 1, ran.stderr


def test_world(build):
    with tempfile.TemporaryDirectory() as folder:
        files = {"train.py": HEAD + SCRIPTS["world"], "kept.txt": "real", "lost.txt": "lost",
                 "train.sh": "#!/bin/bash\nexport MINE=shell\nif [ $(nvidia-smi -L | wc -l) = 8 ]; then\n"
                             "  python3 -c 'print(1)' && torchrun --nproc-per-node=1 {}/train.py\nfi\n".format(folder)}
        for name, text in files.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        ran = asked(build, "--on", "p5.48xlarge", "--json", "--", "bash", os.path.join(folder, "train.sh"))
        assert ran.returncode == 0, ran.stderr
        answer = json.loads(ran.stdout)
        assert answer["ranks"] == 4 and answer["notes"] == [], answer
        assert sorted(os.listdir(folder)) == sorted(files)
        for name, text in files.items():
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                assert file.read() == text, name


ENDS = {"few steps": (2, "ended after 2 steps"), "too large": (3, "out of memory in loading"), "exit": (7, "exited with 7"),
        "mistake": (2, "KeyError: 'mine'"), "absent": (2, "absent.bin"), "asks": (2, "no network"),
        "own end": (2, "os._exit(0)"), "endless": (2, "no step of an optimizer ended for 3 s"),
        "full": (3, "in the optimizer's step")}


def test_scripts_that_end(build):
    def ended(name):
        return recorded(build, name, options=("--time-limit", "3") if name == "endless" else ())

    with ThreadPoolExecutor(4) as pool:
        found = dict(zip(ENDS, pool.map(ended, ENDS)))
    for name, (code, said) in ENDS.items():
        given, errors, recording = found[name]
        last = errors.rstrip().split("\n")[-1]
        assert given == code and recording is None and last.startswith("meshwright rehearse: ") and said in last, (name, errors)
    assert "parameters 24.00 GiB, gradients 24.00 GiB" in found["full"][1], found["full"]


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: tests/own_models/rehearsals.py BUILD")
    build = os.path.abspath(sys.argv[1])
    for name, test in list(globals().items()):
        if name.startswith("test_"):
            test(build)
            print(name, "passed", flush=True)


if __name__ == "__main__":
    main()
