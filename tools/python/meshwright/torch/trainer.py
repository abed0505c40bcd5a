"""transformers' Trainer by a plan: an unchanged script under `meshwright launch`.

Each rank's Trainer believes that it is alone. It loads whole global batches, of which its replica takes its part, and
a training step is one of DistributedModel. A global batch is what as many processes would have under torchrun:
per_device_train_batch_size * gradient_accumulation_steps * ranks samples, where the job does not say another.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict

import torch

from . import distributed as mw
from . import handed_over
from .batches import Shard
from .errors import CaptureError

__all__ = ["patch"]


def _ranks() -> int:
    """The ranks that the plan has, or will have."""
    if not handed_over.is_capturing():
        return mw.size()
    ranks = handed_over.processes_of(mw.job())
    if ranks is None:
        raise CaptureError("how many processes the Trainer's batch is for is open; give cluster.processes_per_host in "
                           "the job")
    return ranks


def _alone() -> None:
    """Meets the other ranks, and then hides them from accelerate, which would start a group of its own."""
    mw.init()
    for name in list(os.environ):
        if name.startswith(("OMPI_COMM_WORLD_", "PMI_")) or name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
            del os.environ[name]


def _loop(original: Callable[..., Any]) -> Callable[..., Any]:
    def _inner_training_loop(self: Any, *words: Any, **named: Any) -> Any:
        args = self.args
        global_batch = mw.job().get("training", {}).get("global_batch")
        if not isinstance(global_batch, int):
            global_batch = args.per_device_train_batch_size * args.gradient_accumulation_steps * _ranks()
        if args.fp16 or args.bf16:
            raise CaptureError("the Trainer's mixed precision (bf16, fp16) is not run by a plan; load the model in that "
                               "type instead")
        args.per_device_train_batch_size, args.gradient_accumulation_steps = global_batch, 1
        self._train_batch_size = global_batch
        args.dataloader_drop_last = True
        self._clip, args.max_grad_norm = args.max_grad_norm, 0.0
        return original(self, *words, **named)
    return _inner_training_loop


def _optimizer(original: Callable[..., Any]) -> Callable[..., Any]:
    def create_optimizer(self: Any, *words: Any, **named: Any) -> Any:
        optimizer = original(self, *words, **named)
        mw.DistributedOptimizer(self.optimizer, self._clip)
        own_loss = self.compute_loss.__func__ is not _kept["compute_loss"]
        if own_loss or self.label_smoother is not None or self.compute_loss_func is not None:
            module = self.model

            def step(**inputs: Any) -> Any:
                return self.compute_loss(module, inputs)

            self._by_plan = mw.DistributedModel(step)
        else:
            self._by_plan = mw.DistributedModel(self.model)
        return optimizer
    return create_optimizer


def training_step(self: Any, model: Any, inputs: Dict[str, Any], num_items_in_batch: Any = None) -> torch.Tensor:
    """A step of the plan, which also updates the parameters: what the Trainer's optimizer does then is nothing."""
    model.train()
    batch = dict(self._prepare_inputs(inputs))
    part = next(iter(Shard([batch], mw.dp_rank(), mw.dp_size())))
    random = torch.get_rng_state()   # Ranks draw different numbers in a step, and must shuffle identically.
    loss = self._by_plan.step(part)
    torch.set_rng_state(random)
    return loss.to(torch.float32).to(self.args.device)


def _first(original: Callable[..., Any]) -> Callable[..., Any]:
    def with_whole_weights(self: Any, *words: Any, **named: Any) -> Any:
        if getattr(self, "_by_plan", None) is not None:
            self._by_plan.whole()
        return original(self, *words, **named)
    return with_whole_weights


def _state_folder(trainer: Any) -> str:
    return os.path.join(trainer.args.output_dir, "meshwright")


def _saving(original: Callable[..., Any]) -> Callable[..., Any]:
    def _save_checkpoint(self: Any, *words: Any, **named: Any) -> Any:
        result = original(self, *words, **named)
        mw.save(_state_folder(self), self._by_plan, keep=self.args.save_total_limit or 2)
        return result
    return _save_checkpoint


def _loading(original: Callable[..., Any]) -> Callable[..., Any]:
    def _load_optimizer_and_scheduler(self: Any, checkpoint: Any) -> Any:
        if checkpoint is None:
            return None
        result = original(self, checkpoint)
        if os.path.isdir(_state_folder(self)):
            mw.resume(_state_folder(self), self._by_plan)
        return result
    return _load_optimizer_and_scheduler


def _on_rank_0(original: Callable[..., Any]) -> Callable[..., Any]:
    def only_there(self: Any, *words: Any, **named: Any) -> Any:
        return original(self, *words, **named) if mw.rank() == 0 else None
    return only_there


_kept: Dict[str, Any] = {}
_WRAPPERS = {"_inner_training_loop": _loop, "create_optimizer": _optimizer, "evaluate": _first, "predict": _first,
             "save_model": _first, "_save_checkpoint": _saving, "_load_optimizer_and_scheduler": _loading,
             "_save_rng_state": _on_rank_0, "_save_optimizer_and_scheduler": _on_rank_0}


def patch(module: Any) -> None:
    """Called with transformers.trainer when a script has imported it."""
    from transformers import training_args   # type: ignore[import-not-found]
    _alone()
    _kept["compute_loss"] = module.Trainer.compute_loss
    for name, wrapper in _WRAPPERS.items():
        setattr(module.Trainer, name, wrapper(getattr(module.Trainer, name)))
    module.Trainer.training_step = training_step
    module.Trainer._get_grad_norm = lambda self, *_, **__: self._by_plan.grad_norm
    training_args.TrainingArguments.process_index = property(lambda self: mw.rank())
    training_args.TrainingArguments.local_process_index = property(lambda self: mw.local_rank())
    module.seed_worker = _seeded_alike(module.seed_worker)


def _seeded_alike(original: Callable[..., Any]) -> Callable[..., Any]:
    def seed_worker(worker: int, num_workers: int, rank: int) -> Any:
        return original(worker, num_workers, 0)   # Stages of one replica need the same samples.
    return seed_worker
