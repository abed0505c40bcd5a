// Finds which tensors make up the peak of a stage's memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/program/program.h"

namespace meshwright::program {

struct PeakTensor {
  // The name of the buffer, such as "gradients". For tensors other than parameters, gradients,
  // optimizer states and snapshots, the path of the module that makes them comes first. Numbers in
  // the path are replaced by `*`, so that repeated blocks share one entry:
  // "transformer.h.*.attn attention".
  std::string name;
  MemoryClass cls = MemoryClass::activations;
  std::int64_t bytes = 0;  // of all tensors of this name and class, of which there are `count`
  int count = 0;
};

// Returns the tensors in the arena of a rank that owns most (Program::fullest) at its peak, largest
// first: persistent buffers, all windows, the slots in use, and the buffers that are live in the
// body that needs most. Gaps between buffers are not counted.
std::vector<PeakTensor> peak_tensors(const Program& program);

}  // namespace meshwright::program
