#include "exec/data/json_lines.h"

#include <fmt/format.h>

#include <fstream>

#include "exec/data/data_file.h"
#include "models/core/error.h"
#include "models/core/json.h"

namespace meshwright::exec {

void read_json_lines(const std::string& path, const std::string& holds,
                     const std::function<void(const std::string& line)>& add) {
  const DataFile whole(path, holds);  // for its complaints
  std::ifstream lines(path);
  std::string line;
  for (std::int64_t number = 1; std::getline(lines, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      add(line);
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}:{}: {}", path, number, error.what()));
    }
  }
  if (lines.bad()) throw InputError(path + ": cannot be read");
}

std::string text_at(const json& object, const char* key, const std::string& where) {
  const auto found = object.find(key);
  if (found == object.end()) throw InputError(where + "/" + key + ": is missing");
  if (!found->is_string()) throw InputError(where + "/" + key + ": is no text");
  return *found;
}

void check_in_vocabulary(std::span<const std::int32_t> tokens, std::int64_t vocabulary) {
  for (const std::int32_t token : tokens)
    if (token >= vocabulary)
      throw InputError(fmt::format(
          "its text has token {}, which is not in the model's vocabulary of {}; is this the "
          "model's tokenizer?",
          token, vocabulary));
}

}  // namespace meshwright::exec
