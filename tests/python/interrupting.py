"""interrupting.py: Ctrl-C ends a search, and raises what was found so far; so does an error of on_progress, as it is."""

import os
import signal
import threading

import meshwright
from meshwright import _compiled

# A search of a minute and more: nothing below waits for its end.
job = {"model": "gpt2-xl", "training": {"global_batch": 960, "sequence_length": 1024, "micro_batch": "auto"},
       "cluster": {"machine": ["p4d.24xlarge", "p5.48xlarge", "p5e.48xlarge"], "count": list(range(1, 41))},
       "parallelism": "auto", "objective": {"tokens": 1e11}}


def interrupted(call, **options):
    """The answer of a call that Ctrl-C ends, from another thread, once plans of a second cluster are searched."""
    begun = threading.Event()
    clusters = set()

    def on_progress(progress):
        clusters.add((progress.machine, progress.count))
        if len(clusters) > 1:
            begun.set()

    def press():
        begun.wait()
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press).start()
    try:
        call(job, on_progress=on_progress, **options)
    except meshwright.Interrupted as error:
        assert isinstance(error, KeyboardInterrupt)
        return error.answer
    raise AssertionError("the search came to its end")


plans = interrupted(meshwright.plan)
assert isinstance(plans, meshwright.Plans) and plans.plans and plans.plans[0].step_time_s > 0, plans
assert plans.proven_gap is None  # it says nothing before the end
print("plan: {} plans were found".format(len(plans.plans)))
advice = interrupted(meshwright.advise, all=True)
assert isinstance(advice, meshwright.Advice) and advice.ladders, advice
print("advise: {} ladders were found".format(len(advice.ladders)))
scaling = interrupted(meshwright.scale)
assert isinstance(scaling, meshwright.Scaling), scaling
assert interrupted(meshwright.sensitivity) is None  # half a search is no plan to vary


class Enough(Exception):
    pass


def enough(progress):
    raise Enough(progress.machine)


try:
    meshwright.plan(job, on_progress=enough)
    raise AssertionError("not raised")
except Enough as error:
    assert str(error) == "p4d.24xlarge"

# A second Ctrl-C does not wait for what was found, and the next call waits for the end of this one.
core = _compiled.module()
stop_call = core.stop_call


def press_again():
    stop_call()
    os.kill(os.getpid(), signal.SIGINT)


core.stop_call = press_again
try:
    interrupted(meshwright.plan)
    raise AssertionError("not raised")
except meshwright.Interrupted:
    raise AssertionError("the second one waited") from None
except KeyboardInterrupt:
    pass
core.stop_call = stop_call

# The next call is as ever.
small = {"model": "gpt2", "training": {"global_batch": 16, "sequence_length": 128}, "cluster": {"machine": "p4d.24xlarge"}}
assert meshwright.plan(small, top=1).proven_gap is not None
print("Ctrl-C ends searches with what they have found")
