#include "exec/runtime/parameters.h"

#include <algorithm>

#include "exec/core/sha256.h"
#include "exec/optimizer/remainders.h"
#include "exec/runtime/host_view.h"
#include "exec/runtime/initial.h"
#include "models/core/error.h"

namespace meshwright::exec {

namespace {

constexpr int gather_tag = 1;

// The elements of a parameter's local tensor that one of its holders has.
struct HeldRange {
  std::int64_t begin = 0, count = 0;
};

template <typename Real>
std::int64_t bytes_in(std::int64_t count) {
  return count * static_cast<std::int64_t>(sizeof(Real));
}

HeldRange range_of_holder(const Bucket& bucket, const StageParameter& member, std::size_t i) {
  const std::int64_t elements = member.parameter.shape.elements();
  const std::int64_t held = exact_weights(bucket).type.shape.elements();
  if (held == bucket.elements) return {0, elements};
  const std::int64_t from = static_cast<std::int64_t>(i) * held;
  const std::int64_t first = std::clamp<std::int64_t>(from - member.offset, 0, elements);
  const std::int64_t end = std::clamp<std::int64_t>(from + held - member.offset, 0, elements);
  return {first, end - first};
}

}  // namespace

Parameters::Parameters(const std::vector<Program>& stages, const Mesh& mesh,
                       Communicator& everybody, const Arena& memory)
    : stages_(stages),
      mesh_(mesh),
      everybody_(everybody),
      memory_(memory),
      own_(mesh.coordinates(everybody.rank())) {
  for (std::size_t stage = 0; stage < stages.size(); ++stage)
    for (std::size_t i = 0; i < stages[stage].parameters.size(); ++i) {
      const StageParameter& found = stages[stage].parameters[i];
      if (!found.copy_of_tied) by_name_.push_back({static_cast<int>(stage), static_cast<int>(i)});
    }
  std::ranges::sort(by_name_, [&](const Entry& a, const Entry& b) {
    return member(a).parameter.name < member(b).parameter.name;
  });
}

const StageParameter& Parameters::member(const Entry& entry) const {
  return stages_[entry.stage].parameters[entry.index];
}

// Writes the parameter's 16-bit working copy, if there is one. It may hold more elements than this
// rank's masters. values_of(begin, count, values) writes the values of local elements of the
// parameter.
template <typename ValuesOf>
void Parameters::copy_rounded(const StageParameter& member, ThreadPool& pool,
                              const ValuesOf& values_of) const {
  const Bucket& bucket = stages_[own_.pipeline].buckets[member.bucket];
  if (!bucket.has_master()) return;
  const Dtype dtype = bucket.weights.type.dtype;
  const HeldCopy copy = memory_.working_copy(member);
  HostView<std::byte> bytes(memory_.backend(), static_cast<std::byte*>(copy.data),
                            copy.count * bytes_of(dtype));
  constexpr std::int64_t grain = 1 << 16;
  parallel_for(pool, copy.count, grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> values(end - begin);
    values_of(copy.begin + begin, end - begin, values.data());
    round_masters(values.data(), dtype, end - begin, bytes.data() + begin * bytes_of(dtype));
  });
}

void Parameters::initialise(std::uint64_t seed, int layers, ThreadPool& pool) {
  constexpr std::int64_t grain = 1 << 20;
  for (const StageParameter& each : stages_[own_.pipeline].parameters) {
    const InitialOptions options{seed, layers, part_of(each.parameter, mesh_, own_)};
    const HeldWeights held = memory_.weights(each);
    StateView<float> drawn(memory_.backend(), held.data, held.count);
    parallel_for(pool, held.count, grain, [&](std::int64_t begin, std::int64_t end) {
      fill_initial(each.parameter, options, held.begin + begin, end - begin, drawn.data() + begin);
    });
    const auto draw = [&](std::int64_t begin, std::int64_t end, float* values) {
      if (begin < end) fill_initial(each.parameter, options, begin, end - begin, values);
    };
    // The copy takes values from this rank's masters. Only values whose masters other ranks hold
    // are drawn again.
    copy_rounded(each, pool, [&](std::int64_t begin, std::int64_t count, float* values) {
      const std::int64_t end = begin + count;
      const std::int64_t first = std::clamp(held.begin, begin, end);
      const std::int64_t last = std::clamp(held.begin + held.count, first, end);
      draw(begin, first, values);
      if (first < last)
        std::copy_n(drawn.data() + (first - held.begin), last - first, values + (first - begin));
      draw(last, end, values + (last - begin));
    });
  }
}

