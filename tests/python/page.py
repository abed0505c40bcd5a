"""page.py PAGE NOTEBOOK [--update]: the notebook is what tools/python/notebook makes of the page, and its cells, which are
the page's blocks of Python, run in order in one namespace and print what they show. `...` in what is shown stands for any
text. --update writes into the page what the blocks print now, but where `...` is, and then the notebook.
"""

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import tempfile

root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(root, "tools", "python"))
from generating import pages  # noqa: E402


def is_like(shown, printed):
    pattern = re.escape(shown).replace(re.escape("..."), ".*?")
    return re.fullmatch(pattern, printed, re.DOTALL) is not None


def printed_by(code, names):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code, "block", "exec"), names)  # pylint: disable=exec-used
    return out.getvalue()


def update_page(page):
    names = {"__name__": "__main__"}
    with open(page, encoding="utf-8") as file:
        text = file.read()
    for part in pages.parts_of(text):
        if part.code is None or part.needs:
            continue
        printed = printed_by(part.code, names)
        if not is_like(part.printed, printed) and "..." not in part.printed:
            block = "```python\n" + part.code + "```\n\n```text\n"
            text = text.replace(block + part.printed, block + printed)
    with open(page, "w", encoding="utf-8") as file:
        file.write(text)


def run_cells(notebook):
    """Returns how many cells print something else than they show."""
    with open(notebook, encoding="utf-8") as file:
        cells = [cell for cell in json.load(file)["cells"] if cell["cell_type"] == "code"]
    names, wrong, run = {"__name__": "__main__"}, 0, 0
    for cell in cells:
        if cell["metadata"].get("tags"):
            continue
        run += 1
        code = "".join(cell["source"])
        printed = printed_by(code, names)
        shown = "".join(line for output in cell["outputs"] for line in output["text"])
        if not is_like(shown, printed):
            wrong += 1
            print("WRONG: the block\n{}\n--- shows\n{}--- prints\n{}".format(code, shown, printed))
    assert run > 5, "the page has few blocks of Python"
    print("{}: {} cells ran, {} left out".format(os.path.basename(notebook), run, len(cells) - run))
    return wrong


def main():
    page, notebook = (os.path.abspath(path) for path in sys.argv[1:3])
    made = [sys.executable, os.path.join(root, "tools", "python", "notebook"), page]
    if "--update" in sys.argv:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            update_page(page)
            os.chdir(root)
        subprocess.run(made + [notebook], check=True)
        return
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        subprocess.run(made + ["fresh.ipynb"], check=True)
        with open(notebook, encoding="utf-8") as file, open("fresh.ipynb", encoding="utf-8") as fresh:
            assert file.read() == fresh.read(), "{1} is not of this page: tools/python/notebook {0} {1}".format(page, notebook)
        wrong = run_cells(notebook)
        os.chdir(root)
    sys.exit(wrong)


main()
