// What an error of this project says.
#pragma once

#include <string>

#include "models/core/error.h"

namespace meshwright {

// Empty where `work` ends well.
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

}  // namespace meshwright
