// The end of a step: the loss scale, and the optimizer on this rank's parts of buckets.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "exec/optimizer/loss_scale.h"
#include "exec/optimizer/updater.h"
#include "exec/runtime/bucket_parts.h"
#include "exec/runtime/rank_context.h"

namespace meshwright::exec {

class StepUpdate {
 public:
  // The arguments must outlive it.
  StepUpdate(const RankContext& rank, const BucketParts& parts);

  // Called before a step is issued. `step` counts the steps that were not skipped, and `of_mean`
  // multiplies the gradients (updater.h).
  void begin_step(std::int64_t step, double learning_rate, double of_mean);
  // Runs an instruction of the optimizer.
  void run(const Instruction& instruction);

  // The loss scale of the next step. Setting it leaves the job's static scale as it is.
  bool scales_loss() const { return rank_.program.loss_scale_buffer >= 0; }
  const LossScaleState& loss_scale() const { return scale_; }
  void set_loss_scale(const LossScaleState& state);
  void read_loss_scale();  // after a step, which computed the next one's

 private:
  ScaledStep* scaled_step() const;
  void choose_segments(int bucket, int piece);
  std::vector<ChoiceBias> choice_biases(int bucket) const;

  const RankContext& rank_;
  const BucketParts& parts_;
  std::unique_ptr<Updater> updater_;
  std::vector<int> first_key_;  // by bucket: the updater's number of its first piece
  LossScaleState scale_;
  bool decided_ = false;                   // whether decide() was called in this step
  std::vector<OptimizerSegment> stepped_;  // segments of the bucket or piece in hand
};

}  // namespace meshwright::exec
