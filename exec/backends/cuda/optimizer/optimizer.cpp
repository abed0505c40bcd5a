#include "exec/backends/cuda/optimizer/optimizer.h"

#include "exec/backends/cuda/optimizer/rules.h"

namespace meshwright::exec::cuda {

namespace {

// Returns how many chunks the elements [begin, end) have, counted from the group that holds
// `begin`.
std::int64_t chunks_of(std::int64_t begin, std::int64_t end) {
  const std::int64_t groups = (end + group - 1) / group - begin / group;
  return (groups + groups_per_chunk - 1) / groups_per_chunk;
}

}  // namespace

std::vector<DeviceSegment> device_segments(std::span<const OptimizerSegment> segments) {
  std::vector<DeviceSegment> made;
  std::int64_t chunks = 0;
  for (const OptimizerSegment& segment : segments) {
    if (segment.count == 0) continue;
    const std::int64_t end = segment.begin + segment.count;
    DeviceSegment& last = made.emplace_back(DeviceSegment{
        segment.begin, end, chunks, segment.norms, -1, segment.decay, segment.counted, true,
        segment.matrix == nullptr ? 1.0F : static_cast<float>(muon_scale(*segment.matrix)),
        segment.rounding == nullptr ? RandomRounding{} : *segment.rounding, segment.first,
        segment.adafactor == nullptr ? AdafactorParameter{} : *segment.adafactor, segment.factors,
        segment.factor_sums});
    chunks += chunks_of(segment.begin, end);
    for (std::size_t i = made.size() - 1; i-- > 0 && segment.norms != nullptr;) {
      if (made[i].norms != segment.norms) continue;
      made[i].next_of_parameter = static_cast<std::int32_t>(made.size() - 1);
      last.is_first = false;
      break;
    }
  }
  return made;
}

DeviceSegments segments_at(const DeviceSegment* copy, const std::vector<DeviceSegment>& segments) {
  if (segments.empty()) return {};
  const DeviceSegment& last = segments.back();
  return {copy, static_cast<int>(segments.size()),
          last.first_chunk + chunks_of(last.begin, last.end)};
}

void optimizer_step(const StepSettings& training, const UpdateScalars* scalars,
                    const DeviceSegments& segments, const OptimizerState& state,
                    cudaStream_t stream) {
  if (state.update != nullptr) return step_muon(scalars, segments, state, stream);
  switch (training.optimizer) {
    case OptimizerKind::muon:  // parameters that are not matrices
    case OptimizerKind::adamw:
      return step_adamw(scalars, segments, state, stream);
    case OptimizerKind::adam:
      return step_adam(scalars, segments, state, stream);
    case OptimizerKind::sgd:
      return step_sgd(scalars, segments, state, stream);
    case OptimizerKind::lion:
      return step_lion(scalars, segments, state, stream);
    case OptimizerKind::lamb:
      return step_lamb(scalars, segments, state, stream);
    case OptimizerKind::adafactor:
      return step_adafactor(training.adafactor, scalars, segments, state, stream);
  }
}

}  // namespace meshwright::exec::cuda
