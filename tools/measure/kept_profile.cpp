#include "tools/measure/kept_profile.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>

#include "hwprofiles/cores.h"
#include "models/core/hash.h"
#include "tools/session/dates.h"
#include "tools/session/engine.h"
#include "tools/version.h"

namespace meshwright::tools {

namespace {

namespace fs = std::filesystem;

// Returns the first line of /proc/cpuinfo that names the processor, or "" if there is none.
std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name") || line.starts_with("CPU part")) return line;
  return "";
}

std::string facts_of_this_computer(const Options& options) {
  std::string facts = fmt::format("{}\n{}\n{} cores, {} threads", version_text(), processor_name(),
                                  usable_cores(), options.threads.value_or(0));
  for (int i = 0; i < gpus_here(); ++i) facts += "\n" + gpu_here(i).gpu.name;
  return facts;
}

void remove_other_days(const fs::path& folder, const std::string& today) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error))
    if (!entry.path().filename().string().starts_with(today)) fs::remove(entry.path(), error);
}

}  // namespace

std::string kept_profile_file(const Options& options) {
  const std::string cache = cache_folder();
  if (cache.empty()) return "";
  const fs::path folder = fs::path(cache) / "profiles";
  const std::string today = show_date(options.today);
  remove_other_days(folder, today);
  return folder / fmt::format("{}-{:016x}.json", today, hash_of(facts_of_this_computer(options)));
}

}  // namespace meshwright::tools
