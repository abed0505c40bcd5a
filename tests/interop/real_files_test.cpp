// Tests what readers make of files as people write them (real_files/).
#include <fstream>
#include <nlohmann/json.hpp>

#include "models/architectures/huggingface_config.h"
#include "models/architectures/model.h"
#include "models/core/error.h"
#include "tests/catch.h"
#include "tests/interop/settings_files.h"
#include "tests/message_of.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

const std::string real_files = MESHWRIGHT_SOURCE_DIR "/tests/interop/real_files/";

std::string name_of_case(const json& each) {
  std::string name;
  for (const json& file : each["files"])
    name += (name.empty() ? "" : " + ") + file.get<std::string>();
  const json defines = each.value("define", json::object());
  for (const auto& [variable, value] : defines.items())
    name += " with " + variable + "=" + value.get<std::string>();
  const json sets = each.value("set", json::array());
  for (const json& set : sets) name += " " + set.get<std::string>();
  return name + (each.contains("format") ? " as " + each["format"].get<std::string>() : "");
}

// The result of an import: a job with its notes, or an error.
struct ReadCase {
  json job;
  std::string notes, error;
};

ReadCase outcome_of(const json& each) {
  std::vector<std::string> files;
  for (const json& file : each["files"]) files.push_back(real_files + file.get<std::string>());
  ImportOptions options;
  if (each.contains("format")) options.format = framework_of(each["format"].get<std::string>());
  if (each.contains("set"))
    options.overrides = each["set"];
  else
    options.overrides = {"cluster.machine=dgx-a100-80gb"};
  options.defines = each.value("define", std::map<std::string, std::string>());
  if (files[0].find(".json") != std::string::npos && !each.contains("set")) options.overrides = {};
  ReadCase result;
  try {
    const Imported imported = import_settings(files, options, machine_facts);
    result.job = imported.job;
    for (const std::string& remark : imported.remarks) result.notes += remark + "\n";
    for (const ReadSetting& setting : imported.settings)
      if (setting.fate == ReadSetting::Fate::without_meaning)
        result.notes += setting.name + ": " + setting.reason + "\n";
  } catch (const InputError& error) {
    result.error = error.what();
  }
  return result;
}

json value_in(const json& job, std::string key) {
  std::ranges::replace(key, '.', '/');
  return job.value(json::json_pointer("/" + key), json());
}

}  // namespace

TEST_CASE("files as people write them are read right, or refused with the next step", "[interop]") {
  const json cases = json::parse(content_of(real_files + "cases.json"));
  for (const json& each : cases) {
    DYNAMIC_SECTION(name_of_case(each)) {
      if (each.contains("model_error")) {
        const std::string file = real_files + each["files"][0].get<std::string>();
        CHECK(message_of([&] {
                load_model(file, ".");
              }).find(each["model_error"].get<std::string>()) != std::string::npos);
        continue;
      }
      if (each.contains("reads")) {
        const std::string file = real_files + each["files"][0].get<std::string>();
        const Model model = load_model(file, ".");
        const json config = huggingface_config(model);
        for (const auto& [key, value] : each["reads"].items())
          CHECK(config.value(key, json()) == value);
        continue;
      }
      const ReadCase result = outcome_of(each);
      INFO("error: " << result.error << "\nnotes: " << result.notes);
      if (each.contains("error")) {
        CHECK(result.error.find(each["error"].get<std::string>()) != std::string::npos);
        continue;
      }
      if (each.contains("error_or_note")) {
        const std::string text = each["error_or_note"];
        CHECK((result.error + result.notes).find(text) != std::string::npos);
        continue;
      }
      CHECK(result.error == "");
      const json expected = each.value("job", json::object());
      for (const auto& [key, value] : expected.items()) {
        INFO(key << ": " << value_in(result.job, key));
        CHECK(value_in(result.job, key) == value);
      }
      if (each.contains("note"))
        CHECK(result.notes.find(each["note"].get<std::string>()) != std::string::npos);
    }
  }
}
