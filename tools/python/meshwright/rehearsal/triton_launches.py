"""Bytes that Triton kernels move which a script launches itself: no schema of an operation says them.

A kernel is taken to read all of each tensor that it loads from, and to write all of each that it stores to. Triton's
own form of the kernel, before it is lowered to a GPU's, says which these are.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict, deque
from typing import Any, Callable, Deque, Dict, List, Optional, Set, Tuple

import torch

__all__ = ["TritonLaunches", "pointers_of"]

# Operations that make a pointer from another one, and operations that use a pointer. The pointer is the first
# operand.
_MADE = re.compile(r"%([\w.#]+)(?::\d+)? = (?:tt\.addptr|tt\.splat|tt\.broadcast|tt\.bitcast|tt\.expand_dims|tt\.reshape|"
                   r"tt\.make_tensor_ptr|tt\.make_tensor_descriptor|tt\.advance) %([\w.#]+)")
_LOOP = re.compile(r"%([\w.]+) = %([\w.#]+)")
_LOAD = re.compile(r"tt\.(?:descriptor_)?load %([\w.#]+)")
_STORE = re.compile(r"tt\.(?:descriptor_)?store %([\w.#]+)")
_ATOMIC = re.compile(r"tt\.atomic_\w+ [^%]*%([\w.#]+)")


def pointers_of(form: str) -> Tuple[Set[str], Set[str]]:
    """The names of the arguments that a kernel loads from, and of those that it stores to."""
    root: Dict[str, str] = {}
    loads: Set[str] = set()
    stores: Set[str] = set()
    for line in form.splitlines():
        code = line.split(" loc(")[0]
        made = _MADE.search(code)
        if made is not None:
            root[made[1]] = root.get(made[2], made[2])
        elif "iter_args(" in code:
            for name, first in _LOOP.findall(code[code.index("iter_args("):]):
                root[name] = root.get(first, first)
        for pattern, found in ((_LOAD, (loads,)), (_STORE, (stores,)), (_ATOMIC, (loads, stores))):
            used = pattern.search(code)
            if used is not None:
                for names in found:
                    names.add(root.get(used[1], used[1]))
    return loads, stores


class TritonLaunches:
    """Watches launches from its making until close()."""

    def __init__(self) -> None:
        self._bytes: Dict[str, Deque[int]] = defaultdict(deque)
        self._pointers: Dict[int, Tuple[Set[str], Set[str]]] = {}
        self._function: Any = None
        jit = sys.modules.get("triton.runtime.jit")
        if jit is not None:
            self._function, self._run = jit.JITFunction, jit.JITFunction.run
            self._function.run = self._watched(self._run)

    def close(self) -> None:
        if self._function is not None:
            self._function.run = self._run

    def next_bytes(self, name: str) -> Optional[int]:
        """Of the next launch of the kernel of this name, in the order in which they were seen; None if it was not."""
        waiting = self._bytes.get(name)
        return waiting.popleft() if waiting else None

    def _watched(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def watched(function: Any, *args: Any, **kwargs: Any) -> Any:
            kernel = run(function, *args, **kwargs)
            if kernel is not None and not kwargs.get("warmup"):
                given = list(zip(function.arg_names, args)) + list(kwargs.items())
                self._bytes[kernel.name].append(self._moved(kernel, given))
            return kernel
        return watched

    def _moved(self, kernel: Any, given: List[Tuple[str, Any]]) -> int:
        if id(kernel) not in self._pointers:
            self._pointers[id(kernel)] = pointers_of(str(kernel.asm.get("ttir", "")))
        return sum(each.numel() * each.element_size() * sum(name in names for names in self._pointers[id(kernel)])
                   for name, each in given if isinstance(each, torch.Tensor))
