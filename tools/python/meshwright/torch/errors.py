"""What a user is told when a model cannot be captured: one sentence, his line, what to change."""

from __future__ import annotations

import os
import re
import sysconfig
import traceback
from typing import Any, Iterable, Optional, Tuple

import torch

__all__ = ["CaptureError", "explained", "is_users", "users_line"]


class CaptureError(ValueError):
    """A model cannot be captured. The text names the line of the user's code and what to change."""


_HERE = os.path.dirname(os.path.abspath(__file__))
_TORCH = os.path.dirname(os.path.abspath(torch.__file__))
_STANDARD = os.path.abspath(sysconfig.get_paths()["stdlib"])
_INSTALLED = os.sep + "site-packages" + os.sep

ON_META = "a tensor is made on the CPU, and the model is on the meta device; build the model on the CPU"

# Patterns of PyTorch's messages, and the meaning of each for the author of the model.
_CAUSES: Tuple[Tuple[str, str], ...] = (
    (r"line of code:.*(\.item\(|\.tolist\(|\b(float|int|bool)\()",
     "the value of a tensor is read in Python (item(), tolist(), float()); keep it a tensor"),
    (r"line of code:.*(dist\.|distributed|all_reduce|all_gather|broadcast\(|hvd\.)",
     "the step communicates itself; take torch.distributed out of it, meshwright adds what a plan needs"),
    (r"Could not guard on data-dependent|Could not extract specialized integer|GuardOnDataDependent",
     "a branch or a size in Python depends on the values of a tensor, and a captured graph has one path; "
     "use torch.where, a mask, or a fixed size there"),
    (r"_ctc_loss", "PyTorch cannot trace ctc_loss without data; capture with another loss of the frames in its place"),
    (r"DynamicOutputShapeException",
     "data decide the shape of what this operation keeps; give it numbers instead of tensors for sizes and lengths"),
    (r"\.numpy\(\)|numpy is not|Can't call numpy|can't convert .* to numpy",
     "a tensor leaves PyTorch for NumPy; compute it with torch operations, or before the step"),
    (r"aten\._local_scalar_dense|\.item\(\)",
     "the value of a tensor is read in Python (item(), tolist(), float()); keep it a tensor"),
    (r"process group|c10d|torch\.distributed|_c10d_functional",
     "the step communicates itself; take torch.distributed out of it, meshwright adds what a plan needs"),
    (r"DTensor|distributed\.tensor",
     "parameters are already sharded (fully_shard, DTensor); capture the module before it is sharded"),
    (r"pack_padded_sequence|argument 'size' failed to unpack .* FakeTensor",
     "sizes depend on data here, as those of packed sequences do; capture with padded sequences"),
    (r"fake tensor in the exported program constant",
     "the step takes a gradient itself (torch.autograd.grad, a gradient penalty) or uses .data of a tensor that it "
     "makes, which cannot be traced; capture without that part of the loss, and use detach()"),
    (r"at least two devices.*\bmeta\b|\(meta\) and .*\(cpu\)|\(cpu\) and .*\(meta\)", ON_META),
    (r"FakeTensorDeviceMismatch|at least two devices|no NVIDIA driver",
     "a tensor is put on a GPU, the others are not; put it where an input is (x.device)"),
    (r"no fake impl|Unsupported operator|not implemented for .*Meta|fake tensor .* kernel",
     "an operation does not say the shape of its result; give it a fake implementation by "
     "torch.library.register_fake"),
    (r"custom_op|torch\.ops\.\w+ has no",
     "an operation of your own is not registered with torch.library"),
    (r"shape '?\[|size mismatch|must match the size|shapes cannot be multiplied|mat1 and mat2",
     "shapes do not fit; check that the example is one that the module accepts"),
    (r"missing \d+ required|unexpected keyword|takes \d+ positional",
     "the example does not fit the arguments; its keys are the names of the arguments, or it is a tuple in their "
     "order"),
    (r"out of memory", "there is not enough memory; build the module and the example on the meta device"),
)


def is_users(path: str) -> bool:
    """Whether a file is the user's, and not of an installed package."""
    path = os.path.abspath(path)
    return (not path.startswith((_HERE, _TORCH, _STANDARD)) and not path.startswith("<")
            and _INSTALLED not in path)


def users_line(frames: Iterable[Tuple[str, int, str]]) -> Optional[str]:
    """'file:line (code)' of the innermost frame that the user wrote, else of a library that he uses."""
    frames = list(frames)
    for wanted in (is_users, lambda path: not os.path.abspath(path).startswith((_HERE, _TORCH, _STANDARD))):
        for path, line, code in reversed(frames):
            if not path.startswith("<") and wanted(path):
                return "{}:{}".format(_short(path), line) + (" ({})".format(code.strip()) if code else "")
    return None


def _short(path: str) -> str:
    if _INSTALLED in path:
        return path.split(_INSTALLED, 1)[1]
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def frames_in(text: str) -> list:
    """Frames that a text of PyTorch quotes, as `File "x.py", line 3, in f`."""
    found = []
    lines = text.splitlines()
    for place, line in enumerate(lines):
        match = re.search(r'File "([^"]+)", line (\d+)', line)
        if match:
            code = lines[place + 1] if place + 1 < len(lines) and "File " not in lines[place + 1] else ""
            found.append((match.group(1), int(match.group(2)), code))
    return found


def explained(error: BaseException, doing: str, in_step: bool = True) -> CaptureError:
    """The message for a failure while `doing` something: where in the user's code, why, what to change.

    Unless it is `in_step`, ordinary Python ran, and how the line is written tells nothing.
    """
    if isinstance(error, CaptureError):
        return error
    text = "{} {}".format(type(error).__name__, error)
    chain: Any = error
    frames: list = []
    seen = set()
    while chain is not None and id(chain) not in seen:
        seen.add(id(chain))
        frames = [(frame.filename, frame.lineno or 0, frame.line or "")
                  for frame in traceback.extract_tb(chain.__traceback__)] + frames
        chain = chain.__cause__ or chain.__context__
    place = users_line(frames) or users_line(frames_in(text))
    if in_step and place and " (" in place:
        text = "line of code:{}\n{}".format(place.split(" (", 1)[1], text)
    cause = next((words for pattern, words in _CAUSES if re.search(pattern, text)), None)
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    if len(first) > 200:
        first = first[:200] + "..."
    message = "{}: {}".format(place, cause or "{} failed".format(doing)) if place else (cause or doing + " failed")
    return CaptureError("{} ({}: {})".format(message, type(error).__name__, first))
