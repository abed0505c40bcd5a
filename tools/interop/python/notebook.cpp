#include "tools/interop/python/notebook.h"

#include <sstream>

#include "models/core/fields.h"
#include "models/core/json.h"

namespace meshwright::interop {

namespace {

// Returns the text of a cell, which a notebook holds as one string or as a list of lines.
std::string source_of(const json& cell) {
  const json source = cell.value("source", json());
  if (source.is_string()) return source;
  std::string all;
  if (source.is_array())
    for (const json& each : source)
      if (each.is_string()) all += each.get<std::string>();
  return all;
}

}  // namespace

NotebookCode code_of_notebook(const std::string& text, const std::string& file) {
  const json notebook = parse_json(text, file);
  NotebookCode code;
  int number = 0;
  const json cells = notebook.is_object() ? notebook.value("cells", json::array()) : json::array();
  for (const json& cell : cells) {
    ++number;
    if (!cell.is_object() || cell.value("cell_type", "") != "code") continue;
    std::istringstream lines(source_of(cell));
    bool is_other = false;  // after %%bash and other magics whose cell is no Python
    for (std::string line; std::getline(lines, line);) {
      const std::size_t begin = line.find_first_not_of(" \t");
      const bool has_text = begin != std::string::npos;
      const bool is_timed = has_text && line.compare(begin, 6, "%%time") == 0;  // %%timeit too
      is_other = is_other || (has_text && !is_timed && line.compare(begin, 2, "%%") == 0);
      const bool is_magic = has_text && (line[begin] == '%' || line[begin] == '!');
      code.text += (is_other || is_magic ? "" : line) + "\n";
      code.cell_of_line.push_back(number);
    }
  }
  return code;
}

}  // namespace meshwright::interop
