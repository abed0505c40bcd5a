// How many of many are tried. What enumerates or draws for minutes tries one in a few, so that
// tools/test is soon done. All are tried on GPUs and where the environment has MESHWRIGHT_ALL
// (tools/test --all). .ci/run sets MESHWRIGHT_DRAW from the commit, so that each landing tries
// others and, in time, all have their turn.
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

// Returns the number in MESHWRIGHT_DRAW, 0 if there is none.
inline int draw_of_run() {
  static const char* number = std::getenv("MESHWRIGHT_DRAW");
  static const int draw = number == nullptr ? 0 : std::atoi(number);
  return draw;
}

// Returns whether the case that is number `turn` of an enumeration is tried.
inline bool is_tried(int turn, int distance) {
  return (turn + draw_of_run()) % one_in(distance) == 0;
}

}  // namespace meshwright::tests
