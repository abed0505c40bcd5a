"""compare_python.py PROGRAM JOB: the module's answers are those of the program's --json, to the last digit."""

import json
import os
import subprocess
import sys
import tempfile
import threading

import meshwright

program, job = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])


def said(*words, code=0):
    ended = subprocess.run([program, *words], capture_output=True, text=True, check=False)
    assert ended.returncode == code, ended.stderr
    return ended


def without_times(value):
    if isinstance(value, dict):
        return {key: without_times(each) for key, each in value.items() if not key.endswith("_wall_s")}
    return [without_times(each) for each in value] if isinstance(value, list) else value


def same(found, *words):
    expected = json.loads(said(*words, "--json").stdout)
    assert without_times(found) == without_times(expected), words
    print("the same:", *words[:2])


same(meshwright.plan(job, top=3), "plan", job, "--top", "3")
small = {"model": "gpt2", "training": {"global_batch": 16, "sequence_length": 128, "micro_batch": "auto"},
         "cluster": {"machine": ["p3.2xlarge", "g5.12xlarge"], "count": [1, 2]}, "parallelism": "auto"}
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "small.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump(small, file)
    same(meshwright.simulate(path), "simulate", path)
    same(meshwright.advise(path), "advise", path)
    same(meshwright.explain(path, set={"training.micro_batch": 1}), "explain", path, "--set", "training.micro_batch=1")
same(meshwright.names("machines"), "list", "machines")

# A dictionary can be a job too. Its files are then relative to the working folder.
os.chdir(os.path.dirname(os.path.abspath(job)))
with open(job, encoding="utf-8") as file:
    value = json.load(file)
same(meshwright.plan(value, memory_margin=0.05), "plan", job, "--memory-margin", "0.05")

try:
    meshwright.plan(dict(value, trianing={}))
    raise AssertionError("not refused")
except meshwright.InputError as error:
    assert str(error) == "job: /trianing: unknown key; did you mean 'training'?", error
try:
    meshwright.plan(job, top=0)
    raise AssertionError("not refused")
except meshwright.InputError as error:
    assert "error: " + str(error) + "\n" == said("plan", job, "--top", "0", code=2).stderr, error
try:
    meshwright.plan(dict(small, model="gpt3-175b"))
    raise AssertionError("it fits")
except meshwright.NoPlanFits as error:
    assert error.answer["plans"] == [] and str(error).startswith("no plan fits"), error

# Other Python threads go on while a command runs.
counted = []
thread = threading.Thread(target=lambda: meshwright.simulate(small))
thread.start()
while thread.is_alive():
    counted.append(None)
assert len(counted) > 1000, len(counted)
print("meshwright", meshwright.__version__, "answers as the program does")
