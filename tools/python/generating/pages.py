"""The parts of a page with blocks of Python: text, and code with what it prints."""

import re
from typing import List, NamedTuple, Optional


class Part(NamedTuple):
    text: str = ""
    code: Optional[str] = None
    printed: str = ""
    needs: str = ""  # the block's title says "needs WHAT": it is not run where that is missing


block = re.compile(r'^```python(?: title="needs (?P<needs>[^"]*)")?\n(?P<code>.*?)^```\n(?:\n?```text\n(?P<printed>.*?)^```\n)?',
                   re.MULTILINE | re.DOTALL)


def parts_of(page: str) -> List[Part]:
    parts, at = [], 0
    for found in block.finditer(page):
        if page[at:found.start()].strip():
            parts.append(Part(text=page[at:found.start()].strip("\n")))
        parts.append(Part(code=found["code"], printed=found["printed"] or "", needs=found["needs"] or ""))
        at = found.end()
    if page[at:].strip():
        parts.append(Part(text=page[at:].strip("\n")))
    return parts
