"""arguments.txt against the table of Megatron-LM's arguments; overrides.yaml and train.py against the
classes of the packages megatron-bridge and megatron-core, whose sources are read: they import on
GPUs only. Rules between settings are checked by a start on GPUs alone.

usage: megatron.py FOLDER_OF_BRIDGE FOLDER_OF_CORE FILE...
"""
import ast
import pathlib
import shlex
import sys

import yaml
from report import read_each


class Wrong(Exception):
    pass


def read_table(path):
    table = {}
    for line in pathlib.Path(path).read_text().splitlines():
        if line and not line.startswith("#"):
            name, kind, *words = line.split()
            table[name] = (kind, words[0].split(",") if words else [])
    return table


def check_values(name, kind, choices, values):
    counts = {"flag": len(values) == 0, "words": True, "floats": len(values) > 0}
    if not counts.get(kind, len(values) == 1):
        raise Wrong(f"--{name} takes {kind}, found {values}")
    for value in values:
        try:
            if kind == "int":
                int(value)
            if kind in ("float", "floats"):
                float(value)
        except ValueError:
            raise Wrong(f"--{name}: '{value}' is no {kind}") from None
        if choices and value not in choices:
            raise Wrong(f"--{name}: '{value}' is none of {', '.join(choices)}")


def check_arguments(path, table):
    words = shlex.split(path.read_text())
    count = 0
    while words:
        name = words.pop(0)
        if not name.startswith("--") or name[2:] not in table:
            raise Wrong(f"{name} is no argument of Megatron-LM")
        values = []
        while words and not words[0].startswith("--"):
            values.append(words.pop(0))
        check_values(name[2:], *table[name[2:]], values)
        count += 1
    return f"{count} arguments are Megatron-LM's"


class Classes:
    """The dataclasses of the sources, by their names, with the fields of their bases."""

    def __init__(self, roots):
        self.own, self.bases, self.names = {}, {}, set()
        self.alias = {}
        for root in roots:
            for path in sorted(pathlib.Path(root).rglob("*.py")):
                self.read(path)

    def read(self, path):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ImportFrom):
                for each in node.names:
                    if each.asname:
                        self.alias[each.asname] = each.name
            if isinstance(node, ast.ClassDef):
                fields = {m.target.id: ast.unparse(m.annotation)
                          for m in node.body if isinstance(m, ast.AnnAssign)}
                bases = [ast.unparse(b).split(".")[-1].split("[")[0] for b in node.bases]
                self.own.setdefault(node.name, {}).update(fields)
                self.bases.setdefault(node.name, []).extend(bases)

    def fields(self, name, seen=()):
        name = self.alias.get(name, name) if name not in self.own else name
        if name in seen or name not in self.own:
            return {}
        found = {}
        for base in self.bases[name]:
            found |= self.fields(self.alias.get(base, base), (*seen, name))
            found |= self.fields(base, (*seen, name))
        return found | self.own[name]


SECTIONS = {
    "model": "GPTModelProvider", "train": "TrainingConfig", "optimizer": "OptimizerConfig",
    "scheduler": "SchedulerConfig", "rng": "RNGConfig", "ddp": "DistributedDataParallelConfig",
    "dist": "DistributedInitConfig", "dataset": "GPTDatasetConfig",
    "mixed_precision": "MixedPrecisionConfig", "comm_overlap": "CommOverlapConfig",
}


def fits(kind, value):
    if isinstance(value, bool):
        return "bool" in kind
    if isinstance(value, int):
        return "int" in kind or "float" in kind
    if isinstance(value, float):
        return "float" in kind
    if isinstance(value, str):
        return any(word in kind for word in ("str", "Literal", "Enum", "Backend", "Any"))
    if isinstance(value, list):
        return "ist" in kind or "Any" in kind
    return "dtype" in kind  # {"_target_": "torch.bfloat16"}


def check_overrides(path, classes):
    count = 0
    whole = classes.fields("ConfigContainer")
    for section, settings in yaml.safe_load(path.read_text()).items():
        if section not in whole:
            raise Wrong(f"{section} is no section of a ConfigContainer")
        fields = classes.fields(SECTIONS[section])
        for name, value in settings.items():
            if name == "_target_":
                if value.rsplit(".", 1)[-1] not in classes.own:
                    raise Wrong(f"{section}: there is no {value}")
                continue
            if name not in fields:
                raise Wrong(f"{section}.{name} is no field of {SECTIONS[section]}")
            if not fits(fields[name], value):
                raise Wrong(f"{section}.{name}: {value!r} is no {fields[name]}")
            count += 1
    return f"{count} overrides are fields of Megatron-Bridge's"


def check_program(path, roots):
    tree = ast.parse(path.read_text())
    count = 0
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or not node.module.startswith("megatron."):
            continue
        for each in node.names:
            module = [p for root in roots for p in (
                pathlib.Path(root, *node.module.split(".")).with_suffix(".py"),
                pathlib.Path(root, *node.module.split("."), each.name + ".py")) if p.exists()]
            if not module or (module[0].stem != each.name and each.name not in module[0].read_text()):
                raise Wrong(f"{node.module} has no {each.name}")
            count += 1
    source = pathlib.Path(roots[0], "megatron/bridge/training/config.py").read_text()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "bridge":
            if node.attr not in source:
                raise Wrong(f"megatron.bridge.training.config has no {node.attr}")
            count += 1
    return f"{count} names of its program are there"


bridge, core, *paths = sys.argv[1:]
TABLE = read_table(pathlib.Path(__file__).with_name("megatron_arguments.txt"))
CLASSES = None


def read(path):
    global CLASSES
    path = pathlib.Path(path)
    if path.name == "arguments.txt":
        return check_arguments(path, TABLE)
    CLASSES = CLASSES or Classes([core + "/megatron/core", bridge + "/megatron/bridge"])
    if path.name == "overrides.yaml":
        return check_overrides(path, CLASSES)
    return check_program(path, [bridge, core])


def version_in(folder):
    return next(pathlib.Path(folder).glob("*.dist-info")).name.removesuffix(".dist-info").split("-")[1]


for path in paths:
    by = ("table of Megatron-LM's arguments" if path.endswith("arguments.txt")
          else f"sources of megatron-bridge {version_in(bridge)}")
    read_each(by, read, [path])
