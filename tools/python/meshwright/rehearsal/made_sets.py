"""Data sets that are not on this computer: as many made rows as a rehearsal needs, in the columns that the set has."""

from __future__ import annotations

import functools
import os
import re
from typing import Any, Callable, Dict, List, Optional, Tuple

from .after_import import after_import
from .made_texts import text
from .notes import note, script_line

__all__ = ["make_sets"]

Column = Callable[[int], Any]


def _words(count: int) -> Column:
    return lambda number: text(number, count)


def _label(classes: int) -> Column:
    def made(number: int) -> int:
        return number % classes
    made.classes = classes   # type: ignore[attr-defined]
    return made


def _image(width: int, height: int) -> Column:
    def made(_number: int) -> Any:
        from PIL import Image
        return Image.new("RGB", (width, height), (120, 110, 100))
    made.image = True   # type: ignore[attr-defined]
    return made


def _chat(number: int) -> Any:
    return [{"role": "user", "content": text(number, 40)}, {"role": "assistant", "content": text(number + 7, 120)}]


def _answers(number: int) -> Any:
    return {"text": [text(number, 120).split(" ")[0]], "answer_start": [0]}


def _id(number: int) -> str:
    return str(number)


def _number(number: int) -> int:
    return number


def _tokens(number: int) -> List[str]:
    return text(number, 14).split(" ")


def _tags(*names: str) -> Column:
    def made(number: int) -> List[int]:
        return [(number + place) % len(names) for place in range(14)]
    made.names = names   # type: ignore[attr-defined]
    return made


_ENTITIES = _tags("O", *(place + kind for kind in ("PER", "ORG", "LOC", "MISC") for place in ("B-", "I-")))
_PARTS = _tags(*(str(number) for number in range(47)))


_PAIR = {"sentence1": _words(20), "sentence2": _words(20), "label": _label(2), "idx": _number}
_DIALOGUE = {"id": _id, "dialogue": _words(110), "summary": _words(22)}
_GLUE = {"cola": {"sentence": _words(9), "label": _label(2), "idx": _number},
         "sst2": {"sentence": _words(18), "label": _label(2), "idx": _number},
         "qnli": {"question": _words(11), "sentence": _words(28), "label": _label(2), "idx": _number},
         "qqp": {"question1": _words(11), "question2": _words(11), "label": _label(2), "idx": _number},
         "mnli": {"premise": _words(20), "hypothesis": _words(10), "label": _label(3), "idx": _number},
         "stsb": {**_PAIR, "label": lambda number: float(number % 5)}}
# Columns of a set that is not known: those that scripts may ask for.
_ANY = {"text": _words(200), "content": _words(200), "prompt": _words(40), "response": _words(120), "question": _words(20),
        "answer": _words(60), "instruction": _words(20), "input": _words(20), "output": _words(80), "messages": _chat,
        "chosen": _words(120), "rejected": _words(120), "label": _label(2)}

# Sets by a pattern of their name. The first row that matches gives their columns and their splits.
_SPLITS = ("train", "validation", "test")
_SETS: List[Tuple[str, Dict[str, Column], Tuple[str, ...]]] = [
    ("wikitext|ptb|shakespeare", {"text": _words(90)}, _SPLITS),
    ("openwebtext|bookcorpus", {"text": _words(600)}, ("train",)),
    ("fineweb|slimpajama|redpajama|pile|dolma|oscar", {"text": _words(600), "meta": _id}, ("train", "validation")),
    (r"\bc4\b", {"text": _words(350), "timestamp": _id, "url": _id}, ("train", "validation")),
    ("alpaca", {"instruction": _words(12), "input": _words(6), "output": _words(50), "text": _words(90)}, ("train",)),
    ("dolly", {"instruction": _words(12), "context": _words(60), "response": _words(60), "category": _id}, ("train",)),
    ("guanaco|oasst", {"text": _words(260)}, ("train", "test")),
    ("ultrachat|smoltalk|openhermes|capybara|sharegpt", {"prompt": _words(40), "messages": _chat},
     ("train", "test", "train_sft", "test_sft")),
    ("gsm8k", {"question": _words(45), "answer": _words(90)}, ("train", "test")),
    ("imdb", {"text": _words(230), "label": _label(2)}, ("train", "test", "unsupervised")),
    ("yelp", {"text": _words(130), "label": _label(5)}, ("train", "test")),
    ("ag_news", {"text": _words(38), "label": _label(4)}, ("train", "test")),
    ("emotion", {"text": _words(19), "label": _label(6)}, _SPLITS),
    ("rotten_tomatoes", {"text": _words(20), "label": _label(2)}, _SPLITS),
    ("squad", {"id": _id, "title": _words(2), "context": _words(120), "question": _words(10), "answers": _answers},
     ("train", "validation")),
    ("cnn", {"article": _words(680), "highlights": _words(52), "id": _id}, _SPLITS),
    ("xsum", {"document": _words(380), "summary": _words(21), "id": _id}, _SPLITS),
    ("samsum|dialogsum", _DIALOGUE, _SPLITS),
    ("billsum", {"text": _words(1300), "summary": _words(180), "title": _words(8)}, ("train", "test", "ca_test")),
    ("conll|wnut", {"id": _id, "tokens": _tokens, "pos_tags": _PARTS, "chunk_tags": _PARTS, "ner_tags": _ENTITIES}, _SPLITS),
    ("swag", {**{key: _words(10) for key in ("sent1", "sent2", "ending0", "ending1", "ending2", "ending3")},
              "label": _label(4)}, _SPLITS),
    ("cifar100", {"img": _image(32, 32), "fine_label": _label(100), "coarse_label": _label(20)}, ("train", "test")),
    ("cifar", {"img": _image(32, 32), "label": _label(10)}, ("train", "test")),
    ("mnist", {"image": _image(28, 28), "label": _label(10)}, ("train", "test")),
    ("beans", {"image_file_path": _id, "image": _image(500, 500), "labels": _label(3)}, _SPLITS),
    ("food101", {"image": _image(512, 384), "label": _label(101)}, ("train", "validation")),
    ("imagenet|imagefolder", {"image": _image(500, 375), "label": _label(1000)}, _SPLITS),
]


