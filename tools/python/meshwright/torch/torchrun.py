"""A script that torchrun has started: mpirun starts it again as the ranks, and torchrun's processes wait.

Ranks meet through MPI. Rank 0 of torchrun runs mpirun of the same command. On every other node mpirun needs a daemon,
which it would start by ssh. Instead its agent leaves the daemon's command in a folder, and the process of local rank 0
on that node runs it. All processes end with mpirun's exit code, so torchrun sees a failure as usual.
"""

from __future__ import annotations

import datetime
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import Any, Dict, List, NamedTuple

__all__ = ["start_ranks"]

_OWN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_PREFIXES = ("TORCHELASTIC_", "GROUP_", "ROLE_")
_LONG = datetime.timedelta(days=365)
_POLL_S, _LAST_S = 0.2, 10.0   # between looks at mpirun; for what others still say or ask at the end


class _Node(NamedTuple):
    rank: int      # rank of its first process
    name: str      # the name that mpirun gets
    slots: int


def _is_from_torchrun() -> bool:
    return (all(os.environ.get(each) for each in _OWN) and int(os.environ["WORLD_SIZE"]) > 1
            and "OMPI_COMM_WORLD_SIZE" not in os.environ and "PMIX_RANK" not in os.environ)


def _environment() -> Dict[str, str]:
    """This process's environment without torchrun's variables."""
    return {name: value for name, value in os.environ.items() if name not in _OWN and not name.startswith(_PREFIXES)}


def _own_address() -> str:
    """This node's address on its way to the first one."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
            return str(probe.getsockname()[0])
    except OSError:
        return socket.gethostname()


def _end(code: int) -> None:
    """Ends this process at once: what follows `init` in the script is for ranks."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _run(words: List[str], environment: Dict[str, str]) -> "subprocess.Popen[bytes]":
    """Starts a command that ends when torchrun ends this process."""
    child = subprocess.Popen(words, env=environment, stdin=subprocess.DEVNULL)
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, lambda *_: child.terminate())
    return child


def _nodes(store: Any) -> List[_Node]:
    """All nodes, in the order of their ranks. The first one is where mpirun runs."""
    nodes, rank = [], 0
    while rank < int(os.environ["WORLD_SIZE"]):
        name, slots = store.get("node {}".format(rank)).decode().split()
        nodes.append(_Node(rank, name if nodes else "localhost", int(slots)))
        rank += int(slots)
    return nodes


def _write_agent(folder: str) -> str:
    """What mpirun calls instead of ssh, with a host's name and the words of a command."""
    path = os.path.join(folder, "agent")
    with open(path, "w", encoding="utf-8") as file:
        file.write('#!/bin/sh\ncd {} || exit 1\nhost=$1\nshift\nprintf %s "$*" >"$host.part" && mv "$host.part" '
                   '"$host"\n'.format(shlex.quote(folder)))
    os.chmod(path, 0o700)
    return path


def _mpirun(nodes: List[_Node], agent: str) -> List[str]:
    hosts = ",".join("{}:{}".format(each.name, each.slots) for each in nodes)
    words = ["mpirun", "--host", hosts, "-np", str(sum(each.slots for each in nodes)), "--map-by", "slot", "--bind-to",
             "none"]
    if len(nodes) == 1:
        words += ["--mca", "btl", "self,vader", "--mca", "oob_tcp_if_include", "lo"]
    else:
        words += ["--mca", "plm_rsh_agent", agent, "--mca", "plm_rsh_no_tree_spawn", "1", "--mca",
                  "orte_leave_session_attached", "1", "--mca", "pml", "ob1", "--mca", "btl", "^openib"]
    if nodes[0].slots > (os.cpu_count() or 1):
        words += ["--mca", "mpi_yield_when_idle", "1"]
    if os.geteuid() == 0:
        words.append("--allow-run-as-root")
    return words + [sys.executable] + sys.orig_argv[1:]


def _hand_over(store: Any, waiting: List[_Node], folder: str) -> List[_Node]:
    """Gives nodes the commands that the agent has left for them; returns the nodes that still wait."""
    for node in waiting:
        path = os.path.join(folder, node.name)
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                # A daemon wants its agent to exist on its own node too, though it does not call it there.
                store.set("daemon {}".format(node.rank), file.read().replace(os.path.join(folder, "agent"), "/bin/sh"))
    return [node for node in waiting if not os.path.exists(os.path.join(folder, node.name))]


def _watched(child: "subprocess.Popen[bytes]", store: Any, nodes: List[_Node], folder: str) -> int:
    """mpirun's exit code. A node without its daemon ends mpirun, which would wait for it for ever."""
    waiting, patience_s = nodes[1:], _POLL_S
    while True:
        try:
            code = child.wait(patience_s)
            break
        except subprocess.TimeoutExpired:
            waiting = _hand_over(store, waiting, folder)
            if patience_s == _LAST_S:
                print("error: init: " + store.get("lost").decode(), file=sys.stderr)
                child.terminate()
            elif len(nodes) > 1 and store.check(["lost"]):
                patience_s = _LAST_S   # mpirun may end by itself, and say why.
    for node in waiting:   # mpirun has not asked for their daemon
        store.set("daemon {}".format(node.rank), "")
    return code if code >= 0 else 128 - code


def _lead(store: Any) -> int:
    """Rank 0: runs mpirun to its end, and tells the others its exit code."""
    nodes = _nodes(store)
    folder = tempfile.mkdtemp(prefix="meshwright-")
    try:
        child = _run(_mpirun(nodes, _write_agent(folder)), _environment())
        code = _watched(child, store, nodes, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    store.set("code", str(code))
    end = time.monotonic() + _LAST_S
    while store.add("heard", 0) < int(os.environ["WORLD_SIZE"]) - 1 and time.monotonic() < end:
        time.sleep(0.02)   # This process may hold the store.
    return code


def _serve(store: Any) -> None:
    """Local rank 0 of another node: runs mpirun's daemon."""
    command = store.get("daemon {}".format(os.environ["RANK"])).decode()
    if not command:
        return
    code = _run(["/bin/sh", "-c", command], _environment()).wait()
    if code != 0:
        store.set("lost", "Open MPI's daemon on {} has ended with code {}; the same Open MPI has to be on all nodes".format(
            socket.gethostname(), code))


def start_ranks() -> None:
    """Returns in a process that torchrun has not started. In one of torchrun's, it runs the ranks and ends the process.

    Raises RuntimeError where mpirun is missing.
    """
    if not _is_from_torchrun():
        return
    if shutil.which("mpirun") is None:
        raise RuntimeError("init: torchrun has started {} processes, but ranks meet through MPI, and mpirun is not on "
                           "PATH; install Open MPI".format(os.environ["WORLD_SIZE"]))
    from torch.distributed.rendezvous import rendezvous
    store, rank, _ = next(rendezvous("env://"))
    store.set_timeout(_LONG)
    if os.environ["LOCAL_RANK"] == "0":
        store.set("node {}".format(rank), "{} {}".format(_own_address(), os.environ["LOCAL_WORLD_SIZE"]))
    if rank == 0:
        _end(_lead(store))
    if os.environ["LOCAL_RANK"] == "0":
        _serve(store)
    code = int(store.get("code"))
    store.add("heard", 1)
    _end(code)
