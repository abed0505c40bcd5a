"""Models and tokenizers of the hub that are not on this computer: real shapes, no weights, a made vocabulary.

A folder is made for each name, with the config.json that the name has: the one in the cache of the hub, that of
meshwright's own collection of public models, or the defaults of the class of transformers that names the model.
"""

from __future__ import annotations

import functools
import glob
import json
import os
import re
from typing import Any, Dict, List, Optional, Tuple

from .after_import import after_import
from .notes import Unanswerable, note

__all__ = ["make_models"]

# Types of the published weights of some kinds of models, which their configurations name.
_DTYPES = {"llama": "bfloat16", "mistral": "bfloat16", "mixtral": "bfloat16", "falcon": "bfloat16", "phi3": "bfloat16",
           "cohere": "bfloat16", "nemotron": "bfloat16", "granitemoe": "bfloat16", "internlm2": "bfloat16",
           "stablelm": "bfloat16", "gpt_neox": "float16", "opt": "float16", "gptj": "float16", "olmoe": "bfloat16"}
_HALF = ("qwen", "gemma", "deepseek", "glm", "gpt_oss", "llama4")

# Special tokens by kind of model. Other kinds get those of Llama, which has none to pad with.
_MASKED = {"unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "mask_token": "[MASK]"}
_ROBERTA = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>", "cls_token": "<s>",
            "sep_token": "</s>", "mask_token": "<mask>"}
