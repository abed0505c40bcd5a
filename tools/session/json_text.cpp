#include "tools/session/json_text.h"

#include "models/core/json.h"

namespace meshwright::session {

std::string json_text(const json& value, bool ascii) {
  return value.dump(2, ' ', ascii, json::error_handler_t::replace) + "\n";
}

}  // namespace meshwright::session
