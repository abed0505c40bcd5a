// Throws the errors of the rules about a plan: "/key: problem; remedy".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/core/error.h"

namespace meshwright {

[[noreturn]] inline void refuse(std::string_view key, const std::string& problem) {
  throw InputError("/" + std::string(key) + ": " + problem);
}

[[noreturn]] inline void refuse(std::string_view key, const std::string& statement,
                                const std::vector<std::int64_t>& choices) {
  throw WrongChoice("/" + std::string(key) + ": " + statement, choices);
}

[[noreturn]] inline void not_yet(std::string_view key, const std::string& what) {
  throw NotSupportedYet("/" + std::string(key) + ": " + what + " is not supported yet");
}

}  // namespace meshwright
