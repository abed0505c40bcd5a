// Draws the timeline of a step as a picture in a page: a lane per rank and stream, drawn and zoomed
// by a script (timeline.js).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/program/program.h"
#include "models/program/timeline.h"

namespace meshwright::tools {

// Numbers distinct words, so that each word is written once and spans refer to it by its number.
class NumberedWords {
 public:
  int number_of(const std::string& word) {
    const auto [found, added] = numbers_.emplace(word, static_cast<int>(words_.size()));
    if (added) words_.push_back(word);
    return found->second;
  }
  const std::vector<std::string>& all() const { return words_; }

 private:
  std::map<std::string, int> numbers_;
  std::vector<std::string> words_;
};

// Returns the pipeline stage of each rank, indexed by rank.
std::vector<int> stages_of_ranks(const std::vector<Program>& stages);

// Returns the data that the script draws, as JSON, with a span per entry. If there are more than
// `most_spans` entries, a span covers all successive entries of a task on a stream, to keep the
// page small.
std::string timeline_data(const Timeline& timeline, const std::vector<Program>& stages,
                          std::size_t most_spans = 50'000);

// Returns the data of timeline_data() as an element of a page, which includes the script.
std::string timeline_element(const std::string& data);
// Returns the timeline as an element of a page, which includes the script.
std::string timeline_view(const Timeline& timeline, const std::vector<Program>& stages);

}  // namespace meshwright::tools
