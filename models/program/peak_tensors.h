// Which tensors make the peak of a stage's memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/program/program.h"

namespace meshwright {

struct PeakTensor {
  // What it is ("gradients"), or the module and the operation that make it, blocks as one:
  // "transformer.h.*.attn attention".
  std::string name;
  MemoryClass cls = MemoryClass::activations;
  std::int64_t bytes = 0;  // of all of them
  int count = 0;
};

// What lies in the arena of the stage's fullest rank at its fullest moment, largest first: what
// stays, what every slot and window holds, and what is live in the body that needs most. Gaps
// between them are in nobody's bytes.
std::vector<PeakTensor> peak_tensors(const Program& program);

}  // namespace meshwright
