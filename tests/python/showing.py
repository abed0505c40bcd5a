"""showing.py: what notebooks show of answers, tables, and copies of answers. Needs neither pandas nor IPython."""

import copy
import json
import os
import pickle
import re
import sys
import types
from xml.etree import ElementTree

import meshwright

job = {"model": "gpt2", "training": {"global_batch": 64, "sequence_length": 1024, "micro_batch": "auto"},
       "cluster": {"machine": "p4d.24xlarge", "count": [1, 2]}, "parallelism": "auto", "objective": {"tokens": 1e10}}
plans = meshwright.plan(job, top=3)
step = meshwright.simulate(job)
advice = meshwright.advise(job)
scaling = meshwright.scale(job)


def shown(answer, *texts, pictures):
    html = answer._repr_html_()
    ElementTree.fromstring("<div>{}</div>".format(html))  # well-formed
    assert html.count("<svg ") == pictures, (type(answer), html.count("<svg "))
    assert not re.search(r"\bnan\b|None|\binf\b", html), html
    for text in texts:
        assert text in html, (text, html)


shown(plans, plans.plans[0].plan, "pareto", "runs in", "$/M tokens", pictures=1)
shown(plans.plans[0], plans.plans[0].plan, pictures=0)
shown(step, "MFU", "stage 0", "parameters", "compute", "whole run", pictures=2)
shown(advice, "Rent ", "stop here", "hours", pictures=1)
shown(advice.ladders[0], "stop here", pictures=1)
shown(scaling, "tokens/s", pictures=1)
shown(meshwright.explain(job, set={"training.recompute": "full"}), "recomputation", "change", pictures=0)
shown(meshwright.sensitivity(job), "answer at low", " h", pictures=0)
recorded = meshwright.simulate(os.path.join(os.path.dirname(__file__), "..", "tools", "recording.json"))
shown(recorded, "script", "exposed communication", "MFU", pictures=1)
assert meshwright.names("machines")._repr_html_() is None  # the dictionary is shown
rows = plans.to_rows()
assert [row["plan"] for row in rows] == [plan.plan for plan in plans.plans]
assert rows[0]["cluster.machine"] == "p4d.24xlarge" and rows[0]["parallelism.zero_stage"] == plans.plans[0].parallelism.zero_stage
assert len(advice.to_rows()) == sum(len(ladder.rungs) for ladder in advice.ladders)
assert len(step.to_rows()) == 1 and step.to_rows()[0]["step_time_s"] == step.step_time_s

sys.modules["pandas"] = None  # as where it is not installed
try:
    plans.to_pandas()
    raise AssertionError("no pandas is here")
except ImportError as error:
    assert "pip install pandas; to_rows() gives the same rows" in str(error), error
sys.modules["pandas"] = types.SimpleNamespace(DataFrame=lambda rows: ("frame", rows))
assert plans.to_pandas() == ("frame", rows)

assert type(plans.to_dict()["plans"][0]) is dict and plans.to_dict() == plans == json.loads(json.dumps(plans))
for copied in (copy.deepcopy(plans), pickle.loads(pickle.dumps(plans))):
    assert copied == plans and copied.plans[0].plan == plans.plans[0].plan
print("answers are shown, tabled and copied")
