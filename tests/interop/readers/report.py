"""How the readers of exported files tell what they found: a line of JSON for each file."""
import json
import sys


def tell(path, state, by, said):
    print(json.dumps({"file": str(path), "state": state, "by": by, "said": str(said)}), flush=True)


class NotChecked(Exception):
    """What a reader cannot do here, with the reason."""


def read_each(by, function, paths=None):
    """`function` returns what it says of a file; every error of it is a refusal of the file."""
    for path in sys.argv[1:] if paths is None else paths:
        try:
            tell(path, "read", by, function(path))
        except NotChecked as reason:
            tell(path, "not checked", by, reason)
        except (Exception, SystemExit) as error:
            lines = str(error).strip().splitlines() or [""]
            tell(path, "refused", by, f"{type(error).__name__}: {' '.join(lines[:6])[:600]}")
