"""From a user's module or step to a flat list of calls of ATen operations.

`torch.export` (non-strict) captures the forward pass with the loss inside. What it returns has
nested graphs for regions of autocast and of no gradient; `flat_program` lays them out in one list.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import logging
import operator
import sys
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import torch
import torch.utils._pytree as pytree

from .errors import CaptureError, explained, frames_in, users_line

__all__ = ["Call", "Context", "Example", "Program", "Ref", "Step", "batch_of", "exported", "flat_program"]


# ---------------------------------------------------------------------------------------------
# The objects that a capture exports: an example and a step.


class Example:
    """The tensors of an example in order, with names, and how the rest is put around them again."""

    def __init__(self, example: Any, parameters: Sequence[str] = ()) -> None:
        if not isinstance(example, (dict, tuple, list)):
            example = dict(example) if hasattr(example, "keys") else (example,)
        leaves, self.structure = pytree.tree_flatten_with_path(example)
        self.leaves = [leaf for _, leaf in leaves]
        self.places = [place for place, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]
        self.names = [self._name(leaves[place][0], parameters) for place in self.places]
        if not self.places:
            raise CaptureError("the example has no tensor; give a dictionary or a tuple of tensors")

    @staticmethod
    def _name(path: Sequence[Any], parameters: Sequence[str]) -> str:
        words = [str(getattr(key, "key", getattr(key, "idx", key))) for key in path]
        if words and words[0].isdigit() and int(words[0]) < len(parameters):
            words[0] = parameters[int(words[0])]
        return ".".join(words)

    @property
    def tensors(self) -> List[torch.Tensor]:
        return [self.leaves[place] for place in self.places]

    def with_tensors(self, tensors: Sequence[torch.Tensor]) -> Any:
        """The example with other tensors in the place of its own."""
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors):
            leaves[place] = tensor
        return pytree.tree_unflatten(leaves, self.structure)


_WRAPPERS = {
    "DistributedDataParallel": "module", "DataParallel": "module", "OptimizedModule": "_orig_mod",
    "AveragedModel": "module",
}


def _unwrapped(module: torch.nn.Module) -> torch.nn.Module:
    while True:
        kind = type(module).__name__
        if kind == "FullyShardedDataParallel" or any(type(each).__name__ == "DTensor" for each in module.parameters()):
            raise CaptureError("{} is sharded already (FullyShardedDataParallel, fully_shard); capture the module "
                               "before that line".format(kind))
        inner = getattr(module, _WRAPPERS[kind], None) if kind in _WRAPPERS else None
        if not isinstance(inner, torch.nn.Module):
            return module
        module = inner


@contextlib.contextmanager
def _without_wrappers(module: torch.nn.Module) -> Iterator[None]:
    """Children that are wrapped for a parallel library are replaced by what they wrap, for a while."""
    replaced = []
    for parent in list(module.modules()):
        for name, child in list(parent.named_children()):
            inner = _unwrapped(child)
            if inner is not child:
                replaced.append((parent, name, child))
                parent._modules[name] = inner
    try:
        yield
    finally:
        for parent, name, child in replaced:
            parent._modules[name] = child


def _modules_of(step: Callable[..., Any]) -> Dict[str, torch.nn.Module]:
    """The modules that a function reaches: by its closure, its globals, its defaults or as a method."""
    found: Dict[str, torch.nn.Module] = {}
    while isinstance(step, functools.partial):
        for name, value in list(step.keywords.items()) + [(str(i), a) for i, a in enumerate(step.args)]:
            if isinstance(value, torch.nn.Module):
                found["bound_" + name] = value
        step = step.func
    owner = getattr(step, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        found["self"] = owner
    elif owner is not None and hasattr(owner, "__dict__"):
        found.update({k: v for k, v in vars(owner).items() if isinstance(v, torch.nn.Module)})
    function = inspect.unwrap(getattr(step, "__func__", step))
    code = getattr(function, "__code__", None)
    if code is None:
        return found
    for name, cell in zip(code.co_freevars, function.__closure__ or ()):
        with contextlib.suppress(ValueError):
            value = cell.cell_contents
            if isinstance(value, torch.nn.Module):
                found[name] = value
            elif inspect.isfunction(value):
                found.update({k: v for k, v in _modules_of(value).items() if k not in found})
    for name in code.co_names:
        value = function.__globals__.get(name)
        if isinstance(value, torch.nn.Module):
            found[name] = value
    for name, value in zip(reversed(code.co_varnames[:code.co_argcount]), reversed(function.__defaults__ or ())):
        if isinstance(value, torch.nn.Module):
            found[name] = value
    return found


class Step(torch.nn.Module):
    """What is exported: from the tensors of an example to the loss.

    A module alone keeps its own names. The modules that a function closes over have the names of its
    variables; the only one has none, so that parameters are called as the module calls them. With `keeps`, what
    a function returns after the loss is captured too.
    """

    def __init__(self, target: Any, loss: Optional[Callable[..., Any]], example: Any, keeps: bool = False) -> None:
        super().__init__()
        self.keeps = keeps
        module = target if isinstance(target, torch.nn.Module) else None
        if module is None and not callable(target):
            raise CaptureError("{!r} is neither an nn.Module nor a function".format(target))
        if module is not None:
            modules = {"module": _unwrapped(module)}
        else:
            modules = {name: _unwrapped(each) for name, each in _modules_of(target).items()}
            if not modules:
                raise CaptureError("the step function reaches no nn.Module by its closure, its globals or its "
                                   "default arguments; pass the module and a loss instead")
        unique: Dict[int, str] = {}
        for name, each in list(modules.items()):
            if id(each) in unique:
                del modules[name]
            unique[id(each)] = name
        self.prefix = "parts.{}.".format(next(iter(modules))) if len(modules) == 1 else "parts."
        self.parts = torch.nn.ModuleDict(modules)
        self._call = modules["module"] if module is not None else target
        object.__setattr__(self, "_loss", loss)
        called = modules["module"].forward if module is not None else target
        try:
            parameters = [name for name, each in inspect.signature(called).parameters.items()
                          if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
        except (TypeError, ValueError):
            parameters = []
        object.__setattr__(self, "example", Example(example, parameters))
        self.lost: Sequence[str] = ()   # what the step does to gradients that an exported program does not have
        self.title = type(modules["module"]).__name__ if module is not None else getattr(
            target, "__name__", type(target).__name__)
        self.shared = list(modules)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("_call", "title", "prefix", "shared", "keeps", "lost"):
            object.__setattr__(self, name, value)  # The module is registered once, among the parts.
        else:
            super().__setattr__(name, value)

    def own_name(self, name: str) -> str:
        """The name of a parameter or a module as the user's module calls it."""
        if name.startswith(self.prefix):
            return name[len(self.prefix):]
        if name + "." == self.prefix or name == "parts":
            return ""
        return name[len("parts."):] if name.startswith("parts.") else name

    def forward(self, tensors: List[torch.Tensor]) -> Any:
        example = self.example.with_tensors(tensors)
        if isinstance(example, dict):
            given = {name: value for name, value in example.items()}
            if self._loss is not None and isinstance(self._call, torch.nn.Module):
                given = _accepted(self._call, given)
            output = self._call(**given)
        else:
            given = tuple(example)
            if self._loss is not None and isinstance(self._call, torch.nn.Module):
                given = _accepted(self._call, given)
            output = self._call(*given)
        if self._loss is not None:
            output = self._loss(output, example)
        return (_loss_in(output), *output[1:]) if self.keeps else _loss_in(output)


