// Reads and writes messages of JSON-RPC 2.0 as the Model Context Protocol uses it, revision
// 2025-06-18: a message is a line, and there are no batches.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "models/core/json.h"

namespace meshwright::tools::mcp {

constexpr const char* protocol_version = "2025-06-18";

enum class Code : int {
  parse_error = -32700,
  invalid_request = -32600,
  method_not_found = -32601,
  invalid_params = -32602,
  internal_error = -32603
};

// Is thrown to send an error instead of a result. `id` is that of the request, or null if it is
// unknown.
class Refusal : public std::runtime_error {
 public:
  Refusal(Code code, const std::string& message, json id = nullptr)
      : std::runtime_error(message), code_(code), id_(std::move(id)) {}

  Code code() const { return code_; }
  const json& id() const { return id_; }

 private:
  Code code_;
  json id_;  // of the request, if it is known
};

struct Message {
  enum class Kind : std::uint8_t {
    request,
    notification,
    response  // ignored: this server sends no requests
  };
  Kind kind = Kind::request;
  json id;  // a string or a whole number
  std::string method;
  json params = json::object();
};

// Throws Refusal if the line is not such a message.
Message read_message(const std::string& line);

// Return a message as a line, without the end of the line.
std::string result_line(const json& id, const json& result);
std::string error_line(const json& id, Code code, const std::string& message);
std::string notification_line(const std::string& method, const json& params);

}  // namespace meshwright::tools::mcp
