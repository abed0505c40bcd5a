#include "exec/runtime/bucket_parts.h"

#include <algorithm>

#include "exec/runtime/parameter_runs.h"
#include "models/program/factors.h"

namespace meshwright::exec {

// Returns whether this rank counts its part of the bucket in the norm. If the norm is summed over
// all ranks, one of those with the same part counts it.
bool BucketParts::counts_in_norm(const Bucket& bucket) const {
  if (!rank_.mesh.degrees().has_expert_groups()) return true;
  return rank_.mesh.index_in(bucket.sharded ? bucket.replica() : bucket.rdp(),
                             rank_.world.rank()) == 0;
}

BucketParts::BucketParts(const RankContext& rank) : rank_(rank) {
  for (const Bucket& bucket : rank_.program.buckets) {
    const bool one_of_tensor = bucket.owner.tensor >= 0;
    const std::int64_t begin = rank_.memory.own_begin(bucket), end = begin + bucket.shard_elements;
    std::vector<OptimizerSegment>& own_segments = segments.emplace_back();
    std::vector<Run>& own_counted = counted.emplace_back();
    if (!rank_.memory.steps(bucket) || bucket.frozen) continue;
    const bool first_copy = counts_in_norm(bucket);
    for (int index : bucket.parameters) {
      const StageParameter& member = rank_.program.parameters[index];
      const Parameter& parameter = member.parameter;
      const std::int64_t first = std::max(member.offset, begin);
      const std::int64_t last = std::min(member.offset + parameter.shape.elements(), end);
      if (first >= last) continue;
      const bool differs = parameter.is_cut || bucket.is_over_tensor(rank_.mesh.degrees());
      const bool first_replica = differs || one_of_tensor || rank_.own.tensor == 0;
      OptimizerSegment elements{first - begin, last - first, parameter.decay};
      elements.counted = first_replica;  // replicas count once
      elements.first = first - member.offset;
      elements.parameter = index;
      if (bucket.matrices) elements.matrix = whole_matrix_of(bucket, parameter);
      if (rank_.training.moments_at_random) elements.rounding = rounding_of(parameter);
      if (rank_.training.optimizer == OptimizerKind::adafactor) {
        elements.adafactor = adafactor_parameter(member);
        if (bucket.factored) {
          elements.factors =
              rank_.memory.buffer<float>(rank_.program.factors_buffer) + member.first_factor;
          elements.factor_sums =
              rank_.memory.buffer<double>(rank_.program.factor_sums_buffer) + member.first_factor;
        }
      }
      own_segments.push_back(elements);
      if (!first_replica || !first_copy || member.copy_of_tied) continue;
      if (own_counted.empty() ||
          own_counted.back().begin + own_counted.back().count != elements.begin)
        own_counted.push_back({elements.begin, 0});
      own_counted.back().count += elements.count;
    }
  }
}

const WholeMatrix* BucketParts::whole_matrix_of(const Bucket& bucket, const Parameter& parameter) {
  WholeMatrix& made = matrices_.emplace_back();
  const bool gathered = bucket.updates.buffer != bucket.update.buffer;
  const Shape& shape = gathered ? parameter.padded_shape : parameter.shape;
  made.rows = shape[-2];
  made.columns = shape[-1];
  made.count = shape.elements() / (made.rows * made.columns);
  if (gathered) {
    made.cut_dim = parameter.cut.dim;
    made.segments = parameter.cut.segments;
    made.parts = rank_.mesh.degrees().tensor;
    made.part = rank_.own.tensor;
  }
  return &made;
}

const AdafactorParameter* BucketParts::adafactor_parameter(const StageParameter& member) {
  const Parameter& parameter = member.parameter;
  AdafactorParameter& made = adafactor_parameters_.emplace_back();
  made.elements = parameter.global_shape.elements();
  if (member.first_factor < 0) return &made;
  const Shape whole = factored_shape(parameter);
  made.rows = whole[0], made.columns = whole[1];
  made.width = parameter.shape[1];
  made.places = places_of(parameter, part_of(parameter, rank_.mesh, rank_.own));
  return &made;
}

const RandomRounding* BucketParts::rounding_of(const Parameter& parameter) {
  return &roundings_.emplace_back(rounding_key(rank_.training.seed, parameter.name),
                                  places_of(parameter, part_of(parameter, rank_.mesh, rank_.own)));
}

}  // namespace meshwright::exec
