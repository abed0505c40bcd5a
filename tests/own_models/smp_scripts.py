#!/usr/bin/env python3
"""Runs the scripts of tests/own_models/scripts by meshwright.smp under mpirun and by eager PyTorch in one process.

    python tests/own_models/smp_scripts.py [--draw NUMBER | NAME...]

`--draw` takes two of them, so that in time each has its turn. Losses agree to 2e-5, and parameters to 1e-4, with what
one process computes over the same micro-batches.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = {"mnist": (4, 8), "bert": (4, 4), "gpt2": (4, 4), "vision": (4, 8)}   # ranks, micro-batches of all replicas


def ran(command, folder):
    report = os.path.join(folder, "report.json")
    os.makedirs(folder)
    environment = {**os.environ, "SMP_REPORT": report, "SMP_FOLDER": folder, "OMP_NUM_THREADS": "1",
                   "HF_HUB_OFFLINE": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=600)
    if done.returncode != 0 or not os.path.exists(report):
        return None, done.stdout[-4000:]
    with open(report, encoding="utf-8") as file:
        return json.load(file), ""


def differences(eager, planned):
    """(largest relative difference of a number that was printed, relative difference of the parameters' sums in norm)."""
    numbers, norms = 0.0, 0.0
    for key, value in eager.items():
        if key == "norms":
            squares = sum((each - planned[key][name]) ** 2 for name, each in value.items())
            norms = (squares / sum(each ** 2 for each in value.values())) ** 0.5
        else:
            numbers = max([numbers] + [abs(a - b) / max(abs(a), 1e-3) for a, b in zip(value, planned[key])])
            assert len(value) == len(planned[key]), key
    return numbers, norms


def main():
    failed = 0
    names = sys.argv[1:] or list(SCRIPTS)
    if names[0] == "--draw":
        all_names, number = list(SCRIPTS), int(names[1])
        names = [all_names[number % 4], all_names[(number // 4 % 3 + 1 + number) % 4]]
    for name in names:
        ranks, micro_batches = SCRIPTS[name]
        script, begin = os.path.join(HERE, "scripts", name + ".py"), time.time()
        folder = tempfile.mkdtemp(prefix="smp-")
        try:
            eager, why = ran([sys.executable, os.path.join(HERE, "eager_smp.py"), str(micro_batches), script],
                             os.path.join(folder, "eager"))
            planned = None
            if eager:
                planned, why = ran(["mpirun", "--oversubscribe", "-n", str(ranks), "-x", "PYTHONPATH", "-x", "SMP_REPORT",
                                    "-x", "SMP_FOLDER", sys.executable, script], os.path.join(folder, "planned"))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if planned is None:
            failed += 1
            print("{:8} FAILED {}\n{}".format(name, "to run by the plan" if eager else "in one process", why), flush=True)
            continue
        numbers, norms = differences(eager, planned)
        good = numbers <= 2e-5 and norms <= 1e-4
        failed += not good
        print("{:8} {} numbers {:.1e} parameters {:.1e} ({:.1f} s)".format(
            name, "ok    " if good else "FAILED", numbers, norms, time.time() - begin), flush=True)
    print("{} failed".format(failed) if failed else "all equal")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