def _accepted(module: torch.nn.Module, given: Any) -> Any:
    """With a loss function, an example may hold targets too: a module gets what its forward names."""
    parameters = inspect.signature(module.forward).parameters.values()
    if any(each.kind == each.VAR_KEYWORD for each in parameters) and isinstance(given, dict):
        return given
    if any(each.kind == each.VAR_POSITIONAL for each in parameters) and not isinstance(given, dict):
        return given
    names = [each.name for each in parameters if each.kind in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY)]
    if isinstance(given, dict):
        return {name: value for name, value in given.items() if name in names}
    return given[:len(names)]


def _loss_in(output: Any) -> torch.Tensor:
    loss = getattr(output, "loss", None)
    if loss is None and isinstance(output, dict):
        loss = output.get("loss")
    if loss is None and isinstance(output, (tuple, list)) and output:
        loss = output[0]
    if loss is None:
        loss = output
    if not isinstance(loss, torch.Tensor):
        raise CaptureError("the step returns {}; it must return the loss, an output with .loss, or a tuple whose "
                           "first element is the loss".format(type(output).__name__))
    if loss.numel() != 1:
        raise CaptureError("the step returns a tensor of shape {}, which is no loss; return a scalar, or pass "
                           "loss=, a function of (output, example)".format(tuple(
                               size if isinstance(size, int) else size.node.hint for size in loss.shape)))
    return loss


