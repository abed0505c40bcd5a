// Which tensors make the peak of a stage's memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/program/program.h"

namespace meshwright {

struct PeakTensor {
  // The buffer's name ("gradients"), or the module and the operation that make it. Block numbers
  // are replaced by `*`, so that blocks are one: "transformer.h.*.attn attention".
  std::string name;
  MemoryClass cls = MemoryClass::activations;
  std::int64_t bytes = 0;  // of all of them
  int count = 0;
};

// Returns the tensors in the arena of a rank that owns most (Program::fullest) at its peak, largest
// first: those that are always there, those in all windows and in the slots in use, and those that
// are live in the body that needs most. Gaps between them are not counted.
std::vector<PeakTensor> peak_tensors(const Program& program);

}  // namespace meshwright
