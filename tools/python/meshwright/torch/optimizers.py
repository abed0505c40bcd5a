"""Which optimizer updates: meshwright's own, or the script's class on this rank's elements.

meshwright's AdamW, Adam and SGD update where all groups have the same settings, but for decay or none. Otherwise
the script's own class steps, on flat parameters that are this rank's elements of the real ones. Its states are
sharded and saved in both cases, because they lie in the run's memory. A class can do so if it works element by
element, which a trial on small parameters finds out.
"""

from __future__ import annotations

import collections
import inspect
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch

__all__ = ["OnShards", "Plain", "plain_settings", "states_of", "word_of"]


class Plain(NamedTuple):
    """What one of meshwright's optimizers needs to update as an optimizer of PyTorch does."""

    settings: Dict[str, Any]    # keys of `training`
    learning_rate: float
    decaying: List[int]         # identities of the parameters that decay


def _adamw(group: Dict[str, Any]) -> Dict[str, Any]:
    return {"beta1": group["betas"][0], "beta2": group["betas"][1], "epsilon": group["eps"]}


def _sgd(group: Dict[str, Any]) -> Dict[str, Any]:
    return {"momentum": group["momentum"]}


class _Known(NamedTuple):
    word: str
    settings: Callable[[Dict[str, Any]], Dict[str, Any]]
    states: Tuple[str, ...]     # PyTorch's names of the moments
    counts: bool                # whether PyTorch counts steps for each parameter


_KNOWN = {"AdamW": _Known("adamw", _adamw, ("exp_avg", "exp_avg_sq"), True),
          "Adam": _Known("adam", _adamw, ("exp_avg", "exp_avg_sq"), True),
          "SGD": _Known("sgd", _sgd, ("momentum_buffer",), False)}
_EXACT = (0, 1)   # values of Dtype: fp64 and fp32
# Options that change the arithmetic, each with the only value that meshwright's optimizers support.
_PLAIN = {"amsgrad": False, "maximize": False, "nesterov": False, "dampening": 0, "differentiable": False}


def _known(optimizer: torch.optim.Optimizer) -> Optional[_Known]:
    name = type(optimizer).__name__   # another library may call a class of its own AdamW
    return _KNOWN[name] if name in _KNOWN and isinstance(optimizer, getattr(torch.optim, name)) else None


def plain_settings(optimizer: torch.optim.Optimizer) -> Optional[Plain]:
    """The settings of meshwright's optimizer that is equal to this one, or None if none is."""
    known = _known(optimizer)
    groups = optimizer.param_groups
    first = groups[0]
    if known is None or any(group.get(key, plain) != plain for group in groups for key, plain in _PLAIN.items()):
        return None
    decays = {group["weight_decay"] for group in groups if group["weight_decay"]}
    if len(decays) > 1 or any(known.settings(group) != known.settings(first) or group["lr"] != first["lr"]
                              for group in groups):
        return None
    settings = {"optimizer": word_of(optimizer, known.states), **known.settings(first),
                "weight_decay": max(decays, default=0.0)}
    return Plain(settings, float(first["lr"]),
                 [id(each) for group in groups if group["weight_decay"] for each in group["params"]])


def word_of(optimizer: torch.optim.Optimizer, states: Sequence[str]) -> str:
    """`training.optimizer` of meshwright's optimizer that is equal, or that keeps as many states."""
    known = _known(optimizer)
    if known is None:
        return "adam" if len(states) == 2 else "sgd"
    return "adamw" if known.word == "adam" and optimizer.param_groups[0].get("decoupled_weight_decay") else known.word


# ---------------------------------------------------------------------------------------------
# Optimizers that run as the script's own class.


def _refuse(optimizer: torch.optim.Optimizer, why: str, instead: str = "") -> ValueError:
    return ValueError("DistributedOptimizer: {} {}; use {}".format(
        type(optimizer).__name__, why, instead or "a class that works element by element, such as AdamW"))


def states_of(optimizer: torch.optim.Optimizer) -> Tuple[str, ...]:
    """The names of the states that an optimizer keeps for each element. Raises ValueError for one that cannot run."""
    known = _known(optimizer)
    if known is not None and plain_settings(optimizer) is not None:
        return known.states
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    if closure is not None and closure.default is closure.empty:
        raise _refuse(optimizer, "calls a closure, which means several passes over a batch, and a plan has one",
                      "a class whose step needs no closure")
    try:
        with torch.random.fork_rng(devices=[]):
            names = _tried(optimizer)
    except (ArithmeticError, AssertionError, AttributeError, LookupError, RuntimeError, TypeError,
            ValueError) as error:
        if str(error).startswith("DistributedOptimizer"):
            raise
        raise _refuse(optimizer, "does not step on flat parts of parameters, which is what a rank may hold ({}: "
                      "{})".format(type(error).__name__, error)) from error
    if len(names) > 2:
        raise _refuse(optimizer, "keeps {} values for each element ({}), and a plan has room for 2".format(
            len(names), ", ".join(names)), "settings that need fewer")
    return names


