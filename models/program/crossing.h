// Finds what crosses from one pipeline stage to the next.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/program/program.h"

namespace meshwright::program {

struct CrossingTensor {
  std::string name;  // the module and the operation that make it, as in memory
  std::int64_t bytes = 0;
};

// The tensors that a virtual stage hands to the next one in the forward pass of a micro-batch.
struct Crossing {
  int stage = 0, chunk = 0;            // that sends
  int next_stage = 0, next_chunk = 0;  // that receives
  std::vector<CrossingTensor> tensors;

  std::int64_t bytes() const;
};

// Returns the crossings in the order in which a micro-batch comes to them. A tensor that a stage
// only passes on is among them.
std::vector<Crossing> crossings(const std::vector<Program>& stages);

}  // namespace meshwright::program
