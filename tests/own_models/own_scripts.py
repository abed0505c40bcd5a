#!/usr/bin/env python3
"""Runs two scripts as people write them, and the same with the lines changed that docs/own-model.md lists, on ranks.

    python tests/own_models/own_scripts.py [--draw NUMBER | NAME...]

`--draw` takes one of them, in turn. char_gpt: one file without a trainer, interrupted and resumed under other degrees.
ddp: an example of DistributedDataParallel, by torchrun. What both report agrees to 2e-5.
"""

import difflib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, "..", "..", "docs", "own-model.md")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]
MPIRUN = ["mpirun", "--oversubscribe", "-n", "4", "-x", "PYTHONPATH", sys.executable]


def path_of(name):
    return os.path.join(HERE, "scripts", name + ".py")


def ran(command, folder):
    """What a script reports."""
    os.makedirs(folder, exist_ok=True)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1",
                   "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=600)
    if done.returncode != 0:
        raise RuntimeError("{} failed\n{}".format(" ".join(command), done.stdout[-4000:]))
    with open(os.path.join(folder, "report.json"), encoding="utf-8") as file:
        return json.load(file)


def char_gpt(plain, changed):
    expected = ran([sys.executable, path_of("char_gpt_plain"), "--out_dir=" + plain], plain)
    script = MPIRUN + [path_of("char_gpt"), "--out_dir=" + changed]
    found = ran(script + ["--max_iters=6"], changed)
    rest = ran(script + ["--init_from=resume", "--pipeline=4", "--compile=True", "--backend=eager"], changed)
    del rest["evaluated"][:3]   # The last evaluation before the break is the first one after it.
    return expected, {key: found[key] + rest[key] for key in found}


def ddp(plain, changed):
    expected = ran(TORCHRUN + ["2", path_of("ddp_plain"), "--out", plain], plain)
    return expected, ran(TORCHRUN + ["4", path_of("ddp"), "--out", changed], changed)


def difference(expected, found):
    """The largest relative difference."""
    assert found.keys() == expected.keys()
    pairs = [pair for key in expected for pair in zip(expected[key], found[key], strict=True)]
    return max(abs(one - other) / max(abs(one), 1e-3) for one, other in pairs)


def changed_lines(name):
    """What diff says of a plain version and the script."""
    texts = [open(path_of(each), encoding="utf-8").read().splitlines() for each in (name + "_plain", name)]
    return "\n".join(list(difflib.unified_diff(*texts, n=0, lineterm=""))[2:])


def main():
    failed, scripts = 0, {each.__name__: each for each in (char_gpt, ddp)}
    names = sys.argv[1:] or list(scripts)
    if names[0] == "--draw":
        names = [list(scripts)[int(names[1]) % len(scripts)]]
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    for name in names:
        begin, folder = time.time(), tempfile.mkdtemp(prefix="own-")
        try:
            worst = difference(*scripts[name](os.path.join(folder, "plain"), os.path.join(folder, "changed")))
            words = "largest difference {:.1e} ({:.1f} s)".format(worst, time.time() - begin)
            good = worst <= 2e-5
        except RuntimeError as error:
            words, good = str(error), False
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if changed_lines(name) not in page:
            words, good = words + "\ndocs/own-model.md does not show\n" + changed_lines(name), False
        failed += not good
        print("{:8} {} {}".format(name, "ok    " if good else "FAILED", words), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
