#include "tools/session/json_text.h"

#include <nlohmann/json.hpp>

namespace meshwright::session {

std::string json_text(const nlohmann::json& value, bool ascii) {
  return value.dump(2, ' ', ascii, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace meshwright::session
