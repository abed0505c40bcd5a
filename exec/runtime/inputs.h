// Brings the inputs of a step (tokens, targets, positions, ...) from the loader to the memory that
// the Program reads.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "exec/data/loader.h"
#include "exec/runtime/arena.h"
#include "models/program/program.h"

namespace meshwright::exec {

// The share of the global batch that a rank reads.
struct InputShare {
  std::int64_t micro_batch = 1;  // sequences
  int tensor_rank = 0, tensor_size = 1;
  int context_rank = 0, context_size = 1;
};

class Inputs {
 public:
  Inputs(const Program& program, const Arena& memory, const InputShare& share,
         std::int64_t sequence_length);
  ~Inputs();
  Inputs(const Inputs&) = delete;
  Inputs& operator=(const Inputs&) = delete;

  // Reads the input of a load instruction into host memory before the step is issued, if the device
  // has its own memory. Otherwise does nothing. `first_sequence` is that of the task's micro-batch.
  void read_ahead(int task, int instruction, std::int64_t first_sequence, Loader& loader);
  // Performs the load instruction itself.
  void load(int task, int instruction, std::int64_t first_sequence, Loader& loader);

 private:
  void read(const Instruction& instruction, std::int64_t first_sequence, Loader& loader,
            std::int32_t* to);

  const Program& program_;
  const Arena& memory_;
  InputShare share_;
  // A whole sequence, of which this rank of a context group takes its part.
  std::vector<std::int32_t> sequence_;
  std::map<std::pair<int, int>, std::int64_t> place_;  // offset in `ahead_`, by (task, instruction)
  char* ahead_ = nullptr;
};

}  // namespace meshwright::exec
