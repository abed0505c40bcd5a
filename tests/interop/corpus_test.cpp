// Real settings files, as the job that a reader makes of them by hand.
#include <map>
#include <nlohmann/json.hpp>

#include "models/core/error.h"
#include "tests/catch.h"
#include "tests/interop/settings_files.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

const std::string corpus = MESHWRIGHT_SOURCE_DIR "/tests/interop/corpus";

// "" where both say the same; else a line for each key.
std::string differences_of_jobs(const json& expected, const json& made) {
  std::string text;
  const json left = expected.flatten(), right = made.flatten();
  for (const auto& [key, value] : left.items())
    if (!right.contains(key))
      text += key + ": " + value.dump() + " is expected, nothing is there\n";
    else if (right[key] != value)
      text += key + ": " + value.dump() + " is expected, " + right[key].dump() + " is there\n";
  for (const auto& [key, value] : right.items())
    if (!left.contains(key)) text += key + ": " + value.dump() + " is not expected\n";
  return text;
}

}  // namespace

TEST_CASE("published settings become the expected jobs", "[interop]") {
  int cases = 0;
  for (const std::string& name : framework_names()) {
    const std::string folder = corpus + "/" + name;
    if (!std::filesystem::exists(folder)) continue;
    int known = 0, all = 0;
    std::string unknown;
    for (const SettingsCase& each : settings_cases(folder, ".expected.json")) {
      INFO(each.beside(""));
      ++cases;
      Imported imported;
      try {
        imported = import_case(each, framework_of(name), true);
      } catch (const InputError& error) {
        FAIL_CHECK(error.what());
        continue;
      }
      CHECK(differences_of_jobs(json::parse(content_of(each.beside(".expected.json"))),
                                imported.job) == "");
      for (const ReadSetting& setting : imported.settings) {
        ++all;
        if (setting.fate == ReadSetting::Fate::unknown)
          unknown += each.name + ": " + setting.name + "\n";
        else
          ++known;
      }
    }
    INFO(name << ": " << known << " of " << all << " settings act or are explained; not:\n"
              << unknown);
    CHECK(10 * known >= 9 * all);
  }
  CHECK(cases >= 16);
}

// tests/interop/minimal: settings that leave out all that they can, and what their framework does
// then.
TEST_CASE("settings that say next to nothing are the framework's defaults", "[interop]") {
  int cases = 0;
  for (const std::string& name : framework_names())
    for (const SettingsCase& each :
         settings_cases(MESHWRIGHT_SOURCE_DIR "/tests/interop/minimal/" + name, ".expected.json")) {
      INFO(each.beside(""));
      ++cases;
      const Imported imported = import_case(each, framework_of(name), false);
      CHECK(differences_of_jobs(json::parse(content_of(each.beside(".expected.json"))),
                                imported.job) == "");
    }
  CHECK(cases >= 20);
}

TEST_CASE("published settings are recognized by themselves", "[interop]") {
  for (const std::string& name : framework_names()) {
    const std::string folder = corpus + "/" + name;
    if (!std::filesystem::exists(folder)) continue;
    for (const SettingsCase& each : settings_cases(folder, ".expected.json")) {
      INFO(each.beside(""));
      CHECK(name_of(read_settings(each.files, {}).framework) == name);
    }
  }
}
