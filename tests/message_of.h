// Catches an error of this project and returns its message.
#pragma once

#include <string>

#include "models/core/error.h"

namespace meshwright::tests {

// Returns the message of the InputError or RunError that `work` throws, or "" if it throws none.
template <typename Work>
std::string message_of(const Work& work) {
  try {
    work();
  } catch (const InputError& error) {
    return error.what();
  } catch (const RunError& error) {
    return error.what();
  }
  return {};
}

}  // namespace meshwright::tests
