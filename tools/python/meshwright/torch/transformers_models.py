"""Models of the library transformers from a config.json, without memory and with their own loss."""

from __future__ import annotations

import inspect
import json
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch

from .document import PRECISIONS
from .errors import CaptureError

__all__ = ["Task", "example_of", "model_of"]


class Task(NamedTuple):
    """A kind of head: its table of class names in transformers, and what its example has."""

    mapping: str
    kind: str      # the kind of its example: "text", "label", "image" and others


# Kinds of heads, in the order in which a model type without "architectures" is looked up in them.
_TASKS = (
    Task("MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES", "sound to text"),
    Task("MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES", "text to text"),
    Task("MODEL_FOR_MASKED_LM_MAPPING_NAMES", "text"),
    Task("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "text"),
    Task("MODEL_FOR_ZERO_SHOT_IMAGE_CLASSIFICATION_MAPPING_NAMES", "image and text"),
    Task("MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES", "image"),
    Task("MODEL_FOR_SEMANTIC_SEGMENTATION_MAPPING_NAMES", "pixels"),
    Task("MODEL_FOR_VIDEO_CLASSIFICATION_MAPPING_NAMES", "video"),
    Task("MODEL_FOR_AUDIO_CLASSIFICATION_MAPPING_NAMES", "sound"),
    Task("MODEL_FOR_CTC_MAPPING_NAMES", "sound to letters"),
    Task("MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES", "text"),
    Task("MODEL_FOR_MASKED_IMAGE_MODELING_MAPPING_NAMES", "hidden image"),
    Task("MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES", "label"),
    Task("MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING_NAMES", "text"),
    Task("MODEL_FOR_QUESTION_ANSWERING_MAPPING_NAMES", "span"),
    Task("MODEL_FOR_PRETRAINING_MAPPING_NAMES", "text"),
)


def _class_of(config: Any, path: str) -> Tuple[str, str]:
    """(name of the class, kind of its example): that of "architectures", else of the first task that has one."""
    from transformers.models.auto import modeling_auto
    tables: List[Tuple[Task, Dict[str, Any]]] = [(task, dict(getattr(modeling_auto, task.mapping, {})))
                                                 for task in _TASKS]
    for wanted in getattr(config, "architectures", None) or ():
        for task, table in tables:
            names = table.get(config.model_type)
            if wanted == names or (isinstance(names, (list, tuple)) and wanted in names):
                return wanted, task.kind
    for task, table in tables:
        names = table.get(config.model_type)
        if names:
            return (names if isinstance(names, str) else names[0]), task.kind
    raise CaptureError("{}: transformers has no class with a loss for model_type {!r} among: {}".format(
        path, config.model_type, ", ".join(task.mapping[len("MODEL_FOR_"):-len("_MAPPING_NAMES")].lower()
                                           for task in _TASKS)))


def model_of(path: str, batch: int, sequence_length: Optional[int], precision: str, attention: Optional[str],
             place: str = "meta") -> Tuple[torch.nn.Module, Dict[str, torch.Tensor]]:
    """(model, example) of a config.json on the device `place`; on the meta device neither takes memory.

    `attention` is transformers' attn_implementation. Raises CaptureError if there is no such model.
    """
    try:
        import transformers
    except ImportError:
        raise CaptureError("--transformers needs the library transformers: pip install transformers") from None
    try:
        with open(path, encoding="utf-8") as file:
            written = json.load(file)
        model_type = written["model_type"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CaptureError("{}: is no config.json with a model_type ({}: {})".format(
            path, type(error).__name__, error)) from error
    written = {key: value for key, value in written.items() if key not in ("quantization_config",)}
    try:
        config = transformers.AutoConfig.for_model(**written)
    except (ValueError, TypeError, KeyError) as error:
        text = str(error).splitlines()[0].split(" Should contain one of")[0]
        raise CaptureError("{}: transformers {} does not take this file: {}".format(
            path, transformers.__version__, text)) from error
    del model_type
    name, kind = _class_of(config, path)
    # Turns off caches, and what Python draws at random, which would be a branch or a constant of the graph.
    for key in ("use_cache", "layerdrop", "encoder_layerdrop", "decoder_layerdrop", "apply_spec_augment"):
        if hasattr(config, key):
            setattr(config, key, type(getattr(config, key))(0))
    if getattr(config, "is_encoder_decoder", False) and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = getattr(config, "pad_token_id", None) or 0
    dtype = PRECISIONS[precision]
    try:
        with torch.device(place):
            options: Dict[str, Any] = {"dtype": dtype}
            if attention:
                options["attn_implementation"] = attention
            model = getattr(transformers, name)._from_config(config, **options)
    except Exception as error:
        text = " ".join(str(error).split())[:200]
        raise CaptureError("{}: {} cannot be built: {}".format(path, name, text)) from error
    model.train()
    with torch.device(place):
        return model, example_of(model, config, kind, batch, sequence_length, dtype)


def _first(config: Any, names: Tuple[str, ...], default: Any) -> Any:
    """The first of some keys that a config or one of its parts has."""
    parts = [config] + [getattr(config, part) for part in ("text_config", "vision_config", "audio_config", "encoder",
                                                           "decoder") if getattr(config, part, None) is not None]
    for part in parts:
        for name in names:
            value = getattr(part, name, None)
            if value is not None:
                return value
    return default


def example_of(model: torch.nn.Module, config: Any, kind: str, batch: int, sequence_length: Optional[int],
               dtype: torch.dtype) -> Dict[str, torch.Tensor]:
    """A batch of the shapes that the model takes."""
    longest = _first(config, ("max_position_embeddings", "n_positions", "max_target_positions", "n_ctx"), 1024)
    longest = longest if isinstance(longest, int) and longest > 0 else 1024
    length = sequence_length or min(longest, 2048)
    ids = lambda: torch.zeros(batch, length, dtype=torch.int64)
    label = lambda: torch.zeros(batch, dtype=torch.int64)
    accepted = inspect.signature(model.forward).parameters

    def image(*more: int) -> torch.Tensor:
        size = _first(config, ("image_size",), 224)
        height, width = size if isinstance(size, (list, tuple)) else (size, size)
        return torch.zeros(batch, *more, _first(config, ("num_channels",), 3), height, width, dtype=dtype)

    if kind == "text":
        return {"input_ids": ids(), "labels": ids()}
    if kind == "text to text":
        return {"input_ids": ids(), "labels": ids()}
    if kind == "label":
        return {"input_ids": ids(), "labels": label()}
    if kind == "span":
        return {"input_ids": ids(), "start_positions": label(), "end_positions": label()}
    if kind == "image":
        return {"pixel_values": image(), "labels": label()}
    if kind == "video":
        return {"pixel_values": image(_first(config, ("num_frames",), 16)), "labels": label()}
    if kind == "hidden image":
        return {"pixel_values": image()}
    if kind == "pixels":
        pixels = image()
        return {"pixel_values": pixels, "labels": torch.zeros(batch, *pixels.shape[2:], dtype=torch.int64)}
    if kind == "image and text":
        return {"input_ids": ids(), "pixel_values": image(), "return_loss": True}  # type: ignore[dict-item]
    if kind == "sound to text":
        bins = _first(config, ("num_mel_bins", "input_feat_per_channel"), 80)
        frames = 2 * _first(config, ("max_source_positions",), 1500)
        name, shape = ("input_features", (batch, bins, frames))
        if config.model_type == "speech_to_text":
            shape = (batch, frames, bins)
        return {name: torch.zeros(shape, dtype=dtype), "labels": ids()}
    sound_name = "input_features" if "input_features" in accepted else "input_values"
    samples = sequence_length or 16000
    shape = (batch, samples, _first(config, ("feature_projection_input_dim", "num_mel_bins"), 80)) \
        if sound_name == "input_features" else (batch, samples)
    sound = torch.zeros(shape, dtype=dtype)
    if config.model_type == "audio-spectrogram-transformer":
        sound = torch.zeros(batch, config.max_length, config.num_mel_bins, dtype=dtype)
    return {sound_name: sound, "labels": label() if kind == "sound" else
            torch.zeros(batch, 32, dtype=torch.int64)}
