// Lists the tensors that a micro-batch hands from one pipeline stage to the next.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/program/program.h"

namespace meshwright::program {

struct CrossingTensor {
  std::string name;  // the module that makes it, if it is on the sending stage; the buffer's name
  std::int64_t bytes = 0;
};

// The tensors that a virtual stage hands to the next one in the forward pass of a micro-batch.
struct Crossing {
  int stage = 0, chunk = 0;            // the virtual stage that sends
  int next_stage = 0, next_chunk = 0;  // the virtual stage that receives
  std::vector<CrossingTensor> tensors;

  std::int64_t bytes() const;
};

// Returns the crossings in the order in which a micro-batch reaches them. They include tensors that
// a stage only passes on.
std::vector<Crossing> crossings(const std::vector<Program>& stages);

}  // namespace meshwright::program
