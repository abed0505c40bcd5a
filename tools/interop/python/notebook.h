// Takes the code out of a notebook of Jupyter.
#pragma once

#include <string>
#include <vector>

namespace meshwright::interop {

struct NotebookCode {
  std::string text;               // of all cells with code, one after the other
  std::vector<int> cell_of_line;  // the number of the cell, from 1, of each line
};

// Lines that are no Python (%%time, !pip install) are empty. Throws InputError if the text is no
// JSON.
NotebookCode code_of_notebook(const std::string& text, const std::string& file);

}  // namespace meshwright::interop
