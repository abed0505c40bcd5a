"""Runs the tests of a file on ranks of mpirun: every rank runs all of them, and counts what is wrong.

`--double` runs them in fp64 (not those of precisions and refusals, which name types).
"""

import os
import subprocess
import sys

import torch

import meshwright.torch as mw

_wrong = 0


def is_double():
    return torch.get_default_dtype() == torch.float64


def bound():
    """How much two losses may differ, relative."""
    return 1e-9 if is_double() else 2e-5


def check(what, holds):
    """All ranks go on to the end, so that none waits for one that has stopped."""
    global _wrong
    if not holds:
        _wrong += 1
        print("WRONG: {} (rank {})".format(what, mw.rank()), flush=True)


def refused(what, words, call):
    """Whether `call` raises an error that says `words`."""
    try:
        call()
    except (ValueError, RuntimeError) as error:
        check("{}: {}".format(what, error), words in str(error))
        return
    check("{} is refused".format(what), False)


def run(names, ranks):
    """Runs the functions of `names` whose name begins with test_, or those that the command line names."""
    if "OMPI_COMM_WORLD_SIZE" not in os.environ:
        environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        sys.exit(subprocess.run(["mpirun", "--oversubscribe", "-n", str(ranks), sys.executable,
                                 os.path.abspath(names["__file__"])] + sys.argv[1:], env=environment).returncode)
    mw.init({})
    chosen = [each for each in sys.argv[1:] if each != "--double"]
    if "--double" in sys.argv:
        torch.set_default_dtype(torch.float64)
    for name, test in sorted(names.items()):
        if name.startswith("test_") and (not chosen or name in chosen):
            test()
            if mw.rank() == 0:
                print("{}: {} wrong so far".format(name, _wrong), flush=True)
    failed = any(mw.distributed._here().runtime.gathered(_wrong))
    mw.shutdown()
    sys.exit(1 if failed else 0)
