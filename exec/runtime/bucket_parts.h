// Finds out which elements of which parameters are in this rank's parts of buckets.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "exec/optimizer/adafactor.h"
#include "exec/optimizer/optimizer.h"
#include "exec/optimizer/random_rounding.h"
#include "exec/runtime/rank_context.h"

namespace meshwright::exec {

class BucketParts {
 public:
  explicit BucketParts(const RankContext& rank);  // which must outlive it

  struct Run {  // neighbouring elements of this rank's part of a bucket
    std::int64_t begin = 0, count = 0;
  };
  std::vector<std::vector<OptimizerSegment>> segments;  // by bucket: those that this rank updates
  std::vector<std::vector<Run>> counted;                // by bucket: in the gradient norm

 private:
  bool counts_in_norm(const Bucket& bucket) const;
  const WholeMatrix* whole_matrix_of(const Bucket& bucket, const Parameter& parameter);
  const RandomRounding* rounding_of(const Parameter& parameter);
  const AdafactorParameter* adafactor_parameter(const StageParameter& member);

  const RankContext& rank_;
  // Segments point to these.
  std::deque<WholeMatrix> matrices_;
  std::deque<RandomRounding> roundings_;
  std::deque<AdafactorParameter> adafactor_parameters_;
};

}  // namespace meshwright::exec
