"""Classes of the answers, from their JSON Schemas. Parts of the same shape are one class."""

import json
import keyword

from .texts import by_hand, for_python, sentence, wrapped

# Maps each command to the class of its answer, the path of the rows of its table, and a description of the
# answer.
classes = {
    "plan": ("Plans", "plans", "What `plan` found: the plans, best first, and why others were rejected"),
    "simulate": ("Prediction", "", "What a training step takes: time, memory, cost"),
    "advise": ("Advice", "ladders.rungs", "What each size of cluster brings, and where to stop"),
    "scale": ("Scaling", "points", "Throughput, efficiency and cost over more and more GPUs"),
    "sensitivity": ("Sensitivity", "inputs", "Which inputs move time or cost most"),
    "explain": ("Explanation", "changes", "Why a step takes longer than another"),
    "validate": ("Validation", "rows", "Predicted against published measurements"),
    "compile": ("Compilation", "levels", "What the levels of the training compiler save"),
    "fit": ("Fit", "runs", "A machine's profile moved towards measured steps"),
    "import": ("Imported", "settings", "A job, from another framework's settings"),
    "export": ("Exported", "", "A plan, as another framework's settings"),
    "evaluate": ("Evaluation", "", "The loss of trained weights on files"),
    "generate": ("Generation", "", "What trained weights go on with from a prompt"),
    "list": ("Names", "", "Names that a job may use"),
}
# Maps parts of answers whose key makes no good name to their classes, by the key, or by its path where another
# part has that key too.
part_names = {
    "rungs": "Rung", "points": "ScalePoint", "inputs": "SensitivityInput", "validate.rows": "Measurement",
    "simulate.memory": "StageMemory", "simulate.stages": "StageTimes", "simulate.cuts.tensors": "CutTensor",
    "risk.usd": "Spread", "wall_s": "Spread", "usd": "Spread", "shares": "TimeShares",
    "advise.ladders.rungs.largest": "RungBatch", "advise.ladders.rungs.closest_miss": "RungMiss",
    "advise.ladders.rungs.communication": "GroupLoad", "advise.best": "Choice", "low": "End", "from": "Side",
    "explain.from.communication": "MeasuredCommunication", "explain.from.kernels": "MeasuredKernel",
    "explain.joined.kernels": "JoinedKernel", "sources": "Errors", "validate.machines": "MachineErrors",
    "collectives_from_1_MiB": "ClusterErrors", "validate.fits": "FitCheck", "validate.scaling": "ScalingPair",
    "validate.skipped": "SkippedRow", "compile.levels.memory": "LevelMemory", "compile.levels.largest": "LargestBatch",
    "compile.frameworks": "FrameworkBatch", "fit.runs": "FittedRun", "fit.constants": "FittedConstant",
    "fit.interval_before": "Interval", "import.understood": "Understood",
}
scalars = {"integer": "int", "number": "float", "string": "str", "boolean": "bool"}
own = {"messages", "to_dict", "to_pandas", "to_rows"}


def is_attribute(key):
    """`said_to_fit_at_1.25x` is no name, and `keys` a method of dictionaries: these are there as keys alone."""
    return key.isidentifier() and not hasattr(dict, key)


def singular(key):
    if key.endswith("sses") or key.endswith("ches"):
        return key[:-2]
    return key[:-1] if key.endswith("s") and not key.endswith("ss") else key


def class_name(path, is_list):
    key = path.split(".")[-1]
    word = part_names.get(path) or part_names.get(key)
    return word or "".join(part.capitalize() for part in (singular(key) if is_list else key).split("_"))


def without_texts(schema):
    if isinstance(schema, dict):
        return {key: without_texts(each) for key, each in schema.items()
                if key not in ("description", "$comment", "title") or not isinstance(each, str)}
    return [without_texts(each) for each in schema] if isinstance(schema, list) else schema


def shape_of(schema):
    """What tells two classes apart: their keys, without what is said of them."""
    keys = {key: schema.get(key) for key in ("properties", "required")}
    return json.dumps(without_texts(keys), sort_keys=True)


