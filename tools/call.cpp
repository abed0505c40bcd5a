#include "tools/call.h"

#include "models/core/error.h"
#include "models/core/json.h"

namespace meshwright::tools {

json to_json(const Call& call) {
  return {{"command", call.command},
          {"operands", call.operands},
          {"jobs", call.jobs},
          {"options", call.options}};
}

Call read_call(const std::string& text) try {
  const json value = json::parse(text);
  Call call;
  value.at("command").get_to(call.command);
  value.at("operands").get_to(call.operands);
  value.at("jobs").get_to(call.jobs);
  value.at("options").get_to(call.options);
  return call;
} catch (const json::exception& error) {
  throw InputError(std::string("no call of a command: ") + error.what());
}

}  // namespace meshwright::tools