def _tried(optimizer: torch.optim.Optimizer) -> Tuple[str, ...]:
    """Steps on small parameters, whole and in parts by themselves; the names of states with a value for each element."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    groups = range(len(optimizer.param_groups))
    torch.manual_seed(0)
    weights = [torch.randn(6, 4, device=device) for _ in groups]
    gradients = [torch.randn(3, 6, 4, device=device) for _ in groups]
    whole, states = _stepped(optimizer, dict(enumerate(weights)), dict(enumerate(gradients)))
    names: Dict[str, None] = {}
    for number in groups:
        names.update({name: None for name, value in states[number].items()
                      if isinstance(value, torch.Tensor) and value.shape == (6, 4)})
        parts = [_stepped(optimizer, {number: weights[number].flatten()[part]},
                          {number: gradients[number].flatten(1)[:, part]})[0][number]
                 for part in (slice(0, 13), slice(13, 24))]
        moved = float((whole[number] - weights[number]).norm())
        if moved == 0:
            raise _refuse(optimizer, "changes no parameter when it steps, as a wrapper of another optimizer does",
                          "the optimizer inside it")
        if float((torch.cat(parts) - whole[number].flatten()).norm()) > 1e-4 * moved:
            raise _refuse(optimizer, "makes an element's update of other elements too (norms, sums or random "
                          "numbers), and a rank may hold a part of each parameter")
    return tuple(names)


def _stepped(optimizer: torch.optim.Optimizer, weights: Dict[int, torch.Tensor],
             gradients: Dict[int, torch.Tensor]) -> Tuple[Dict[int, torch.Tensor], Dict[int, Dict[str, Any]]]:
    """(weights, states) after three steps, by group."""
    clone = _clone(optimizer)
    parameters = {number: each.clone().requires_grad_() for number, each in weights.items()}
    for number, parameter in parameters.items():
        values = _values_of(optimizer.param_groups[number])
        if float(values.get("lr", 1)) == 0:
            values["lr"] = 1e-3   # a warm-up begins with 0
        clone.param_groups.append(dict(values, params=[parameter]))
        own = next((each for each in optimizer.param_groups[number]["params"] if each in optimizer.state), None)
        if own is not None:   # Adagrad makes its states before the first step
            clone.state[parameter] = {
                name: torch.full_like(parameter, float(value.flatten()[0]) if value.numel() else 0.0)
                if _is_of_elements(value, own) else _copied(value) for name, value in optimizer.state[own].items()}
    for at in range(3):
        for number, parameter in parameters.items():
            parameter.grad = gradients[number][at].clone()
        type(optimizer).step(clone)
    return ({number: each.detach() for number, each in parameters.items()},
            {number: dict(clone.state.get(each, {})) for number, each in parameters.items()})


def _clone(optimizer: torch.optim.Optimizer) -> Any:
    """An optimizer of the same class and attributes, without groups and states."""
    clone = object.__new__(type(optimizer))
    clone.__dict__.update(vars(optimizer))
    clone.param_groups, clone.state = [], collections.defaultdict(dict)
    return clone


def _values_of(group: Dict[str, Any]) -> Dict[str, Any]:
    return {key: value for key, value in group.items() if key != "params"}


def _is_of_elements(value: Any, parameter: torch.Tensor) -> bool:
    return isinstance(value, torch.Tensor) and value.dim() > 0 and value.shape == parameter.shape


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


class _Shard(NamedTuple):
    group: int
    parameter: torch.Tensor           # flat: some elements of one of the module's parameters
    gradient: torch.Tensor
    moments: List[torch.Tensor]
    working: Optional[torch.Tensor]   # a copy of the parameter in 16 bits


class OnShards:
    """The script's optimizer on this rank's elements, bucket by bucket.

    `parameters` are the module's, by their numbers on this rank (None for a buffer). `states` are the names of the states that lie in
    the Runtime's memory. `view` makes a tensor of an address, a type, the first element and how
    many.
    """

    def __init__(self, optimizer: torch.optim.Optimizer, states: Sequence[str], parameters: List[Any],
                 view: Callable[[int, int, int, int], torch.Tensor]) -> None:
        self._optimizer, self._states, self._parameters, self._view = optimizer, states, parameters, view
        self._group_of = {id(each): number for number, group in enumerate(optimizer.param_groups)
                          for each in group["params"]}
        self._buckets: Dict[int, Tuple[Any, List[_Shard]]] = {}
        self._values: List[Dict[str, Any]] = []
        self._written: Dict[str, None] = {}   # keys of groups that the class itself sets
        self._saved: Optional[Dict[int, Dict[str, Dict[str, Any]]]] = None

    def begin_step(self) -> None:
        """Every bucket of a step gets the settings with which the step begins."""
        self._values = [_values_of(group) for group in self._optimizer.param_groups]

    def update(self, number: int, segments: List[Tuple[int, int, int, int]], arrays: Tuple[Tuple[int, int], ...],
               factor: float, step: int) -> None:
        """Steps on the segments of a bucket, as tools/python/runtime_module.cpp gives them."""
        if number not in self._buckets:
            self._buckets[number] = self._bucket(segments, arrays, step)
        clone, shards = self._buckets[number]
        for shard in shards:
            shard.parameter.grad = shard.gradient.to(shard.parameter.dtype).mul_(factor)
        groups = sorted({shard.group for shard in shards})
        for group, own in zip(groups, clone.param_groups):
            own.update(self._values[group])
        type(clone).step(clone)
        for group, own in zip(groups, clone.param_groups):
            for key, value in own.items():
                if key != "params" and value is not self._values[group].get(key):
                    self._optimizer.param_groups[group][key] = value
                    self._written[key] = None
        for shard in shards:
            self._keep(clone.state[shard.parameter], shard)

    def _bucket(self, segments: List[Tuple[int, int, int, int]], arrays: Tuple[Tuple[int, int], ...],
                step: int) -> Tuple[Any, List[_Shard]]:
        clone, shards = _clone(self._optimizer), []
        (weights, kind), (gradients, of_gradients), *moments, (working, of_working), (average, _) = arrays
        if average or any(each not in _EXACT for address, each in [(weights, kind)] + moments if address):
            raise _refuse(self._optimizer, "needs weights and moments in fp32, and no average of the weights",
                          "training.master_weights fp32, no training.moments, and no training.ema_decay")
        for index, first, begin, count in segments:
            whole = self._parameters[index]
            parameter = self._view(weights, kind, begin, count).detach().requires_grad_()
            shard = _Shard(self._group_of[id(whole)], parameter, self._view(gradients, of_gradients, begin, count),
                           [self._view(address, each, begin, count) for address, each in moments if address],
                           self._view(working, of_working, begin, count) if working else None)
            shards.append(shard)
            state = self._begun(shard, whole, first, step)
            if state:
                clone.state[parameter] = state
        for number in sorted({shard.group for shard in shards}):
            clone.param_groups.append({"params": [each.parameter for each in shards if each.group == number]})
        return clone, shards

    def _begun(self, shard: _Shard, whole: torch.Tensor, first: int, step: int) -> Dict[str, Any]:
        """The states of a shard before its first step here: those of a checkpoint, of meshwright's optimizer or the
        script's."""
        moments = dict(zip(self._states, shard.moments))
        if self._saved is not None:
            return {**moments, **{name: _copied(value) for name, value in self._saved[shard.group]["state"].items()}}
        if step > 1:
            known = _known(self._optimizer)
            if known is None:
                raise ValueError("resume: the checkpoint has no states of {}; resume with the optimizer that the run "
                                 "had".format(type(self._optimizer).__name__))
            return {**moments, **({"step": torch.tensor(float(step - 1))} if known.counts else {})}
        return {name: value.detach().flatten()[first:first + shard.parameter.numel()].to(shard.parameter, copy=True)
                if name in self._states and isinstance(value, torch.Tensor) else _copied(value) for name, value in self._optimizer.state.get(whole, {}).items()}

    def _keep(self, state: Dict[str, Any], shard: _Shard) -> None:
        """States with a value for each element lie in the run's memory; the class may have made them anew."""
        for name, value in state.items():
            if name in self._states:
                own = shard.moments[self._states.index(name)]
                if isinstance(value, torch.Tensor) and value is not own:
                    state[name] = own.copy_(value)
            elif _is_of_elements(value, shard.parameter) and value.numel() > 1:
                raise _refuse(self._optimizer, "has begun to keep {} for each element, for which the plan has no "
                              "room".format(name), "the same settings from the first step on")
        if shard.working is not None:
            shard.working.copy_(shard.parameter.detach())

    def record(self) -> Dict[int, Dict[str, Dict[str, Any]]]:
        """By group, of those that this rank has: states that are one value for a parameter, and what the class wrote."""
        found = dict(self._saved or {})
        for clone, shards in self._buckets.values():
            for shard in shards:
                found[shard.group] = {
                    "state": {name: _copied(value) for name, value in clone.state[shard.parameter].items()
                              if name not in self._states},
                    "group": {key: self._optimizer.param_groups[shard.group][key] for key in self._written}}
        return found

    def load(self, saved: Dict[int, Dict[str, Dict[str, Any]]]) -> None:
        """Goes on from what `record` returned; the states in the run's memory are loaded already."""
        self._saved = saved or None
        self._buckets.clear()
        for number, each in saved.items():
            self._optimizer.param_groups[number].update(each["group"])