_T5 = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
_GPT2 = {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>"}
_LLAMA = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
_PADDED = {**_LLAMA, "pad_token": "<pad>"}
_TOKENS = {"bert": _MASKED, "distilbert": _MASKED, "electra": _MASKED, "albert": _MASKED, "deberta": _MASKED,
           "deberta-v2": _MASKED, "mobilebert": _MASKED, "roberta": _ROBERTA, "xlm-roberta": _ROBERTA,
           "camembert": _ROBERTA, "bart": _ROBERTA, "mbart": _ROBERTA, "longformer": _ROBERTA, "t5": _T5, "mt5": _T5,
           "gpt2": _GPT2, "gpt_neo": _GPT2, "gptj": _GPT2, "gpt_neox": _GPT2, "gpt_bigcode": _GPT2,
           "qwen2": _PADDED, "qwen2_moe": _PADDED, "qwen3": _PADDED, "qwen3_moe": _PADDED, "gemma": _PADDED,
           "gemma2": _PADDED, "gemma3_text": _PADDED, "phi3": _PADDED, "opt": _PADDED, "clip_text_model": _PADDED}
_CHAT = ("{% for message in messages %}<|{{ message['role'] }}|>\n{{ message['content'] }}{{ eos_token }}\n{% endfor %}"
         "{% if add_generation_prompt %}<|assistant|>\n{% endif %}")
_LARGE = 1 << 16   # elements of a parameter whose first values nobody needs


def make_models(folder: str) -> None:
    """Lets transformers, torchvision, timm and tiktoken find what is not here. `folder` is the rehearsal's own."""
    made = _Made(folder)
    after_import("transformers.utils.hub", made.change_hub)
    after_import("transformers.modeling_utils", made.change_weights)
    after_import("huggingface_hub._snapshot_download", lambda module: made.change_download(module, "snapshot_download"))
    after_import("huggingface_hub.file_download", lambda module: made.change_download(module, "hf_hub_download"))
    after_import("torch.hub", _change_torch_hub)
    after_import("timm.models._builder", _change_timm)
    after_import("tiktoken.registry", _change_tiktoken)
    _skip_first_values()


class _Made:
    """The folders that stand for models of the hub."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._folders: Dict[str, str] = {}

    def change_hub(self, hub: Any) -> None:
        for name in ("cached_file", "cached_files", "has_file", "resolve_revision"):
            if hasattr(hub, name):
                setattr(hub, name, self._in_folder(getattr(hub, name)))
        if hasattr(hub, "list_repo_templates"):
            listed = hub.list_repo_templates
            hub.list_repo_templates = lambda name, *rest, **more: [] if name in self._folders else listed(name, *rest, **more)

    def _in_folder(self, function: Any) -> Any:
        @functools.wraps(function)
        def called(*rest: Any, **more: Any) -> Any:
            for key in ("path_or_repo_id", "path_or_repo", "repo_id"):
                if key in more:
                    more[key] = self.folder_of(more[key], more.get("cache_dir"))
            return function(*[self.folder_of(name, more.get("cache_dir")) for name in rest[:1]], *rest[1:], **more)
        return called

    def change_weights(self, modeling: Any) -> None:
        kind = modeling.PreTrainedModel
        original = kind.from_pretrained.__func__
        made = self

        def from_pretrained(cls: Any, name: Any = None, *rest: Any, **more: Any) -> Any:
            folder = made.folder_of(name, more.get("cache_dir"))
            if name is None or more.get("state_dict") is not None or more.get("gguf_file") or _has_weights(folder):
                return original(cls, name, *rest, **more)
            if not os.path.isfile(os.path.join(folder, "config.json")):
                return original(cls, name, *rest, **more)
            note("weights of {} are not here: none were loaded".format(name))
            if not hasattr(more.get("config"), "to_dict"):
                own = {key: more.pop(key) for key in list(more) if key in ("num_labels", "finetuning_task", "id2label",
                                                                         "label2id", "ignore_mismatched_sizes")}
                own.pop("ignore_mismatched_sizes", None)
                more["config"] = cls.config_class.from_pretrained(folder, **own)
            for key in ("revision", "token", "use_auth_token", "cache_dir", "subfolder"):
                more.pop(key, None)
            model = original(cls, None, *rest, state_dict={}, **more)
            model.config.name_or_path = model.config._name_or_path = str(name)
            return model

        kind.from_pretrained = classmethod(from_pretrained)

    def change_download(self, module: Any, name: str) -> None:
        original = getattr(module, name)

        @functools.wraps(original)
        def download(repo_id: str, *rest: Any, **more: Any) -> Any:
            try:
                return original(repo_id, *rest, **more)
            except Exception:   # not in the cache
                if more.get("repo_type") not in (None, "model"):
                    raise
                try:
                    place = self.folder_of(repo_id, more.get("cache_dir"))
                except Unanswerable:
                    place = None
                if name == "hf_hub_download" and place is not None:
                    place = os.path.join(place, more.get("subfolder") or "", str(more.get("filename") or rest[0]))
                if place is None or place == repo_id or not os.path.exists(place):
                    raise
                return place

        setattr(module, name, download)

    def folder_of(self, name: Any, cache: Any = None) -> Any:
        """The folder that stands for a model: the one named, or a made one if the hub's cache has no such model."""
        if name is None or not isinstance(name, (str, os.PathLike)):
            return name
        asked = str(name)
        if os.path.isdir(asked) or os.path.isfile(asked) or asked.startswith(("http:", "https:")):
            return asked
        if asked not in self._folders:
            self._folders[asked] = asked if _is_cached_whole(asked, cache) else self._make(asked, cache)
        return self._folders[asked]

    def _make(self, asked: str, cache: Any) -> str:
        held = _cached(asked, cache)
        config = None
        if held is not None and os.path.isfile(os.path.join(held, "config.json")):
            with open(os.path.join(held, "config.json"), encoding="utf-8") as file:
                config = json.load(file)
        config = config or self._known_config(asked)
        if config is None:
            raise Unanswerable("meshwright rehearse: {0} is not on this computer, and its shape is not known here; fetch "
                               "its small files with `hf download {0} --include '*.json'` before".format(asked))
        folder = os.path.join(self._folder, "hub", asked.strip("/").replace("/", "--"))
        os.makedirs(folder, exist_ok=True)
        for path in glob.glob(os.path.join(held, "*")) if held is not None else ():
            os.symlink(os.path.realpath(path), os.path.join(folder, os.path.basename(path)))
        _write(folder, "config.json", config)
        _write(folder, "preprocessor_config.json", _preprocessor(config))
        _write(folder, "generation_config.json", {key: config[key] for key in config if key.endswith("_token_id")})
        size = config.get("vocab_size") or (config.get("text_config") or {}).get("vocab_size")
        if size and not glob.glob(os.path.join(folder, "*token*")):
            _write_tokenizer(folder, config, int(size), asked)
            note("tokenizer of {} is not here: a made one has {} tokens".format(asked, size))
        return folder

    def _known_config(self, asked: str) -> Optional[Dict[str, Any]]:
        found = _in_collection(os.path.join(self._folder, "zoo"), asked) or _by_class(asked)
        if found is not None:
            kind = str(found.get("model_type"))
            found.setdefault("torch_dtype", _DTYPES.get(kind, "bfloat16" if kind.startswith(_HALF) else "float32"))
        return found


def _write(folder: str, name: str, content: Any) -> None:
    path = os.path.join(folder, name)
    if not os.path.lexists(path):
        with open(path, "w", encoding="utf-8") as file:
            json.dump(content, file)


def _cached(name: str, cache: Any) -> Optional[str]:
    """The newest snapshot of a model in the hub's cache."""
    from huggingface_hub import constants
    root = os.path.join(str(cache or constants.HF_HUB_CACHE), "models--" + name.replace("/", "--"), "snapshots")
    found = sorted(glob.glob(os.path.join(root, "*")), key=os.path.getmtime)
    return found[-1] if found else None


def _has_weights(folder: Any) -> bool:
    return any(glob.glob(os.path.join(str(folder), pattern)) for pattern in ("*.safetensors*", "*.bin*", "*.msgpack", "*.h5"))


def _is_cached_whole(name: str, cache: Any) -> bool:
    held = _cached(name, cache)
    return held is not None and _has_weights(held) and bool(glob.glob(os.path.join(held, "*token*")))


def _plain(name: str) -> str:
    """A model's name without what does not change its shape."""
    text = os.path.basename(name.rstrip("/")).lower().replace("_", "-")
    text = re.sub(r"^(meta-|google-|openai-)", "", text)
    while True:
        shorter = re.sub(r"(-hf|-instruct|-chat|-it|-base|-in21k|-v0\.\d|-128k|-4k|-finetuned.*|-\d{4}|-sft|-dpo)$", "", text)
        if shorter == text:
            return text.replace("-", "").replace(".", "")
        text = shorter


def _in_collection(folder: str, name: str) -> Optional[Dict[str, Any]]:
    files = sorted(glob.glob(os.path.join(folder, "*.json")))
    exact = [each for each in files if os.path.basename(each)[:-5] == os.path.basename(name).lower()]
    for path in exact or [each for each in files if _plain(os.path.basename(each)[:-5]) == _plain(name)]:
        with open(path, encoding="utf-8") as file:
            return dict(json.load(file))
    return None


def _by_class(name: str) -> Optional[Dict[str, Any]]:
    """The defaults of the class of transformers whose documentation names the model."""
    if "/" not in name:
        return None
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING
    root = os.path.join(os.path.dirname(transformers.__file__), "models")
    found: List[Tuple[int, str]] = []   # kinds of models, the best last
    for path in sorted(glob.glob(os.path.join(root, "*", "configuration_*.py"))):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        at = max(text.rfind(mark.format(name)) for mark in ('checkpoint="{}', "huggingface.co/{}", '"{}'))
        kind = re.search(r'model_type(?:: str)? = "([^"]+)"', text[at:]) if at >= 0 else None
        if kind is not None and kind.group(1) in CONFIG_MAPPING:
            # Prefers a class in the folder with the shortest name, such as resnet, to one that is built of it.
            found.append((-len(os.path.basename(os.path.dirname(path))), kind.group(1)))
    return dict(CONFIG_MAPPING[max(found)[1]]().to_dict()) if found else None


def _preprocessor(config: Dict[str, Any]) -> Dict[str, Any]:
    size = config.get("image_size") or (config.get("vision_config") or {}).get("image_size") or 224
    side = size if isinstance(size, int) else size[0]
    return {"size": {"height": side, "width": side}, "do_resize": True, "do_normalize": True,
            "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}


def _write_tokenizer(folder: str, config: Dict[str, Any], size: int, name: str) -> None:
    """Words that made texts have, single characters, and tokens that never occur up to the model's vocabulary."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    from .made_texts import WORDS
    kind = str(config.get("model_type"))
    special = _TOKENS.get(kind, _LLAMA)
    places = {key: config.get(key + "_id") for key in special}
    first = list(dict.fromkeys(special.values()))
    pieces: List[str] = first + ["▁" + word for word in WORDS] + ["▁"] + [chr(code) for code in range(33, 127)]
    pieces = list(dict.fromkeys(pieces))[:size]
    pieces += ["<made {}>".format(number) for number in range(len(pieces), size)]
    for key, at in places.items():   # ids that the model's configuration has
        token = special[key]
        at = at[0] if isinstance(at, list) else at
        if isinstance(at, int) and 0 <= at < size and pieces[at] not in first:
            here = pieces.index(token)
            pieces[at], pieces[here] = pieces[here], pieces[at]
    scores = [(piece, -20.0 if len(piece) == 1 else -5.0) for piece in pieces]
    tokenizer = Tokenizer(models.Unigram(scores, unk_id=pieces.index(special["unk_token"])))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    begin, end = special.get("cls_token"), special.get("sep_token")
    if begin and end:
        tokenizer.post_processor = processors.TemplateProcessing(
            single="{0} $A {1}".format(begin, end), pair="{0} $A {1} $B:1 {1}:1".format(begin, end),
            special_tokens=[(begin, pieces.index(begin)), (end, pieces.index(end))])
    tokenizer.add_special_tokens(first)
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    longest = config.get("max_position_embeddings") or config.get("n_positions") or 512
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": longest, **special}
    if special is _MASKED:
        about["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    if re.search(r"instruct|chat|-it$|zephyr", name.lower()):
        about["chat_template"] = _CHAT
    _write(folder, "tokenizer_config.json", about)


def _skip_first_values() -> None:
    """Large parameters on the processor keep the pages that nobody has touched: they take neither time nor memory."""
    import torch

    def skipped(function: Any) -> Any:
        @functools.wraps(function)
        def called(tensor: Any, *rest: Any, **more: Any) -> Any:
            is_large = isinstance(tensor, torch.Tensor) and tensor.device.type == "cpu" and tensor.numel() >= _LARGE
            return tensor if is_large else function(tensor, *rest, **more)
        return called

    for name in dir(torch.nn.init):
        if name.endswith("_") and not name.startswith("_"):
            setattr(torch.nn.init, name, skipped(getattr(torch.nn.init, name)))
    for name in ("normal_", "uniform_"):
        setattr(torch.Tensor, name, skipped(getattr(torch.Tensor, name)))


class _NoWeights(dict):   # type: ignore[type-arg]
    """Stands for the weights of a model. A module that loads it stays as it is."""


def _load_nothing() -> None:
    import torch
    load = torch.nn.Module.load_state_dict

    @functools.wraps(load)
    def loaded(self: Any, state: Any, *rest: Any, **more: Any) -> Any:
        if isinstance(state, _NoWeights):
            return torch.nn.modules.module._IncompatibleKeys([], [])
        return load(self, state, *rest, **more)

    torch.nn.Module.load_state_dict = loaded   # type: ignore[method-assign]


def _change_torch_hub(hub: Any) -> None:
    load = hub.load_state_dict_from_url
    _load_nothing()

    @functools.wraps(load)
    def loaded(url: str, model_dir: Any = None, *rest: Any, **more: Any) -> Any:
        name = more.get("file_name") or os.path.basename(url)
        if os.path.isfile(os.path.join(model_dir or os.path.join(hub.get_dir(), "checkpoints"), name)):
            return load(url, model_dir, *rest, **more)
        note("weights of {} are not here: none were loaded".format(name))
        return _NoWeights()

    hub.load_state_dict_from_url = loaded


def _change_timm(builder: Any) -> None:
    load = builder.load_pretrained

    @functools.wraps(load)
    def loaded(model: Any, *rest: Any, **more: Any) -> None:
        try:
            load(model, *rest, **more)
        except (OSError, RuntimeError):
            note("weights of {} are not here: none were loaded".format(type(model).__name__))

    builder.load_pretrained = loaded


_TIKTOKEN = {"gpt2": 50257, "r50k_base": 50257, "p50k_base": 50281, "cl100k_base": 100277, "o200k_base": 200019}


def _change_tiktoken(registry: Any) -> None:
    find = registry.get_encoding

    @functools.wraps(find)
    def found(name: str) -> Any:
        try:
            return find(name)
        except OSError:
            size = _TIKTOKEN.get(name)
            if size is None:
                raise
        note("tokenizer {} is not here: a made one has {} tokens".format(name, size))
        from tiktoken.core import Encoding
        ranks = {bytes([code]): code for code in range(256)}
        ranks.update({b"\xff" + number.to_bytes(4, "big"): number for number in range(256, size - 1)})
        return Encoding(name, pat_str=r"\s?\S+|\s+", mergeable_ranks=ranks, special_tokens={"<|endoftext|>": size - 1})

    registry.get_encoding = found