def make_sets(ranks: int) -> None:
    """Lets datasets, evaluate, torchvision and numpy.memmap have what is not here, in rows enough for `ranks`."""
    rows = min(16384, max(2048, 256 * ranks))
    after_import("datasets.load", lambda load: _change_datasets(load, rows))
    after_import("evaluate.loading", _change_metrics)
    after_import("torchvision.datasets.folder", lambda folder: _change_folder(folder, rows))
    for name in ("mnist", "cifar"):
        after_import("torchvision.datasets." + name, lambda module: _change_arrays(module, rows))
    _change_memmap()


def _known(name: str, config: Any) -> Tuple[Dict[str, Column], Tuple[str, ...]]:
    plain = os.path.basename(str(name).rstrip("/")).lower()
    if plain == "glue" or plain == "super_glue":
        splits = ("train", "validation_matched", "validation_mismatched", "test_matched", "test_mismatched")
        return _GLUE.get(str(config), _PAIR), splits if config == "mnli" else _SPLITS
    if plain.startswith("wmt") or "opus" in plain:
        pair = [part for part in re.split("[-_]", str(config)) if len(part) == 2] or ["de", "en"]
        return {"translation": lambda number: {part: text(number, 22) for part in pair}}, _SPLITS
    for pattern, columns, splits in _SETS:
        if re.search(pattern, str(name).lower()):
            return columns, splits
    return _ANY, _SPLITS


def _change_datasets(load: Any, rows: int) -> None:
    original = load.load_dataset

    @functools.wraps(original)
    def load_dataset(path: str, name: Any = None, *rest: Any, **more: Any) -> Any:
        files = more.get("data_files")
        missing = _missing(files, more.get("data_dir"))
        try:
            if missing is None:
                return original(path, name, *rest, **more)
        except Exception as error:
            if os.path.exists(path) or files:
                raise
            reason = error
        else:
            raise FileNotFoundError(2, "no such data file; it must be on this computer", missing)
        columns, splits = _known(path, name)
        asked = more.get("split")
        note("data set {}{} is not here: {} made rows in columns {}".format(
            path, "/" + str(name) if name else "", rows, ", ".join(columns)))
        del reason
        return _made(columns, splits, asked, rows, bool(more.get("streaming")))

    load.load_dataset = load_dataset


def _missing(files: Any, folder: Any) -> Optional[str]:
    found = [files] if isinstance(files, str) else list(files.values()) if isinstance(files, dict) else list(files or ())
    for each in found:
        for path in [each] if isinstance(each, str) else each:
            place = os.path.join(str(folder or ""), str(path))
            if not any(mark in place for mark in "*?[") and "://" not in place and not os.path.exists(place):
                return place
    return None


