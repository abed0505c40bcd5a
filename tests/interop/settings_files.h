// Finds the files of settings that tests use: those of tests/interop/corpus (published files, whose
// sources SOURCES.md lists) and of tests/interop/bad.
#pragma once

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "sim/planner/clusters.h"
#include "tests/test_folder.h"
#include "tools/interop/import.h"

namespace meshwright::tests {

// A case consists of the files NAME.* of a folder. Each line of NAME.set is a value for --set.
struct SettingsCase {
  std::string name, folder;
  std::vector<std::string> files;  // whose names end as settings do, the main one first
  std::vector<std::string> set;
  std::string beside(const std::string& ending) const { return folder + "/" + name + ending; }
};

// Returns the cases of a folder. A case has a file NAME with the ending `answer`, which contains
// the expected result of the import.
inline std::vector<SettingsCase> settings_cases(const std::string& folder,
                                                const std::string& answer) {
  namespace fs = std::filesystem;
  std::vector<SettingsCase> cases;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string file = entry.path().filename().string();
    if (!file.ends_with(answer)) continue;
    SettingsCase each{file.substr(0, file.size() - answer.size()), folder, {}, {}};
    for (const auto& other : fs::directory_iterator(folder)) {
      const std::string name = other.path().filename().string();
      if (name.starts_with(each.name + ".") && !name.ends_with(answer) && !name.ends_with(".set"))
        each.files.push_back(other.path().string());
    }
    // Shorter names come first, so "run.yaml" is before "run.config.json".
    std::sort(each.files.begin(), each.files.end(),
              [](const std::string& one, const std::string& other) {
                return one.size() != other.size() ? one.size() < other.size() : one < other;
              });
    std::istringstream lines(content_of(each.beside(".set")));
    for (std::string line; std::getline(lines, line);)
      if (!line.empty()) each.set.push_back(line);
    cases.push_back(std::move(each));
  }
  std::sort(cases.begin(), cases.end(), [](const SettingsCase& one, const SettingsCase& other) {
    return one.name < other.name;
  });
  return cases;
}

inline Imported import_case(const SettingsCase& each, Framework format, bool allow_unknown) {
  return import_settings(each.files,
                         {.format = format, .overrides = each.set, .allow_unknown = allow_unknown},
                         machine_facts);
}

}  // namespace meshwright::tests
