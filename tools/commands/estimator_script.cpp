#include "tools/commands/estimator_script.h"

#include <cstdlib>
#include <filesystem>

#include "models/core/error.h"
#include "models/core/fields.h"
#include "models/core/json.h"

namespace meshwright::tools {

namespace {

using Words = std::vector<std::string>;

std::string variable(const char* name, const char* otherwise = "") {
  const char* value = std::getenv(name);
  return value == nullptr || *value == '\0' ? otherwise : value;
}

// Returns a hyperparameter's value as a word of a command line: a string as it is, a boolean as
// Python writes it, and any other value as JSON.
std::string word_of(const json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  return value.dump();
}

Words words_of(const std::string& folder, const std::string& script, const json& parameters) {
  Words words = {(std::filesystem::path(folder) / script).string()};
  for (const auto& [name, value] : parameters.items()) {
    if (name.starts_with("sagemaker_") || name == "mp_parameters") continue;
    words.push_back((name.size() == 1 ? "-" : "--") + name);
    words.push_back(word_of(value));
  }
  return words;
}

std::string text_at(const json& value, const char* key) {
  return value.contains(key) && value[key].is_string() ? value[key].get<std::string>() : "";
}

}  // namespace

std::vector<std::string> estimator_script(const std::string& file) {
  if (file.empty()) {
    const std::string script = variable("SM_USER_ENTRY_POINT");
    if (script.empty()) return {};
    return words_of(variable("SM_CODE_DIR", "/opt/ml/code"), script,
                    parse_json(variable("SM_HPS", "{}"), "SM_HPS"));
  }
  const json all = parse_json(read_file(file), file);
  const json code = all.is_object() && all.contains("source_code") ? all["source_code"] : all;
  std::string script = text_at(code, "entry_point");
  if (script.empty()) script = text_at(code, "entry_script");
  if (script.empty()) throw InputError(file + ": names no entry_point, the script to start");
  const std::filesystem::path folder =
      std::filesystem::path(file).parent_path() / text_at(code, "source_dir");
  return words_of(folder.string(), script,
                  all.contains("hyperparameters") ? all["hyperparameters"] : json::object());
}

}  // namespace meshwright::tools
