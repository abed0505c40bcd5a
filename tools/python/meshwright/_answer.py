"""What all answers have: a dictionary whose keys are attributes, and what makes tables and pictures of it."""

import json
from typing import TYPE_CHECKING, Any, ClassVar, Dict, List, Mapping, Optional, Sequence

from ._pandas import frame_of

if TYPE_CHECKING:
    import pandas


class Answer(Dict[str, Any]):
    """A dictionary as `--json` prints it. Its keys are attributes too; those that are not always there are None where
    they are missing. A key that is a word of Python has a `_` behind it: `explanation.from_`."""

    _parts: ClassVar[Mapping[str, Any]] = {}  # the classes of the values that are objects or lists of them
    _rows: ClassVar[str] = ""  # the path of the rows of to_rows(); empty: the answer is one row
    messages: Sequence[str] = ()  # what the command said in addition

    def __init__(self, keys: Mapping[str, Any]) -> None:
        super().__init__(keys)
        for key, kind in self._parts.items():
            value = self.get(key)
            if isinstance(value, list):
                self[key] = [kind(each) for each in value]
            elif value is not None:
                self[key] = kind(value)

    if not TYPE_CHECKING:  # a type checker has the annotations of the classes

        def __getattr__(self, name):
            key = name[:-1] if name.endswith("_") else name
            if key in self:
                return self[key]
            if name in self._attributes():
                return None
            raise AttributeError("{!r} has no {!r}; it has {}".format(
                type(self).__name__, name, ", ".join(sorted(self.keys()))))

    @classmethod
    def _attributes(cls) -> List[str]:
        return list(getattr(cls, "__annotations__", {}))

    def __dir__(self) -> List[str]:
        return sorted({*super().__dir__(), *self._attributes()})

    def to_dict(self) -> Dict[str, Any]:
        """The answer as plain dictionaries and lists."""
        plain: Dict[str, Any] = json.loads(json.dumps(self))
        return plain

    def to_rows(self) -> List[Dict[str, Any]]:
        """The rows of the answer's table, such as the plans of Plans. Keys of parts are joined by dots
        (`cluster.machine`); lists of parts are left out."""
        rows: List[Mapping[str, Any]] = [self]
        for key in filter(None, self._rows.split(".")):
            rows = [inner for row in rows for inner in row[key]]
        return [_flat(row, "") for row in rows]

    def to_pandas(self) -> "pandas.DataFrame":
        """The rows of to_rows() as a table of pandas."""
        return frame_of(self.to_rows())

    def _repr_html_(self) -> Optional[str]:
        """What a notebook shows."""
        from ._html import html_of  # only notebooks need it

        return html_of(self)


def _flat(row: Mapping[str, Any], before: str) -> Dict[str, Any]:
    flat: Dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, dict):
            flat.update(_flat(value, before + key + "."))
        elif not (isinstance(value, list) and value and isinstance(value[0], dict)):
            flat[before + key] = value
    return flat