# ---------------------------------------------------------------------------------------------
# The export of a step by torch.export.


@contextlib.contextmanager
def _as_in_training(step: Step) -> Iterator[None]:
    """What a capture changes for a while: modes, wrappers, and recomputation that the plan decides."""
    import torch.utils.checkpoint as checkpoint
    with contextlib.ExitStack() as stack:
        stack.enter_context(_without_wrappers(step))
        modes = [(each, each.training) for each in step.modules()]
        for part in step.parts.values():
            if not part.training:
                part.train()
        stack.callback(lambda: [setattr(each, "training", mode) for each, mode in modes])
        for each in step.modules():
            if getattr(each, "gradient_checkpointing", False) is True:
                each.gradient_checkpointing = False
                stack.callback(setattr, each, "gradient_checkpointing", True)

        # Scripts may hold checkpoint() under other names, so the function that it calls is replaced.
        stack.callback(setattr, checkpoint, "_checkpoint_impl", checkpoint._checkpoint_impl)
        checkpoint._checkpoint_impl = lambda function, args, kwargs, **_: function(*args, **kwargs)
        # Autocast for CUDA turns itself off where there is no GPU, but the captured model is meant for one.
        import torch.cuda.amp.common as common
        missing = common.amp_definitely_not_available
        common.amp_definitely_not_available = lambda: False
        stack.callback(setattr, common, "amp_definitely_not_available", missing)
        # Under export, transformers builds attention masks that it leaves out in training: for causal
        # attention, and for sequences that are packed in one row. A script that packs sequences gives
        # position_ids.
        masks = sys.modules.get("transformers.masking_utils")
        if masks is not None and "position_ids" not in step.example.names:
            for name, instead in (("is_torchdynamo_exporting", lambda *_: False),
                                  ("find_packed_sequence_indices", lambda *_: None)):
                if hasattr(masks, name):
                    stack.callback(setattr, masks, name, getattr(masks, name))
                    setattr(masks, name, instead)
        if not torch.cuda.is_available():
            supported = torch.cuda.is_bf16_supported
            torch.cuda.is_bf16_supported = lambda *_, **__: True
            stack.callback(setattr, torch.cuda, "is_bf16_supported", supported)
        yield


def batch_of(example: Example, batch_axes: Optional[Dict[str, Optional[int]]]) -> Tuple[int, Dict[str, int], str]:
    """(samples, axis of the batch by name of the input, why there is none).

    Without `batch_axes` the first axis of all inputs is the batch, if they agree in its size.
    """
    tensors = dict(zip(example.names, example.tensors))
    if batch_axes is not None:
        unknown = [name for name in batch_axes if name not in tensors]
        if unknown:
            raise CaptureError("batch_axes names {}, which is no input; inputs: {}".format(
                unknown[0], ", ".join(tensors)))
        axes = {name: axis for name, axis in batch_axes.items() if axis is not None}
        sizes = {tensors[name].shape[axis] for name, axis in axes.items()}
        if len(sizes) > 1:
            raise CaptureError("batch_axes names axes of different sizes: {}".format(sorted(sizes)))
        return (sizes.pop(), axes, "") if sizes else (1, {}, "batch_axes names no axis")
    axes = {name: 0 for name, tensor in tensors.items() if tensor.dim() > 0}
    sizes: Dict[int, List[str]] = {}
    for name in axes:
        sizes.setdefault(tensors[name].shape[0], []).append(name)
    if len(sizes) > 1 and 1 in sizes:
        for name in sizes.pop(1):
            del axes[name]  # Broadcast over the batch.
    if not axes:
        return 1, {}, "no input has an axis"
    if len(sizes) > 1:
        (first, names), (second, others) = list(sizes.items())[:2]
        return 1, {}, ("the first axes of the inputs differ: {} has {}, {} has {}; pass batch_axes if another axis "
                       "is the batch".format(names[0], first, others[0], second))
    return next(iter(sizes)), axes, ""


