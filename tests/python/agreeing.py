"""agreeing.py PROGRAM: the classes of answers have the keys of the program's schemas, real answers are made of them, and the
functions have the options that --help lists.
"""

import inspect
import json
import keyword
import os
import re
import subprocess
import sys
import tempfile

import meshwright

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(root, "tools", "python"))
from generating import answers, calls, texts  # noqa: E402

program = os.path.abspath(sys.argv[1])


def said(*words):
    return subprocess.run([program, *words], capture_output=True, text=True, check=True).stdout


def is_object(schema):
    return "properties" in schema and bool(schema["properties"])


def check_class(kind, schema, path):
    """Each key of the schema is an attribute of the class, and each part has a class of its own."""
    for key, inner in schema["properties"].items():
        attribute = key + "_" if keyword.iskeyword(key) else key
        if answers.is_attribute(key):
            assert attribute in kind.__annotations__, (path, key)
        items = inner.get("items", {}) if "array" in inner.get("type", "") else inner
        if is_object(items):
            check_class(kind._parts[key], items, path + "." + key)
    attributes = {key[:-1] if keyword.iskeyword(key[:-1]) else key for key in kind.__annotations__}
    assert attributes <= set(schema["properties"]), (path, attributes - set(schema["properties"]))


def check_answer(answer, path):
    """A real answer is made of the classes to its leaves, and attributes are keys."""
    assert isinstance(answer, meshwright.Answer), path
    for key, value in answer.items():
        if answers.is_attribute(key) and not keyword.iskeyword(key):
            assert getattr(answer, key) is value and key in dir(answer), (path, key)
        if key in answer._parts:
            for each in value if isinstance(value, list) else [value] if value is not None else []:
                check_answer(each, path + "." + key)


for command, (name, _, _) in answers.classes.items():
    check_class(getattr(meshwright, name), json.loads(said("schema", command)), command)

checked = 0
for function, command in calls.functions.items():
    listed = set(re.findall(r"^  --([a-z-]+)", said(command, "--help"), re.MULTILINE)) - {"json"}
    listed -= calls.left_out | calls.left_out_of.get(command, set())
    taken = set(inspect.signature(getattr(meshwright, function)).parameters)
    for option in listed:
        assert texts.argument_name(option) in taken, (function, option)
        text = inspect.getdoc(getattr(meshwright, function))
        assert "\n    {}: ".format(texts.argument_name(option)) in text, (function, option)
    operand = calls.operands.get(command, calls.the_job)[2]
    extra = taken - {texts.argument_name(option) for option in listed} - {"on_progress"} - {each for each, _ in operand}
    assert not extra, (function, extra)
    checked += len(listed)

job = {"model": "gpt2", "training": {"global_batch": 16, "sequence_length": 128, "micro_batch": 2},
       "cluster": {"machine": "p4d.24xlarge"}, "objective": {"tokens": 1e9}}
check_answer(meshwright.plan(job, top=2), "plan")
check_answer(meshwright.simulate(job), "simulate")
check_answer(meshwright.advise(job), "advise")
check_answer(meshwright.scale(job, count=2), "scale")
check_answer(meshwright.sensitivity(job), "sensitivity")
check_answer(meshwright.compile(job), "compile")
check_answer(meshwright.export(job, for_="deepspeed", set={"training.compiler": "none"}), "export")
check_answer(meshwright.names(), "list")
check_answer(meshwright.validate(os.path.join(root, "scenarios", "evidence", "nccl_allreduce_p4de_p5.json")), "validate")
with tempfile.TemporaryDirectory() as folder:
    runs, profile = os.path.join(folder, "runs.json"), os.path.join(folder, "profile.json")
    row = {"id": "mine", "job": dict(job, parallelism={"data": 8}), "measured": {"step_time_s": 0.05}}
    with open(runs, "w", encoding="utf-8") as file:
        json.dump({"source": {"title": "mine"}, "rows": [row]}, file)
    fit = meshwright.fit(runs=runs, output=profile)
    check_answer(fit, "fit")
    before, after = fit.runs[0].before_step_time_s, meshwright.simulate(row["job"], profile=profile).step_time_s
    assert abs(after - 0.05) < abs(before - 0.05), (before, after)
    config, settings = os.path.join(folder, "config.json"), os.path.join(folder, "ds_config.json")
    with open(config, "w", encoding="utf-8") as file:
        file.write('{"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 2, "n_positions": 128, "vocab_size": 512}')
    with open(settings, "w", encoding="utf-8") as file:
        file.write('{"train_batch_size": 16, "zero_optimization": {"stage": 1}}')
    keys = {"cluster.machine": "p4d.24xlarge", "training.sequence_length": 128}
    check_answer(meshwright.import_job(from_=[settings, config], set=keys), "import")
# Trained weights, whose loss and text transformers computed (tests/golden/make_generated.py).
golden = os.path.join(root, "tests", "golden")
with open(os.path.join(golden, "generated.json"), encoding="utf-8") as file:
    generated = json.load(file)
weights, expected = os.path.join(golden, "safetensors", "gpt2"), generated["models"]["gpt2"]
tiny = {"model": weights, "training": {"global_batch": 1, "sequence_length": generated["sequence"]},
        "cluster": {"machine": "local"}}
with tempfile.TemporaryDirectory() as folder:
    tokens = os.path.join(folder, "tokens.bin")
    with open(tokens, "wb") as file:
        file.write(b"".join(token.to_bytes(2, "little") for token in generated["tokens"]))
    evaluation = meshwright.evaluate(tiny, checkpoint=weights, data=tokens)
    check_answer(evaluation, "evaluate")
    assert abs(evaluation.loss - expected["loss"]) < 1e-5, (evaluation.loss, expected["loss"])
for text in expected["texts"]:
    generation = meshwright.generate(tiny, checkpoint=weights, prompt_tokens=text["prompt"], max_tokens=8)
    check_answer(generation, "generate")
    assert generation.tokens == text["tokens"], (generation.tokens, text)
explanation = meshwright.explain(job, set={"training.micro_batch": 1})
check_answer(explanation, "explain")
assert explanation.from_ is explanation["from"] and explanation.from_.name
assert meshwright.plan(job, top=1).closest_miss is None  # a key that is not there
try:
    explanation.no_such_key
    raise AssertionError("no such key")
except AttributeError as error:
    assert "'no_such_key'; it has change_ps, changes" in str(error), error
print("{} classes and {} arguments are those of the program".format(len(answers.classes), checked))
