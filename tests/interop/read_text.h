// Helpers that import a text of settings as a job, and export a job as settings.
#pragma once

#include <string>
#include <vector>

#include "tests/models/job_lookup.h"
#include "tests/test_folder.h"
#include "tools/interop/export.h"
#include "tools/interop/import.h"

namespace meshwright::tests {

struct NamedText {
  std::string name, text;
};

inline Imported import_texts(const std::vector<NamedText>& texts,
                             const std::vector<std::string>& overrides, Framework framework) {
  const TestFolder folder;
  std::vector<std::string> files;
  for (const NamedText& each : texts) files.push_back(folder.file(each.name, each.text));
  return import_settings(files, {.format = framework, .overrides = overrides}, lookup_for_tests);
}

// Returns the file `file` of the settings of a job on p4d.24xlarge, with its plan as the framework
// runs it. Returns an empty text if the framework can run no plan near it.
inline std::string exported_text(const nlohmann::json& value, Framework framework, int hosts,
                                 const std::string& file) {
  const Job job = read_job(value, "job.json", ".", lookup_for_tests);
  const Plan plan = settle(job, 8 * hosts, lookup_for_tests("p4d.24xlarge"));
  const std::optional<Plan> near = nearest_plan(framework, plan, job.model);
  if (!near) return {};
  const JobValues values(job, *near, "p4d.24xlarge", hosts, 8);
  const InteropTarget& target = interop_target(framework);
  for (const ExportedFile& each : target.files(values, settings_of(values, target)))
    if (each.name == file) return each.text;
  return {};
}

}  // namespace meshwright::tests
