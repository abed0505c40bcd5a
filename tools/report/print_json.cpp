#include "tools/report/print_json.h"

#include <cstdio>
#include <nlohmann/json.hpp>

namespace meshwright {

namespace {

std::string text_of(const nlohmann::json& value, bool ascii) {
  return value.dump(2, ' ', ascii, nlohmann::json::error_handler_t::replace) + "\n";
}

thread_local JsonCapture* capture = nullptr;

}  // namespace

JsonCapture::JsonCapture() { capture = this; }
JsonCapture::~JsonCapture() { capture = nullptr; }

std::string json_text(const nlohmann::json& value) { return text_of(value, false); }

void print_json(const nlohmann::json& value) {
  const std::string text = text_of(value, true);  // no control character reaches a terminal
  if (capture != nullptr)
    capture->text += text;
  else
    std::fwrite(text.data(), 1, text.size(), stdout);
}

}  // namespace meshwright
