#include "tools/report/print_json.h"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace meshwright {

std::string json_text(const nlohmann::json& value) {
  return value.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

void print_json(const nlohmann::json& value) {
  const std::string text = json_text(value);
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace meshwright
