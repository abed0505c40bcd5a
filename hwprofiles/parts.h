// What machines share. A profile may name parts, files beside the folder of the machines:
//
//   "parts": ["common", "gpus/a100-sxm4-40gb", "interconnects/efa-p4d"]
//
// A part holds blocks of a profile, or some of a block's fields, and may have parts itself. Of a
// field the machine's own value counts, else that of the last part which has it. The sources of a
// block are joined. A part that is named twice counts once.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/core/fields.h"

namespace meshwright {

struct Profile {
  Fields fields;                               // without `parts`
  std::map<std::string, std::string> file_of;  // block -> the file that has it, for errors
};

// A part that is missing, or is its own part, is an InputError.
Profile with_parts(Fields own, const std::string& root);

// What profiles below `root` may name: "common", "gpus/t4", ...
std::vector<std::string> part_names(const std::string& root);

// Files of a profile's parts and of theirs, each once.
std::vector<std::string> part_files(const std::string& file, const std::string& root);

}  // namespace meshwright
