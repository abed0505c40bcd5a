"""refusing.py: what calls take and refuse: numbers as people write them, dates, paths; files and places in errors."""

import datetime
import os
import pathlib
import tempfile
import warnings

import meshwright

small = {"model": "gpt2", "training": {"global_batch": 16, "sequence_length": 128}, "cluster": {"machine": "p4d.24xlarge"}}


def refused(text, call, *jobs, kind=meshwright.InputError, **options):
    try:
        call(*jobs, **options)
    except kind as error:
        assert text in str(error), error
        return error
    raise AssertionError("not refused: {}".format(text))


error = refused("did you mean 'training'?", meshwright.plan, dict(small, trianing={}))
assert (error.file, error.place) == ("job", "/trianing"), (error.file, error.place)
error = refused("job 2: /model", meshwright.explain, small, {"model": "gtp2"})
refused("expected one job file", meshwright.plan)
refused("--runs names the file", meshwright.fit)
refused("--from names the files", meshwright.import_job)
refused("--for names the framework", meshwright.export, small)
refused("no_such_option", meshwright.plan, small, kind=TypeError, no_such_option=1)
refused("a job holds texts, numbers", meshwright.plan, dict(small, model={1, 2}), kind=TypeError)
error = refused("no plan fits", meshwright.plan, dict(small, model="gpt3-175b"), kind=meshwright.NoPlanFits)
assert isinstance(error.answer, meshwright.Plans) and error.answer.closest_miss.peak_memory_bytes > 2**30

# Numbers and dates in any spelling are the same question.
words = [dict(tokens="1B", by="3 days", batch=16, length="1k"),
         dict(tokens=1e9, by=datetime.timedelta(days=3), batch="16", length=1024)]
answers = [meshwright.plan(model="gpt2", on="p4d.24xlarge", top=1, **each).plans for each in words]
assert answers[0] == answers[1]
assert meshwright.plan(small, set={"training.global_batch": 32}, top=1).plans[0].training.global_batch == 32

with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    settings = folder / "ds_config.json"
    settings.write_text('{"train_batch_size": 16, "bf16": {"enabled": true}, "zero_optimization": {"stage": 1}}')
    config = folder / "config.json"
    config.write_text('{"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 2, "n_positions": 128, "vocab_size": 512}')
    given = dict(from_=[settings, config], set={"cluster.machine": "p4d.24xlarge", "training.sequence_length": 128})
    imported = meshwright.import_job(**given)
    assert imported.framework == "deepspeed" and imported.wrote is None and imported.settings, imported
    assert meshwright.simulate(imported.job).step_time_s > 0
    written = meshwright.import_job(folder / "job.json", **given)
    assert written.wrote == str(folder / "job.json") and os.path.exists(written.wrote) and written.job == imported.job
    exported = meshwright.export(imported.job, for_="deepspeed", to=folder / "out")
    assert exported.contents is None and all(os.path.exists(file) for file in exported.files), exported
    printed = meshwright.export(imported.job, for_="deepspeed")
    assert set(printed.contents) == set(printed.files)
    # A path in a job is a path.
    assert meshwright.simulate({**small, "model": config}).name

# What the command line warns of are warnings of Python, at the line that calls.
with warnings.catch_warnings(record=True) as heard:
    warnings.simplefilter("always")
    meshwright.plan(dict(small, cluster={"machine": "dgx-h100"}), set={"objective.minimize": "usd"}, top=1)
mine = [each for each in heard if each.category is meshwright.InputWarning]
assert mine and mine[0].filename == __file__ and "price" in str(mine[0].message), heard
said = meshwright.simulate(model="gpt2", on="p4d.24xlarge").messages
assert any(text.startswith("note: ") for text in said), said
print("calls take what people write, and say what they refuse")
