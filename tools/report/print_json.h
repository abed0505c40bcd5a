// The one JSON object of --json.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace meshwright {

// Indented. Text that is not UTF-8 (a file's name may be anything) is replaced.
std::string json_text(const nlohmann::json& value);
// To standard output, or to this thread's JsonCapture.
void print_json(const nlohmann::json& value);

// While one of these lives, what this thread prints as JSON comes here.
class JsonCapture {
 public:
  JsonCapture();
  ~JsonCapture();
  JsonCapture(const JsonCapture&) = delete;
  JsonCapture& operator=(const JsonCapture&) = delete;

  std::string text;
};

}  // namespace meshwright
