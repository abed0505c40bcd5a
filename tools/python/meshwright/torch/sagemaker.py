"""Version 2 of SageMaker's model-parallel library by plans of meshwright: see docs/smp.md.

    import meshwright.torch.sagemaker as tsm       # instead of torch.sagemaker

Scripts of it train by FSDP. Here FSDP's call is removed, `tsm.transform` returns the model, and
`tsm.DistributedOptimizer` wraps the optimizer: a call of the model in training is a whole step, forward, backward and
update, and gives an output whose loss has a backward() that has nothing left to do.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import types
from typing import Any, Callable, Dict, List, Mapping, Optional

import torch
import torch.distributed.checkpoint as dcp

from .. import smp
from ..smp import world
from ..smp.outputs import StepOutput, put_together
from ..smp.refusals import Refused, refused

DistributedOptimizer = smp.DistributedOptimizer
is_initialized, close = smp.is_initialized, smp.close


def init(config: Optional[Mapping[str, Any]] = None) -> None:
    """Starts the library; the first call of a script. Keys as in docs/job-file.md, "Version 2 parameters"."""
    world.init(config, version=2)


class _State:
    """Degrees, ranks and groups."""

    tensor_parallel_degree = expert_parallel_degree = context_parallel_degree = 1
    tp_size = ep_size = cp_size = 1
    tp_rank = ep_rank = cp_rank = 0
    sm_activation_offloading = False

    @property
    def rank(self) -> int:
        return smp.rank()

    @property
    def world_size(self) -> int:
        return smp.size()

    @property
    def hybrid_shard_degree(self) -> int:
        """The ranks that share a copy of the model's states."""
        return int(world.here().parameters.get("hybrid_shard_degree") or smp.size())

    @property
    def tp_process_group(self) -> Any:
        return smp.get_tp_process_group()

    cp_process_group = ep_process_group = tp_process_group

    @property
    def world_process_group(self) -> Any:
        return smp.get_world_process_group()

    rep_rank_process_group = world_process_group


state = _State()


@smp.step
def _train(model: Any, args: Any, kwargs: Dict[str, Any]) -> Any:
    output = model(*args, **kwargs)
    loss = output["loss"] if hasattr(output, "keys") else output[0] if isinstance(output, tuple) else output
    model.backward(loss)
    return output


@smp.step
def _evaluate(model: Any, args: Any, kwargs: Dict[str, Any]) -> Any:
    return model(*args, **kwargs)


class _Transformed(smp.DistributedModel):
    """A model whose call in training is a step."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        here = world.here()
        if here.tracing or self.in_evaluation:
            return super().__call__(*args, **kwargs)
        trains = self.module.training and torch.is_grad_enabled()
        if trains:
            output = _train(self, args, kwargs)
        else:
            self.in_evaluation = True
            try:
                output = _evaluate(self, args, kwargs)
            finally:
                self.in_evaluation = False
        leaves = [each.outputs[0] if isinstance(each, StepOutput) else each[0] for each in _step_outputs(output)]
        output = put_together(output, iter(leaves))
        if trains:
            loss = leaves[0] if not isinstance(output, dict) else output["loss"]
            loss.requires_grad_()   # a leaf: its backward() reaches no parameter
        return output

    in_evaluation = False


def _step_outputs(output: Any) -> List[Any]:
    if isinstance(output, dict):
        return [each for value in output.values() for each in _step_outputs(value)]
    if isinstance(output, tuple):
        return [each for value in output for each in _step_outputs(value)]
    return [output]


def transform(model: torch.nn.Module, device: Any = None, dtype: Any = None, config: Any = None,
              load_state_dict_from_rank0: bool = False, cp_comm_type: str = "p2p") -> Any:
    """The model for training by the plan. Rank 0's values are those of the start."""
    if config is not None:
        raise Refused("torch.sagemaker.transform: config: experts of a captured model are not divided over ranks; leave "
                      "it out, or train a known architecture from its config.json by `meshwright train`")
    return _Transformed(model.to(dtype) if dtype is not None else model)


