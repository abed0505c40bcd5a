#include "tools/mcp/messages.h"

#include "models/core/error.h"
#include "models/core/fields.h"

namespace meshwright::tools::mcp {

namespace {

// Returns a message as a line of ASCII. Characters such as line ends in strings are escaped, so the
// message contains no end of a line.
std::string line_of(const json& value) {
  return value.dump(-1, ' ', true, json::error_handler_t::replace);
}

bool is_id(const json& value) { return value.is_string() || value.is_number_integer(); }

json parse(const std::string& line) {
  try {
    return parse_json(line, "message");
  } catch (const InputError& error) {
    throw Refusal(Code::parse_error, error.what());
  }
}

}  // namespace

Message read_message(const std::string& line) {
  const json value = parse(line);
  if (value.is_array())
    throw Refusal(Code::invalid_request, "a message is one object; there are no batches");
  if (!value.is_object()) throw Refusal(Code::invalid_request, "a message is an object");
  const bool has_id = value.contains("id");
  const json id = has_id && is_id(value["id"]) ? value["id"] : json(nullptr);
  const auto refuse = [&](const char* why) { throw Refusal(Code::invalid_request, why, id); };
  if (value.value("jsonrpc", json()) != "2.0") refuse("'jsonrpc' must be \"2.0\"");
  Message message;
  if (!value.contains("method")) {
    if (!has_id || (!value.contains("result") && !value.contains("error")))
      refuse("'method' is missing");
    message.kind = Message::Kind::response;
    return message;
  }
  if (!value["method"].is_string()) refuse("'method' must be a string");
  if (has_id && id.is_null()) refuse("'id' must be a string or a whole number");
  message.kind = has_id ? Message::Kind::request : Message::Kind::notification;
  message.id = id;
  message.method = value["method"];
  if (!value.contains("params")) return message;
  if (!value["params"].is_object())
    throw Refusal(Code::invalid_params, "'params' must be an object", id);
  message.params = value["params"];
  return message;
}

std::string result_line(const json& id, const json& result) {
  return line_of({{"jsonrpc", "2.0"}, {"id", id}, {"result", result}});
}

std::string error_line(const json& id, Code code, const std::string& message) {
  return line_of({{"jsonrpc", "2.0"},
                  {"id", id},
                  {"error", {{"code", static_cast<int>(code)}, {"message", message}}}});
}

std::string notification_line(const std::string& method, const json& params) {
  return line_of({{"jsonrpc", "2.0"}, {"method", method}, {"params", params}});
}

}  // namespace meshwright::tools::mcp