template <typename Real>
void Parameters::set(std::string_view name, std::span<const std::type_identity_t<Real>> values) {
  for (const StageParameter& each : stages_[own_.pipeline].parameters) {
    if (each.parameter.name != name) continue;
    MESHWRIGHT_CHECK(
        static_cast<std::int64_t>(values.size()) == each.parameter.global_shape.elements(),
        "a parameter is given whole");
    const std::vector<ParameterRun> runs =
        runs_of(each.parameter, part_of(each.parameter, mesh_, own_));
    const auto part = [&](std::int64_t begin, std::int64_t count, auto* to) {
      for (const ParameterRun& run : runs) {
        const std::int64_t first = std::max(run.local, begin);
        const std::int64_t end = std::min(run.local + run.count, begin + count);
        if (run.global < 0 || first >= end) continue;
        const Real* from = values.data() + run.global + (first - run.local);
        std::copy(from, from + (end - first), to + (first - begin));
      }
    };
    const HeldWeights held = memory_.weights(each);
    part(held.begin, held.count, StateView<Real>(memory_.backend(), held.data, held.count).data());
    ThreadPool alone(1);
    copy_rounded(each, alone, part);
  }
}

template void Parameters::set<float>(std::string_view, std::span<const float>);
template void Parameters::set<double>(std::string_view, std::span<const double>);

// Returns the ranks that together hold a part, in the order of its elements.
std::vector<int> Parameters::holders(const Entry& entry, PartOfCut part) const {
  const Coordinates holder = member(entry).parameter.is_cut_by_experts
                                 ? mesh_.first_with_experts(entry.stage, part.index, part.expert)
                                 : Coordinates{entry.stage, part.index, 0};
  const int first = mesh_.rank(holder);
  const Program& program = stages_[entry.stage];
  const Bucket& bucket = program.buckets[member(entry).bucket];
  const Operand& exact = exact_weights(bucket);
  const Owner& owner = program.memory.buffers[exact.buffer].owner;
  if (!owner.everybody())
    return {mesh_.rank({entry.stage, owner.tensor >= 0 ? owner.tensor : part.index, owner.rdp})};
  if (exact.type.shape.elements() == bucket.elements) return {first};
  return mesh_.group(bucket.shard(), first);
}

template <typename Real>
void Parameters::send_part(const Entry& entry, PartOfCut part) const {
  const std::vector<int> ranks = holders(entry, part);
  if (std::ranges::find(ranks, everybody_.rank()) == ranks.end()) return;
  const HeldWeights held = memory_.weights(member(entry));
  if (held.count == 0) return;
  StateView<const Real> values(memory_.backend(), held.data, held.count);
  everybody_.wait(everybody_.isend(values.data(), bytes_in<Real>(held.count), 0, gather_tag));
}

template <typename Real>
void Parameters::receive_part(const Entry& entry, PartOfCut part, std::vector<Real>& whole) const {
  const StageParameter& wanted = member(entry);
  const Bucket& bucket = stages_[entry.stage].buckets[wanted.bucket];
  std::vector<Real> local(wanted.parameter.shape.elements());
  const std::vector<int> ranks = holders(entry, part);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const HeldRange range = range_of_holder(bucket, wanted, i);
    if (range.count == 0) continue;
    Real* to = local.data() + range.begin;
    if (ranks[i] == 0) {
      const HeldWeights held = memory_.weights(wanted);
      StateView<const Real> values(memory_.backend(), held.data, held.count);
      std::copy(values.data(), values.data() + held.count, to);
    } else {
      everybody_.wait(everybody_.irecv(to, bytes_in<Real>(range.count), ranks[i], gather_tag));
    }
  }
  for (const ParameterRun& run : runs_of(wanted.parameter, part))
    if (run.global >= 0)
      std::copy(local.begin() + run.local, local.begin() + run.local + run.count,
                whole.begin() + run.global);
}

template <typename Real>
void Parameters::gather_as(const VisitorOf<Real>& on_rank_0) const {
  std::vector<Real> whole;
  for (const Entry& entry : by_name_) {
    const Parameter& parameter = member(entry).parameter;
    const bool takes = everybody_.rank() == 0;
    if (takes) whole.resize(parameter.global_shape.elements());
    PartOfCut part = part_of(parameter, mesh_, own_);
    for (part.expert = 0; part.expert < part.experts; ++part.expert)
      for (part.index = 0; part.index < part.count; ++part.index)
        takes ? receive_part(entry, part, whole) : send_part<Real>(entry, part);
    if (takes) on_rank_0(parameter, whole);
  }
}

template void Parameters::gather_as(const VisitorOf<float>&) const;
template void Parameters::gather_as(const VisitorOf<double>&) const;

std::string Parameters::sha256() const {
  Sha256 sum;
  gather([&](const Parameter&, std::span<const float> values) {
    sum.add(values.data(), values.size_bytes());
  });
  return everybody_.rank() == 0 ? sum.hex() : "";
}

}  // namespace meshwright::exec
