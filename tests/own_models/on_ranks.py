"""Runs the tests of a file on ranks of mpirun: every rank runs all of them, and counts what is wrong."""

import os
import subprocess
import sys

import meshwright.torch as mw

_wrong = 0


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
    for name, test in sorted(names.items()):
        if name.startswith("test_") and (len(sys.argv) < 2 or name in sys.argv[1:]):
            test()
            if mw.rank() == 0:
                print("{}: {} wrong so far".format(name, _wrong), flush=True)
    failed = any(mw.distributed._here().runtime.gathered(_wrong))
    mw.shutdown()
    sys.exit(1 if failed else 0)
