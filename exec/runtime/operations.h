// Runs the operations of compute instructions on the backend.
#pragma once

#include <vector>

#include "exec/runtime/bucket_parts.h"
#include "exec/runtime/rank_context.h"

namespace meshwright::exec {

class OperationRunner {
 public:
  // The arguments must outlive it.
  OperationRunner(const RankContext& rank, const BucketParts& parts) : rank_(rank), parts_(parts) {}

  // Runs a compute instruction that is not the optimizer's, with `attributes` in place of its own.
  // `first_sequence` and `step_position` are those of OpContext.
  void run(const Instruction& instruction, const Attributes& attributes, const Task& task,
           std::int64_t first_sequence, std::int64_t step_position);

 private:
  void sum_of_squares(const Instruction& instruction, const Task& task);
  void look_at_parameters(const Instruction& instruction, const Task& task);

  const RankContext& rank_;
  const BucketParts& parts_;
  // They keep their memory from one operation to the next.
  std::vector<TensorType> input_types_, output_types_;
  std::vector<const void*> inputs_;
  std::vector<void*> outputs_;
};

}  // namespace meshwright::exec
