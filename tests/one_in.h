// How many of many are tried. What enumerates or draws for minutes tries one in a few, so that
// tools/test is soon done; all of them where the environment has MESHWRIGHT_ALL (tools/test --all,
// which .ci/run asks for), and on GPUs.
#pragma once

#include <cstdlib>

namespace meshwright::tests {

inline bool all_are_tried() {
#ifdef MESHWRIGHT_ON_GPU
  return true;
#else
  static const bool all = std::getenv("MESHWRIGHT_ALL") != nullptr;
  return all;
#endif
}
// Returns the distance between the cases that are tried: `distance`, or 1 if all are.
inline int one_in(int distance) { return all_are_tried() ? 1 : distance; }

}  // namespace meshwright::tests
