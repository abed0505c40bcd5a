// What may come next on a command line of the program, for shells to offer.
#pragma once

#include <string>
#include <vector>

namespace meshwright {

struct Completion {
  std::vector<std::string> words;  // each a whole word; one that ends in '=' goes on
  bool files = false;              // names of files too
};

// `typed`: the words after the program's name; the last one, which may be empty, is not complete.
Completion completion_of(const std::vector<std::string>& typed);

}  // namespace meshwright
