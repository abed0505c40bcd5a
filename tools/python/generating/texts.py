"""Text of generated Python sources."""

import re
import textwrap

by_hand = '# Written by tools/python/generate from what the program says; not by hand.\n'
width = 120


def argument_name(option):
    """The name of a command's option as an argument: `for` is `for_`, as Python has that word."""
    name = option.replace("-", "_")
    return name + "_" if name in ("for", "from") else name


def for_python(text):
    """Help of the command line in the words of Python: `--memory-margin` is `memory_margin`. Without links."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)  # links
    return re.sub(r"--([a-z][a-z-]*)", lambda found: argument_name(found.group(1)), text).replace("\\", "\\\\")


def sentence(text):
    text = text[:1].upper() + text[1:]
    return text if not text or text.endswith(".") else text + "."


def wrapped(text, indent, first=None):
    return textwrap.fill(text, width, initial_indent=first if first is not None else indent, subsequent_indent=indent,
                         break_long_words=False, break_on_hyphens=False)
