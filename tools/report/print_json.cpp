#include "tools/report/print_json.h"

#include <cstdio>

#include "tools/session/json_text.h"

namespace meshwright::tools {

void print_json(const nlohmann::json& value) {
  const std::string text = json_text(value, true);
  std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace meshwright::tools
