// Reads numbers of a job that people may write in words: "60B", "$15,000", "2 weeks".
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/core/written_number.h"

namespace meshwright::job {

struct WrittenKey {
  std::string_view section, key;
  NumberKind quantity;
};
// Returns the keys whose numbers may be written in words.
std::span<const WrittenKey> written_keys();

// Replaces the words that the keys of written_keys() have in a job by numbers. Returns a note if a
// batch in tokens was converted to sequences. Throws an InputError that begins with `file` for
// words that are no number. "auto" stays, and so does a batch in tokens if the job has no sequence
// length.
std::vector<std::string> read_written_numbers(nlohmann::json& job, const std::string& file);

}  // namespace meshwright::job
