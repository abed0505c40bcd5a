"""Every Python that a rehearsed shell script starts looks here first: one with a script or a launcher is handed back."""

import os
import sys


def _is_script(words):
    at = 1
    while at < len(words) and words[at].startswith("-") and words[at] not in ("-m", "-c", "-"):
        at += 2 if words[at] in ("-W", "-X") else 1
    if at >= len(words) or words[at] in ("-c", "-"):
        return False
    return words[at] != "-m" or words[at + 1:at + 2] not in (["pip"], ["venv"], ["meshwright.rehearsal"], ["json.tool"])


if os.environ.get("MESHWRIGHT_REHEARSAL_HANDED") and not os.environ.get("MESHWRIGHT_REHEARSED"):
    if _is_script(sys.orig_argv):
        os.execv(sys.executable, [sys.executable, "-m", "meshwright.rehearsal", "--handed", "--"] + sys.orig_argv)

_here = os.path.dirname(os.path.abspath(__file__))
for _place in sys.path:   # the one that this one hides
    _other = os.path.join(_place or ".", "sitecustomize.py")
    if os.path.abspath(_place or ".") != _here and os.path.isfile(_other):
        with open(_other, encoding="utf-8") as _file:
            exec(compile(_file.read(), _other, "exec"))
        break
