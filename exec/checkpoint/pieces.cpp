#include "exec/checkpoint/pieces.h"

#include <algorithm>

namespace meshwright::exec {

namespace {

// Returns whether this rank saves elements of the parameter, which has this index in the program.
// An unsplit parameter is the same on all ranks of a tensor group, and each such parameter is saved
// by one of them, chosen by its index. There are two exceptions: a bucket with an owner, and a
// bucket whose elements are shared out over the tensor ranks. Copies of tied parameters are not
// saved.
bool saves(const StageParameter& member, int index, const Runtime& runtime) {
  if (member.copy_of_tied) return false;
  const Bucket& bucket = runtime.program().buckets[member.bucket];
  return member.parameter.is_cut || bucket.owner.tensor >= 0 ||
         bucket.is_over_tensor(runtime.mesh().degrees()) ||
         index % runtime.mesh().degrees().tensor == runtime.coordinates().tensor;
}

PieceSource source_of(const Parameter& parameter, const std::vector<ParameterRun>& runs,
                      const std::byte* data, Dtype type) {
  PieceSource source;
  source.piece.name = parameter.name;
  source.piece.shape = parameter.global_shape;
  const std::byte* end = nullptr;  // end of the last part
  for (const ParameterRun& run : runs) {
    append_run(source.piece.runs, run.global, run.count);
    const std::byte* from = data + bytes_of(run.local, type);
    if (from == end)
      source.parts.back().count += run.count;
    else
      source.parts.push_back({from, run.count});
    end = from + bytes_of(run.count, type);
  }
  return source;
}

}  // namespace

std::vector<ParameterRun> runs_within(const std::vector<ParameterRun>& runs, std::int64_t begin,
                                      std::int64_t count) {
  std::vector<ParameterRun> within;
  for (const ParameterRun& run : runs) {
    const std::int64_t first = std::max(run.local, begin);
    const std::int64_t end = std::min(run.local + run.count, begin + count);
    if (run.global >= 0 && first < end)
      within.push_back({first - begin, run.global + (first - run.local), end - first});
  }
  return within;
}

std::vector<PieceSource> pieces_of(const Runtime& runtime) {
  const Arena& memory = runtime.memory();
  std::vector<PieceSource> pieces;
  for (const Bucket& bucket : runtime.program().buckets) {
    const Arena::Slice slice = memory.saved_slice(bucket);
    if (slice.count == 0) continue;
    const std::byte* snapshot = memory.snapshot(bucket);
    const Dtype type = bucket.snapshot.type.dtype;
    const std::int64_t from = memory.own_begin(bucket) + slice.begin;  // index in the bucket
    for (int index : bucket.parameters) {
      const StageParameter& member = runtime.program().parameters[index];
      if (!saves(member, index, runtime)) continue;
      const Parameter& parameter = member.parameter;
      const std::int64_t first = std::max(member.offset, from);
      const std::int64_t end =
          std::min(member.offset + parameter.shape.elements(), from + slice.count);
      if (first >= end) continue;
      const auto runs =
          runs_within(runs_of(parameter, part_of(parameter, runtime.mesh(), runtime.coordinates())),
                      first - member.offset, end - first);
      if (runs.empty()) continue;
      pieces.push_back(source_of(parameter, runs, snapshot + bytes_of(first - from, type), type));
      pieces.back().state_distance = bucket.slice_elements();
    }
  }
  return pieces;
}

}  // namespace meshwright::exec
