// Extracts the code of a Jupyter notebook.
#pragma once

#include <string>
#include <vector>

namespace meshwright::interop {

struct NotebookCode {
  std::string text;               // of all cells with code, one after the other
  std::vector<int> cell_of_line;  // the number of the cell, from 1, of each line
};

// Returns the code of a notebook. Lines that are no Python (!pip install, %matplotlib) are empty,
// and so is the rest of a cell from a line on that begins with %%. Throws InputError if the text is
// no JSON.
NotebookCode code_of_notebook(const std::string& text, const std::string& file);

}  // namespace meshwright::interop
