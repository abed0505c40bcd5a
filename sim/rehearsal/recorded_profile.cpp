#include "sim/rehearsal/recorded_profile.h"

#include <algorithm>

namespace meshwright::sim {

namespace {

constexpr std::string_view nccl_names[recorded_collective_count] = {
    "AllReduce", "AllGather", "ReduceScatter", "Broadcast", "Reduce", "AllToAll", "Send", "Recv"};
constexpr std::string_view copy_names[] = {"Memcpy HtoD", "Memcpy DtoH", "Memcpy DtoD"};

const RecordedKernel* kernel_of(const Recording& recording, const RecordedEvent& event) {
  return event.kernel < 0 ? nullptr : &recording.kernels[static_cast<std::size_t>(event.kernel)];
}

bool multiplies(const RecordedKernel& recorded) {
  return recorded.kernel.kind == Kernel::Kind::gemm ||
         recorded.kernel.kind == Kernel::Kind::batched_gemm;
}

std::string name_of_product(const Kernel& kernel) {
  std::string name = "gemm " + std::to_string(kernel.m) + "x" + std::to_string(kernel.n) + "x" +
                     std::to_string(kernel.k);
  if (kernel.batch > 1) name = std::to_string(kernel.batch) + " " + name;
  return name + " " + std::string(name_of(kernel.precision.value_or(Precision::fp32)));
}

}  // namespace

std::string profiled_name(const Recording& recording, const RecordedEvent& event) {
  switch (event.what) {
    case Recorded::collective:
      return "ncclDevKernel_" + std::string(nccl_names[static_cast<std::size_t>(event.collective)]);
    case Recorded::copy:
      return std::string(copy_names[static_cast<std::size_t>(event.direction)]);
    case Recorded::set:
      return "Memset";
    default:
      break;
  }
  const RecordedKernel* const kernel = kernel_of(recording, event);
  if (event.symbol >= 0) return recording.symbols[static_cast<std::size_t>(event.symbol)];
  if (kernel != nullptr && multiplies(*kernel)) return name_of_product(kernel->kernel);
  return event.op < 0 ? "kernel" : recording.operations[static_cast<std::size_t>(event.op)];
}

KernelKind profiled_kind(const Recording& recording, const RecordedEvent& event) {
  const RecordedKernel* const kernel = kernel_of(recording, event);
  if (kernel != nullptr && multiplies(*kernel)) return KernelKind::products;
  if (kernel != nullptr && kernel->kernel.kind == Kernel::Kind::attention)
    return KernelKind::attention;
  return kind_of_kernel(profiled_name(recording, event));
}

ProfilerTrace recorded_profile(const Recording& recording, const std::vector<RecordedSpan>& spans,
                               SimTime step_time) {
  ProfilerTrace trace;
  trace.rank = recording.rank;
  trace.world_size = recording.ranks;
  trace.end = step_time;
  trace.steps.push_back({0, 0, step_time});
  for (const RecordedSpan& span : spans) {
    if (span.lane != RecordedSpan::Lane::device) continue;
    const RecordedEvent& event = recording.events[static_cast<std::size_t>(span.event)];
    trace.kernels.push_back({profiled_name(recording, event), profiled_kind(recording, event),
                             span.begin, span.end, span.begin});
  }
  std::ranges::stable_sort(trace.kernels, {}, &ProfiledKernel::begin);
  return trace;
}

}  // namespace meshwright::sim
