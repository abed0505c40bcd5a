// Merges the parts that machines share into their profiles. A profile may name parts, which are
// files next to the folder of the machines:
//
//   "parts": ["common", "gpus/a100-sxm4-40gb", "interconnects/efa-p4d"]
//
// A part holds blocks of a profile, or some fields of blocks, and may have parts itself. For each
// field, the machine's own value counts, otherwise the value of the last part that has the field.
// The sources of a block are joined. A part that is named twice counts once.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/core/fields.h"

namespace meshwright::hwprofiles {

struct Profile {
  Fields fields;                               // without `parts`
  std::map<std::string, std::string> file_of;  // block -> the last file that has fields of it
};

// Returns a profile with its parts merged in. Throws InputError if a part is missing, is a part of
// itself, or is nested more than four levels deep.
Profile with_parts(Fields own, const std::string& root);

// Returns the names of the parts in the folder `root` that profiles may use: "common", "gpus/t4",
// ...
std::vector<std::string> part_names(const std::string& root);

// Returns the files of a profile's parts and of their parts, each once.
std::vector<std::string> part_files(const std::string& file, const std::string& root);

}  // namespace meshwright::hwprofiles
