// Reads the published measurements of a folder in scenarios/, in the order of their files' names.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "sim/validate/evidence.h"

namespace meshwright::tests {

inline std::vector<Evidence> all_evidence(const std::string& folder = "evidence") {
  std::vector<std::string> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(MESHWRIGHT_SOURCE_DIR "/scenarios/" + folder))
    if (entry.path().extension() == ".json") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  std::vector<Evidence> evidence;
  for (const std::string& file : files) evidence.push_back(read_evidence(file));
  return evidence;
}

}  // namespace meshwright::tests
