# Is sourced, after common.sh, by tests of `launch`. It writes train.py, a script of the user's own,
# and finds a Python that can run it. If build/python has no PyTorch, or the program no module for
# it, the test says so and is skipped (exit code 77).
python=$(realpath "$here/../..")/build/python/bin/python
for needed in "$python" "$(dirname "$program")/python/meshwright/_runtime.abi3.so"; do
  [ -e "$needed" ] || { echo "skipped: there is no $needed; tools/setup --python and a build with it make it"; exit 77; }
done
export HF_HUB_OFFLINE=1 OMP_NUM_THREADS=1

cat >train.py <<'END'
import argparse, os, time
import torch
import meshwright.torch as mw

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--folder", default="")
parser.add_argument("--width", type=int, default=16)
parser.add_argument("--fail", type=int, default=-1)
parser.add_argument("--kill", default="")
options = parser.parse_args()
mw.init()
torch.manual_seed(3)
net = torch.nn.Sequential(*[layer for _ in range(4)
                            for layer in (torch.nn.Linear(options.width, options.width), torch.nn.Tanh())])
model = mw.DistributedModel(net, lambda output, batch: (output - batch[1]).square().mean())
optimizer = mw.DistributedOptimizer(torch.optim.AdamW(net.parameters(), lr=1e-2))
start = mw.resume(options.folder, model) if options.folder else 0


def batches():
    for step in range(options.steps):
        torch.manual_seed(step)
        yield torch.randn(8, options.width), torch.randn(8, options.width)


for number, batch in enumerate(mw.shard(batches(), start), start + 1):
    if number == 3 and mw.rank() == options.fail:
        raise KeyError("no such sample")
    loss = model.step(batch)
    if mw.rank() == 0:
        print("step {} loss {:.6f}".format(number, loss.item()), flush=True)
    if options.folder:
        mw.save(options.folder, model)
    if number == 3 and mw.rank() == 1 and options.kill and not os.path.exists(options.kill):
        open(options.kill, "w").close()
        os.kill(os.getpid(), 9)
END