@contextlib.contextmanager
def _noting_lost(names: List[str]) -> Iterator[None]:
    """Notes what an exported program does not have: backwards of the user's autograd.Functions, hooks of tensors."""
    def noting(own: Any, name: str) -> Any:
        def forward(*args: Any, **kwargs: Any) -> Any:
            names.append("the backward of the autograd.Function " + name)
            return own.__func__(*args, **kwargs)
        return staticmethod(forward)

    def register_hook(tensor: torch.Tensor, hook: Any) -> Any:
        names.append("a hook of a tensor's gradient")
        return of_tensors(tensor, hook)

    kinds, replaced = [torch.autograd.Function], []
    for kind in kinds:
        kinds += kind.__subclasses__()
        own = vars(kind).get("forward")
        if isinstance(own, staticmethod) and not kind.__module__.startswith(("torch.", "meshwright.")):
            replaced.append((kind, own))
            kind.forward = noting(own, kind.__name__)  # type: ignore[method-assign]
    of_tensors = torch.Tensor.register_hook
    torch.Tensor.register_hook = register_hook  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        torch.Tensor.register_hook = of_tensors  # type: ignore[method-assign]
        for kind, own in replaced:
            kind.forward = own  # type: ignore[method-assign,assignment]


def _export(step: Step, tensors: Sequence[torch.Tensor], axes: Optional[Dict[str, int]]) -> Any:
    dynamic = None
    if axes is not None:
        dynamic = ([{axes[name]: torch.export.Dim.AUTO} if name in axes else None for name in step.example.names],)
    # A failing export prints its whole unfinished graph. The message of the error says where it stopped.
    silent, lost = io.StringIO(), []  # type: ignore[var-annotated]
    disabled = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with contextlib.redirect_stdout(silent), contextlib.redirect_stderr(silent), _noting_lost(lost):
            return torch.export.export(step, (list(tensors),), dynamic_shapes=dynamic, strict=False)
    finally:
        logging.disable(disabled)
        step.lost = lost + [
            "a hook of {}'s gradient".format(step.own_name(name) or step.title)
            for name, each in [*step.named_parameters(), *step.named_modules()]
            if each._backward_hooks or getattr(each, "_backward_pre_hooks", None)]


def exported(step: Step, axes: Dict[str, int], samples: int) -> Tuple[Any, str]:
    """The exported program, and why the number of samples is fixed in it ("" if it is not).

    The axis of the batch is dynamic where the model allows it. One sample is exported as two, because
    an axis of one would be taken as fixed.
    """
    tensors = step.example.tensors
    with _as_in_training(step):
        reason = ""
        if axes:
            several = tensors
            if samples == 1:
                several = [torch.cat([each, each], axes[name]) if name in axes else each
                           for name, each in zip(step.example.names, tensors)]
            try:
                program = _export(step, several, axes)
                values = [node.meta["val"] for node in program.graph.nodes
                          if node.op == "placeholder" and node.name in program.graph_signature.user_inputs]
                fixed = [name for name, value in zip(step.example.names, values)
                         if name in axes and isinstance(value.shape[axes[name]], int)]
                if not fixed:
                    return program, ""
                reason = "the code of the model fixes the first axis of {} to the size of the example".format(fixed[0])
                if samples != 1:
                    return program, reason
            except CaptureError:
                raise
            except Exception as error:  # Whatever stops a dynamic axis: a fixed one may do.
                reason = "the batch cannot change: " + " ".join(str(error).split())[:160]
        try:
            return _export(step, tensors, None), reason
        except Exception as error:
            raise explained(error, "torch.export") from error


# ---------------------------------------------------------------------------------------------
# The types below describe an exported program as one flat list of calls, which flat_program() makes.


class Ref(NamedTuple):
    """A value of a program, where a call takes it."""

    value: int


class Context(NamedTuple):
    """How a call runs: with gradients or without, and the type to which autocast casts, if any."""

    gradients: bool = True
    autocast: Any = None


class Call(NamedTuple):
    """One node of the graph. Its result is the value `result`."""

    target: Any
    args: Tuple[Any, ...]
    kwargs: Dict[str, Any]
    result: int
    module: str
    trace: str                # frames of the user's code, as text
    context: Context
    decides: bool             # data decide a shape or a number of its result
    sizes: Any                # what export knows of its result

    @property
    def place(self) -> str:
        """'file:line (code)' of the user's code."""
        return users_line(frames_in(self.trace)) or ""


class Source(NamedTuple):
    """A value that is given: kind is parameter, buffer, constant or input."""

    kind: str
    name: str
    value: int
    constant: Any


