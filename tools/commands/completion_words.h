// Finds the words that may come next on a command line of the program. Shells complete command
// lines with them.
#pragma once

#include <string>
#include <vector>

namespace meshwright::tools {

struct Completion {
  std::vector<std::string> words;  // whole words; a value follows a word that ends in '='
  bool files = false;              // names of files may come next too
};

// Returns the words that may complete the last of `typed`, the words after the program's name. The
// last word is incomplete and may be empty.
Completion completion_of(const std::vector<std::string>& typed);

}  // namespace meshwright::tools