def _made(columns: Dict[str, Column], splits: Tuple[str, ...], asked: Any, rows: int, streaming: bool) -> Any:
    from datasets import ClassLabel, Dataset, DatasetDict, Features, Image, Sequence

    def split_of(name: str, count: int) -> Any:
        images = {key for key, column in columns.items() if hasattr(column, "image")}
        held = {key: [column(number) for number in range(count if key not in images else 1)] for key, column in columns.items()}
        held.update({key: held[key] * count for key in images})
        made = Dataset.from_dict(held)
        kinds = dict(made.features)
        kinds.update({key: ClassLabel(num_classes=column.classes) for key, column in columns.items() if hasattr(column, "classes")})
        kinds.update({key: Sequence(ClassLabel(names=list(column.names))) for key, column in columns.items()
                      if hasattr(column, "names")})
        kinds.update({key: Image() for key in images})
        made = made.cast(Features(kinds)) if kinds != dict(made.features) else made
        return made.to_iterable_dataset() if streaming else made

    if asked is None:
        return DatasetDict({name: split_of(name, rows if name.startswith("train") else max(64, rows // 16))
                            for name in splits})
    if isinstance(asked, (list, tuple)):
        return [_made(columns, splits, each, rows, streaming) for each in asked]
    return split_of(str(asked), rows if "train" in str(asked) else max(64, rows // 16))


class _MadeMetric:
    """A metric whose rules are not here. It is 0."""

    def __init__(self, name: str) -> None:
        self.name = name

    def compute(self, **_more: Any) -> Dict[str, float]:
        return {self.name: 0.0}

    def add_batch(self, **_more: Any) -> None:
        return None

    add = add_batch


def _change_metrics(loading: Any) -> None:
    original = loading.load

    @functools.wraps(original)
    def load(path: str, *rest: Any, **more: Any) -> Any:
        try:
            return original(path, *rest, **more)
        except Exception:
            if os.path.exists(path):
                raise
        note("metric {} is not here: it is 0".format(path))
        return _MadeMetric(str(path))

    loading.load = load


def _change_folder(folder: Any, rows: int) -> None:
    original = folder.DatasetFolder.__init__

    @functools.wraps(original)
    def init(self: Any, root: Any, *rest: Any, **more: Any) -> None:
        if os.path.isdir(root):
            original(self, root, *rest, **more)
            return
        classes = 1000 if "imagenet" in str(root).lower() or "ilsvrc" in str(root).lower() else 10
        made = os.path.join(os.environ["MESHWRIGHT_REHEARSAL_FOLDER"], "images")
        os.makedirs(os.path.join(made, "0"), exist_ok=True)
        picture = os.path.join(made, "0", "0.jpg")
        if not os.path.exists(picture):
            from PIL import Image
            Image.new("RGB", (500, 375), (120, 110, 100)).save(picture)
        original(self, made, *rest, **more)
        self.classes = [str(each) for each in range(classes)]
        self.class_to_idx = {each: int(each) for each in self.classes}
        self.samples = [(picture, number % classes) for number in range(max(rows, 4096))]
        self.imgs, self.targets = self.samples, [each[1] for each in self.samples]
        note("images in {} are not here: {} made ones of {} classes".format(root, len(self.samples), classes))

    folder.DatasetFolder.__init__ = init


def _change_arrays(module: Any, rows: int) -> None:
    """The sets that are arrays in memory: MNIST and its kind, CIFAR."""
    for kind in vars(module).values():
        if isinstance(kind, type) and kind.__module__ == module.__name__ and "__init__" in vars(kind):
            kind.__init__ = _array_init(kind.__init__, module, max(rows, 10000))   # type: ignore[misc]


def _array_init(original: Any, module: Any, rows: int) -> Any:
    @functools.wraps(original)
    def init(self: Any, root: Any, *rest: Any, **more: Any) -> None:
        try:
            original(self, root, *rest, **more)
            return
        except (OSError, RuntimeError):
            pass   # neither here nor to be fetched
        import numpy
        import torch
        more.pop("download", None)
        names = ("train", "transform", "target_transform")
        given = {**dict(zip(names, rest)), **{key: more[key] for key in more if key in names}}
        module.VisionDataset.__init__(self, root, transform=given.get("transform"),
                                      target_transform=given.get("target_transform"))
        self.train = given.get("train", True)
        name, count = type(self).__name__, rows if self.train else max(64, rows // 16)
        classes = 100 if name == "CIFAR100" else 47 if name == "EMNIST" else 10
        labels = [number % classes for number in range(count)]
        if "CIFAR" in name:
            self.data, self.targets = numpy.zeros((count, 32, 32, 3), numpy.uint8), labels
        else:
            self.data, self.targets = torch.zeros(count, 28, 28, dtype=torch.uint8), torch.tensor(labels)
        self.classes = [str(each) for each in range(classes)]
        note("data set {} is not here: {} made images".format(name, count))

    return init


def _change_memmap() -> None:
    """Files of tokens as numbers: they are read through numpy.memmap."""
    import numpy

    class memmap(numpy.memmap):   # type: ignore[type-arg]
        def __new__(cls, filename: Any, dtype: Any = numpy.uint8, mode: str = "r+", *rest: Any, **more: Any) -> Any:
            is_path = isinstance(filename, (str, os.PathLike))
            if is_path and mode in ("r", "c") and not os.path.exists(filename):
                note("tokens in {} are not here: a million of made ones{}".format(filename, _by()))
                shape = more.get("shape") or (rest[1] if len(rest) > 1 else None)
                return numpy.zeros(shape or (1 << 20,), dtype)
            return super().__new__(cls, filename, dtype, mode, *rest, **more)

    numpy.memmap = memmap   # type: ignore[misc]


def _by() -> str:
    place = script_line()
    return ", for " + place if place else ""
