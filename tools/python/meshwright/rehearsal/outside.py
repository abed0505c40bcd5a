"""The script's world outside of its process: no network, a limit of time, and nothing that it leaves running."""

from __future__ import annotations

import ctypes
import functools
import ipaddress
import os
import signal
import socket
import sys
import tempfile
import threading
import time
from typing import Any, Iterator, List

from .after_import import after_import
from .notes import note, script_line

__all__ = ["end_children", "keep_temporary_files", "limit_time", "own_end", "really_exit", "refuse_forked_training",
           "refuse_network"]

_OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_UPDATE_DOWNLOAD_COUNTS": "0", "WANDB_MODE": "disabled",
            "COMET_MODE": "disabled", "NEPTUNE_MODE": "debug", "DISABLE_MLFLOW_INTEGRATION": "TRUE",
            "TOKENIZERS_PARALLELISM": "false"}


def refuse_network() -> None:
    """Lets libraries know that they are offline, and refuses what asks for another host nevertheless."""
    os.environ.update(_OFFLINE)
    sys.addaudithook(_audit)


_TEMPORARY = ("TMPDIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR")


def keep_temporary_files(folder: str) -> None:
    """Lets temporary files and those of compilers be in the rehearsal's folder, where loaders find them by their names."""
    for name in _TEMPORARY:
        os.environ[name] = os.path.join(folder, "temporary" if name == "TMPDIR" else name.lower())
        os.makedirs(os.environ[name], exist_ok=True)
    tempfile.tempdir = None
    after_import("safetensors", _change_safetensors)
    sys.dont_write_bytecode = True


def _change_safetensors(module: Any) -> None:
    """This library renames its files by calls of the kernel, which nobody can answer for."""
    write = module.serialize_file
    written = ctypes.CDLL(None).meshwright_stand_in_written
    written.restype = ctypes.c_char_p

    @functools.wraps(write)
    def serialize_file(tensors: Any, filename: Any, *rest: Any, **more: Any) -> Any:
        return write(tensors, written(os.fsencode(filename)).decode() or filename, *rest, **more)

    module.serialize_file = serialize_file


def _audit(event: str, arguments: Any) -> None:
    if event == "socket.connect":
        own, address = arguments
        if own.family in (socket.AF_INET, socket.AF_INET6) and own.type != socket.SOCK_DGRAM:
            _check(address[0], address[1])
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        _check(arguments[0], arguments[1] if len(arguments) > 1 else None)


def _is_here(host: Any) -> bool:
    name = host.decode(errors="replace") if isinstance(host, bytes) else host
    if not name or name in ("localhost", socket.gethostname()):
        return True
    try:
        return ipaddress.ip_address(name.partition("%")[0]).is_loopback or ipaddress.ip_address(name).is_unspecified
    except ValueError:
        return False


def _check(host: Any, port: Any) -> None:
    if _is_here(host):
        return
    place = script_line(sys._getframe(2))
    note("no network: {} was asked for{}".format(host if port in (None, 0) else "{}:{}".format(host, port),
                                                 " in " + place if place else ""))
    raise ConnectionError(
        "meshwright rehearse: a rehearsal has no network, and {} asked for {}; have what it fetches on this computer "
        "before".format(place or "the script", host))


def limit_time(limit_s: float, steps: Any) -> None:
    """Ends the process if no step of an optimizer ends for `limit_s` seconds, also where the script waits in C."""
    script = threading.main_thread().ident

    def watch() -> None:
        seen, since = steps.seen, time.monotonic()
        while True:
            time.sleep(0.2)
            if steps.seen != seen:
                seen, since = steps.seen, time.monotonic()
            elif time.monotonic() - since > limit_s:
                place = script_line(sys._current_frames().get(script or 0))
                _say("no step of an optimizer ended for {:g} s{}; --time-limit is the limit".format(
                    limit_s, ", and the script is in " + place if place else ""))
                end_children()
                really_exit(2)

    threading.Thread(target=watch, daemon=True).start()


def refuse_forked_training() -> None:
    """Training in a process that the script forks is not seen: it says so, and ends."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    def stepped(*_of: Any) -> None:
        _say("an optimizer steps in a process that the script forked{}; start ranks with torchrun, or with "
             "torch.multiprocessing.spawn".format(_in(script_line(sys._getframe(1)))))
        really_exit(2)

    os.register_at_fork(after_in_child=lambda: register_optimizer_step_post_hook(stepped))


def _say(text: str) -> None:
    print("meshwright rehearse: " + text, file=sys.stderr, flush=True)


def end_children() -> None:
    """Kills what the script has started and that still runs."""
    for each in list(_descendants(os.getpid())):
        try:
            os.kill(each, signal.SIGKILL)
        except OSError:
            pass


def _descendants(process: int) -> Iterator[int]:
    children: List[int] = []
    for thread in os.listdir("/proc/{}/task".format(process)):
        try:
            with open("/proc/{}/task/{}/children".format(process, thread), encoding="ascii") as file:
                children += map(int, file.read().split())
        except OSError:
            pass
    for child in children:
        yield child
        if os.path.exists("/proc/{}/task".format(child)):
            yield from _descendants(child)


really_exit = os._exit


def own_end(steps: Any) -> None:
    """A script that ends its process by os._exit() says so, and leaves nothing running."""
    own = os.getpid()

    def ended(code: int) -> None:
        if os.getpid() == own and steps.recording is not None:
            raise SystemExit(0)   # while more steps were only timed
        if os.getpid() == own:
            _say("the script ended its process by os._exit({}) after {} steps of its optimizer{}".format(
                code, steps.seen, _in(script_line(sys._getframe(1)))))
            end_children()
        really_exit(code or (2 if os.getpid() == own else 0))

    os._exit = ended   # type: ignore[assignment]


def _in(place: str) -> str:
    return " in " + place if place else ""
