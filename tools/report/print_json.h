// Prints the one JSON object of --json.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace meshwright {

// Returns indented JSON. Text that is not UTF-8, such as a file's name, is replaced.
std::string json_text(const nlohmann::json& value);
// Prints indented JSON in ASCII to standard output, or to this thread's JsonCapture if there is
// one.
void print_json(const nlohmann::json& value);

// Collects in `text` what this thread prints as JSON while the object exists.
class JsonCapture {
 public:
  JsonCapture();
  ~JsonCapture();
  JsonCapture(const JsonCapture&) = delete;
  JsonCapture& operator=(const JsonCapture&) = delete;

  std::string text;
};

}  // namespace meshwright