def clip_grad_norm_(model: Any, max_norm: float, *args: Any, **kwargs: Any) -> torch.Tensor:
    """Clips gradients by their norm, if called before the first step or with DistributedOptimizer's gradient_clip."""
    return torch.tensor(world.here().optimizer.clip_master_grads(float(max_norm)))


class DelayedParamIniter:
    """Stands for the making of parameters on the meta device: they are made at once, with their values."""

    def __init__(self, model: torch.nn.Module, *args: Any, **kwargs: Any) -> None:
        if any(each.is_meta for each in model.parameters()):
            raise Refused("torch.sagemaker.delayed_param.DelayedParamIniter: the model is on the meta device, where its "
                          "parameters have no values; make it without torch.device(\"meta\")")

    def get_param_init_fn(self) -> Callable[..., Any]:
        return lambda module: module

    def get_post_param_init_fn(self) -> Callable[..., Any]:
        return lambda *_, **__: None

    def validate_params_and_buffers_inited(self) -> Any:
        return contextlib.nullcontext()


def _save(state_dict: Dict[str, Any], *args: Any, checkpoint_id: Any = None, path: Any = None, **_: Any) -> None:
    """torch.distributed.checkpoint's save. Every rank calls it."""
    dcp.save(state_dict, checkpoint_id=checkpoint_id or path)


def _load(state_dict: Dict[str, Any], *args: Any, checkpoint_id: Any = None, path: Any = None, **_: Any) -> None:
    """torch.distributed.checkpoint's load, into state_dict. Every rank calls it."""
    dcp.load(state_dict, checkpoint_id=checkpoint_id or path)


def compute_num_params(model: Any) -> int:
    """The parameters of the whole model."""
    run = getattr(model, "_run", None)
    if run is not None and run.info is not None:   # a rank's own parameters are those of its stage
        return sum(run.shape_of(each["name"]).numel() for each in run.captured.document["parameters"])
    return sum(each.numel() for each in getattr(model, "module", model).parameters())


_MODULES: Dict[str, Dict[str, Any]] = {
    "delayed_param": {"DelayedParamIniter": DelayedParamIniter},
    "grad_norm": {"clip_grad_norm_": clip_grad_norm_},
    "distributed.checkpoint.state_dict_saver": {
        "save": _save, "async_save": _save, "maybe_finalize_async_calls": lambda *_, **__: None},
    "distributed.checkpoint.state_dict_loader": {"load": _load},
    "moe.moe_config": {"MoEConfig": refused("torch.sagemaker.moe.moe_config.MoEConfig", "experts of a captured model are "
                                            "not divided over ranks; leave it out")},
    "nn.attn": {name: refused("torch.sagemaker.nn.attn." + name, "its kernel is the library's; use "
                              "torch.nn.functional.scaled_dot_product_attention")
                for name in ("FlashSelfAttention", "FlashGroupedQueryAttention")},
    "nn.huggingface.llama_flashattn": {"LlamaFlashAttention": refused(
        "torch.sagemaker.nn.huggingface.llama_flashattn.LlamaFlashAttention",
        "its kernel is the library's; use transformers' attn_implementation=\"sdpa\"")},
    "utils.module_utils": {"compute_num_params": compute_num_params},
    "logger": {"get_logger": lambda *_: logging.getLogger("meshwright.torch.sagemaker")},
}


def _make_modules() -> None:
    """Modules of the library's names, so that `from meshwright.torch.sagemaker.nn.attn import ...` works."""
    for path, names in _MODULES.items():
        parent, name = sys.modules[__name__], __name__
        for word in path.split("."):
            name += "." + word
            if name not in sys.modules:
                module = types.ModuleType(name)
                module.__path__ = []  # type: ignore[attr-defined]
                sys.modules[name] = module
                setattr(parent, word, module)
            parent = sys.modules[name]
        for each, value in names.items():
            setattr(parent, each, value)


__path__: List[str] = []   # a package
_make_modules()
