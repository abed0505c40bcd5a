// Is included before the text of kernels that are compiled at run time (nvrtc.cpp). The build
// precompiles it.
#pragma once

#include <functional>
#include <tuple>
#include <utility>
#include "tests/cuda_emulation/cuda_runtime.h"

#define kept (reinterpret_cast<float*>(emulated::shared_memory()))

template <typename... Parameters, std::size_t... i>
std::function<void()> bound(void (*kernel)(Parameters...), void** arguments,
                            std::index_sequence<i...>) {
  const std::tuple<Parameters...> values(*static_cast<Parameters*>(arguments[i])...);
  return [=] { std::apply(kernel, values); };
}
template <typename... Parameters>
std::function<void()> bound(void (*kernel)(Parameters...), void** arguments) {
  return bound(kernel, arguments, std::index_sequence_for<Parameters...>());
}