class Program(NamedTuple):
    sources: List[Source]
    calls: List[Call]
    loss: int
    values: int
    outputs: Tuple[Any, ...] = ()   # what the step returns besides the loss: Refs, or constants


def _path(node: Any, step: Step, inherited: str) -> str:
    stack = node.meta.get("nn_module_stack")
    if not stack:
        return inherited
    path = list(stack.values())[-1][0]
    return step.own_name(path.split("@")[0]) if isinstance(path, str) else inherited


def _memory_of(tensor: Any) -> Any:
    return (tensor.data_ptr(), tuple(tensor.shape)) if isinstance(tensor, torch.Tensor) and tensor.numel() else None


def _parameters_of_keras(step: Step) -> Dict[Any, str]:
    """Names of parameters by their memory. Layers of Keras hold their variables themselves, beside the module's
    parameters, so that an exported graph has them as constants."""
    if not any(type(each).__module__.startswith("keras.") for each in step.modules()):
        return {}
    return {_memory_of(each): name for name, each in step.named_parameters()}


def flat_program(program: Any, step: Step) -> Program:
    """Lays out an exported program, nested regions included, as one list of calls."""
    signature = program.graph_signature
    kinds = {"PARAMETER": "parameter", "BUFFER": "buffer", "CONSTANT_TENSOR": "constant", "USER_INPUT": "input"}
    specs = {spec.arg.name: (kinds.get(spec.kind.name, "constant"), spec.target) for spec in signature.input_specs}
    sources: List[Source] = []
    calls: List[Call] = []
    count = 0
    inputs = iter(step.example.names)
    held_directly = _parameters_of_keras(step)

    def new_value() -> int:
        nonlocal count
        count += 1
        return count - 1

    def lay_out(graph_module: Any, given: Optional[Sequence[Any]], context: Context, module: str) -> Any:
        environment: Dict[Any, Any] = {}
        arguments = iter(given or ())
        result = None
        for node in graph_module.graph.nodes:
            if node.op == "placeholder":
                if given is not None:
                    environment[node] = next(arguments)
                    continue
                kind, target = specs.get(node.name, ("constant", None))
                name = next(inputs) if kind == "input" else target or node.name
                constant = None
                if kind == "constant":
                    constant = program.constants.get(target) if target else node.meta.get("val")
                    if _memory_of(constant) in held_directly:
                        kind, name, constant = "parameter", held_directly[_memory_of(constant)], None
                environment[node] = Ref(new_value())
                sources.append(Source(kind, name, environment[node].value, constant))
            elif node.op == "get_attr":
                value = graph_module
                for word in node.target.split("."):
                    value = getattr(value, word)
                if isinstance(value, torch.Tensor):
                    environment[node] = Ref(new_value())
                    sources.append(Source("constant", node.target, environment[node].value, value))
                else:
                    environment[node] = value
            elif node.op == "output":
                result = torch.fx.node.map_aggregate(node.args[0], lambda each: environment.get(each, each))
            elif node.op == "call_function":
                take = lambda value: torch.fx.node.map_aggregate(
                    value, lambda each: environment[each] if isinstance(each, torch.fx.Node) else each)
                args, kwargs = take(node.args), take(node.kwargs)
                name = getattr(node.target, "__name__", str(node.target))
                path = _path(node, step, module)
                if name == "wrap_with_set_grad_enabled":
                    environment[node] = lay_out(args[1], args[2:], context._replace(
                        gradients=bool(args[0]) and context.gradients), path)
                elif name == "wrap_with_autocast":
                    kind = (args[1] or torch.get_autocast_dtype(args[0])) if args[2] else None
                    environment[node] = lay_out(args[4], args[5:], context._replace(autocast=kind), path)
                elif node.target is operator.getitem and not isinstance(args[0], Ref):
                    environment[node] = args[0][args[1]]
                else:
                    environment[node] = Ref(new_value())
                    calls.append(Call(node.target, tuple(args), dict(kwargs), environment[node].value, path,
                                      node.meta.get("stack_trace") or "", context,
                                      bool(node.meta.get("unbacked_bindings")), node.meta.get("val")))
            else:
                raise CaptureError("the exported graph has a node of kind {}, which is not known".format(node.op))
        return result

    outputs = lay_out(program.graph_module, None, Context(), "")
    loss, *others = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
    if not isinstance(loss, Ref):
        raise CaptureError("the loss is a constant: it depends on no parameter")
    return Program(sources, calls, loss.value, count, tuple(others) if step.keeps else ())