class Classes:
    def __init__(self):
        self.names = {}  # names of classes, by the shapes of their values
        self.public = set()  # those that users meet first: answers, and the rows of their tables
        self.texts = []

    def type_of(self, schema, path, is_list=False):
        """The annotation of a value, and the class of its parts or None."""
        if "anyOf" in schema or "oneOf" in schema or "enum" in schema:
            choices = [self.type_of(each, path)[0] for each in schema.get("anyOf", schema.get("oneOf", []))
                       if "const" not in each]
            known = sorted(set(choices)) if "enum" not in schema else ["str"]
            return (known[0] if len(known) == 1 else "Any"), None
        words = schema.get("type", "any")
        words = words if isinstance(words, list) else [words]
        name, part = "Any", None
        word = next(each for each in words if each != "null")
        if word in scalars:
            name = scalars[word]
        elif word == "array":
            inner, part = self.type_of(schema.get("items", {}), path, True)
            name = "List[{}]".format(inner)
        elif word == "object" and schema.get("properties"):
            part = self.add(class_name(path, is_list), schema, path)
            name = part
        elif word == "object":
            more = schema.get("additionalProperties", {})
            inner = self.type_of(more, path)[0] if isinstance(more, dict) else "Any"
            name = "Dict[str, {}]".format(inner)
        return ("Optional[{}]".format(name) if "null" in words else name), part

    def add(self, name, schema, path, rows=None, meaning=None):
        shape = shape_of(schema)
        if shape in self.names:
            return self.names[shape]
        if name in self.names.values():
            raise SystemExit("generate: {} would be a second class {}; name it in part_names of generating/answers.py"
                             .format(path, name))
        self.names[shape] = name
        required = schema.get("required", [])
        keys = required + [key for key in schema["properties"] if key not in required]
        lines, parts = [], []
        for key in keys:
            inner = schema["properties"][key]
            annotation, part = self.type_of(inner, path + "." + key)
            if part:
                parts.append('"{}": {}'.format(key, part))
            if not is_attribute(key):
                continue
            attribute = key + "_" if keyword.iskeyword(key) else key
            if attribute in own:
                raise SystemExit("generate: the key {} of {} is a method of answers".format(key, name))
            if key not in required and not annotation.startswith("Optional") and annotation != "Any":
                annotation = "Optional[{}]".format(annotation)
            lines.append("    {}: {}".format(attribute, annotation))
            text = inner.get("description", "").split(". ")[0].replace("\\", "\\\\")
            if text:
                lines.append(wrapped(for_python(text) + '"""', "    ", '    """'))
        text = 'class {}(Answer):\n'.format(name)
        meaning = meaning or "The part `{}` of an answer".format(path.split(".")[-1])
        text += wrapped(sentence(meaning) + '"""', "    ", '    """') + "\n\n"
        if rows:
            text += '    _rows = "{}"\n'.format(rows)
        if parts:
            text += wrapped(", ".join(parts) + "}", " " * 14, "    _parts = {") + "\n"
        self.texts.append(text + "\n".join(lines) + "\n")
        return name


def text_of(schemas):
    made = Classes()
    for command, (name, rows, meaning) in classes.items():
        made.add(name, schemas[command], command, rows, meaning)
        made.public.add(name)
        schema = schemas[command]
        for key in filter(None, rows.split(".")):
            schema = schema["properties"][key]["items"]
            made.public.add(made.names[shape_of(schema)])
    head = '"""Answers of the commands: dictionaries whose keys are attributes too. The unit is in the key."""\n' + by_hand
    head += "from typing import Any, Dict, List, Optional\n\nfrom ._answer import Answer\n\n__all__ = [\n"
    names = sorted(made.public)
    head += wrapped(", ".join('"{}"'.format(name) for name in names), "    ", "    ") + "]\n\n\n"
    return head + "\n\n".join(made.texts)
