"""Tables of pandas, which is imported only where somebody asks for one."""

from typing import TYPE_CHECKING, Any, Dict, List

if TYPE_CHECKING:
    import pandas


def frame_of(rows: List[Dict[str, Any]]) -> "pandas.DataFrame":
    try:
        import pandas
    except ImportError:
        raise ImportError("to_pandas() needs pandas, which is not installed here: pip install pandas; to_rows() gives "
                          "the same rows without it") from None
    frame: "pandas.DataFrame" = pandas.DataFrame(rows)
    return frame
