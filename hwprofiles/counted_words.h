// Splits words for machines into a name and how many of them: "8xH100", "A100 80G x 16", "2 nodes
// of 8 H100", "four p5.48xlarge".
#pragma once

#include <functional>
#include <string>

namespace meshwright::hwprofiles {

struct CountedWords {
  std::string name = {};   // without words that do not matter: "of", "GPUs", "NVIDIA", "aws"
  int number = 0;          // how many GPUs or machines of this name; 0: the words do not say it
  int hosts = 0;           // how many hosts; 0: the words do not say it
  std::string cloud = {};  // another cloud than AWS with which the words begin; empty: none
  bool has_number() const { return number > 0 || hosts > 0; }
};

// Returns the parts of `words`. `is_name` tells whether a word is a machine's own name, which is
// not split. Throws InputError for numbers that cannot count hosts or GPUs, such as 0 and 1.5, and
// if there are more than two numbers.
CountedWords counted_words(const std::string& words,
                           const std::function<bool(const std::string&)>& is_name);

}  // namespace meshwright::hwprofiles
