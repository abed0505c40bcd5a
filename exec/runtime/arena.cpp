#include "exec/runtime/arena.h"

#include <algorithm>
#include <cstddef>

#include "exec/runtime/host_view.h"
#include "exec/runtime/parameter_runs.h"
#include "models/core/error.h"
#include "models/program/factors.h"

namespace meshwright::exec {

namespace {
Owner owner_of(const Coordinates& rank) { return {rank.rdp, rank.tensor}; }
}  // namespace

Arena::Arena(const Program& program, const Mesh& mesh, World& world, Backend& backend)
    : program_(program),
      mesh_(mesh),
      coordinates_(mesh.coordinates(world.rank())),
      backend_(backend),
      own_(owner_of(coordinates_)),
      bytes_(program.memory.arena_bytes_of(own_.rdp, own_.tensor)),
      arena_(static_cast<char*>(world.allocate(bytes_))) {
  for (const GroupKind kind :
       {GroupKind::tensor, GroupKind::shard, GroupKind::rdp, GroupKind::context, GroupKind::expert,
        GroupKind::replica, GroupKind::expert_rdp, GroupKind::expert_shard,
        GroupKind::expert_replica})
    index_in_[static_cast<int>(kind)] = mesh.index_in(kind, world.rank());
  if (program.memory.host_bytes > 0)
    host_ = static_cast<char*>(backend.allocate_host(program.memory.host_bytes));
  for (const Bucket& bucket : program.buckets) {
    if (bucket.snapshot.buffer < 0 || backend.shares_memory_with_host()) continue;
    const auto& buffer = program.memory.buffers[bucket.snapshot.buffer];
    MESHWRIGHT_CHECK(buffer.region == Region::host, "snapshots lie where the host reads them");
  }
}

Arena::~Arena() {
  if (host_ != nullptr) backend_.deallocate_host(host_);
}

std::byte* Arena::snapshot(const Bucket& bucket) const {
  if (bucket.snapshot.buffer < 0 || !steps(bucket)) return nullptr;
  return address<std::byte>(bucket.snapshot, 0);
}

void* Arena::find(const Operand& operand, int slot, int window) const {
  MESHWRIGHT_CHECK(program_.memory.buffers[operand.buffer].owner.includes(own_),
                   "a rank uses only what it owns");
  const std::int64_t part =
      operand.part_of == GroupKind::none
          ? 0
          : index_in_[static_cast<int>(operand.part_of)] * operand.type.bytes();
  const bool on_host = program_.memory.buffers[operand.buffer].region == Region::host;
  return (on_host ? host_ : arena_) + program_.memory.address(operand.buffer, slot, window) +
         operand.offset + part;
}

std::int64_t Arena::own_begin(const Bucket& bucket) const {
  if (!bucket.sharded) return 0;
  return index_in_[static_cast<int>(bucket.shard())] * bucket.shard_elements;
}

void* Arena::find(int id) const {
  return id < 0 ? nullptr : arena_ + program_.memory.address(id, 0);
}

double Arena::scalar(int id) const {
  return *HostView<const double>(backend_, buffer<const double>(id), 1);
}

// Returns the part of the parameter in `weights`, which are the whole bucket or this rank's part of
// it.
HeldCopy Arena::held(const StageParameter& member, const Operand& weights) const {
  const Bucket& bucket = program_.buckets[member.bucket];
  const std::int64_t held = weights.type.shape.elements();
  const std::int64_t from = held == bucket.elements ? 0 : own_begin(bucket);
  // The common elements, in the bucket, of the parameter and of what this rank holds.
  const std::int64_t first = std::max(member.offset, from);
  const std::int64_t end = std::min(member.offset + member.parameter.shape.elements(), from + held);
  if (first >= end) return {};
  auto* data = address<std::byte>(weights, 0);
  return {data + bytes_of(first - from, weights.type.dtype), first - member.offset, end - first};
}

HeldWeights Arena::weights(const StageParameter& member) const {
  const Bucket& bucket = program_.buckets[member.bucket];
  const Operand& exact = exact_weights(bucket);
  if (!program_.memory.buffers[exact.buffer].owner.includes(own_))
    return {};  // the masters of another rank's parameters
  const HeldCopy found = held(member, exact);
  StoredArray data{static_cast<std::byte*>(found.data), exact.type.dtype};
  if (data.type == Dtype::i16)
    data.upper = static_cast<std::byte*>(held(member, bucket.own_weights).data);
  return {data, found.begin, found.count};
}

HeldCopy Arena::working_copy(const StageParameter& member) const {
  return held(member, program_.buckets[member.bucket].weights);
}

StoredStates Arena::own_states(const Bucket& bucket) const {
  StoredStates states{};
  const auto bytes_at = [&](const Operand& operand) { return address<std::byte>(operand, 0); };
  const Operand* operands[] = {&bucket.master, &bucket.first_moment, &bucket.second_moment,
                               &bucket.average};
  for (std::size_t i = 0; i < states.size(); ++i)
    if (operands[i]->buffer >= 0) states[i] = {bytes_at(*operands[i]), operands[i]->type.dtype};
  if (states[0].type == Dtype::i16) states[0].upper = bytes_at(bucket.own_weights);
  return states;
}

void Arena::begin_averages() const {
  for (const Bucket& bucket : program_.buckets) {
    if (bucket.average.buffer < 0 || !steps(bucket)) continue;
    const StoredStates states = own_states(bucket);
    as_exact(bucket.average.type.dtype, [&](auto number) {
      using Real = decltype(number);
      StateView<const Real> weights(backend_, states.front(), bucket.shard_elements);
      StateView<Real> averages(backend_, states.back(), bucket.shard_elements);
      std::copy_n(weights.data(), bucket.shard_elements, averages.data());
    });
  }
}

OwnedStates Arena::states(const StageParameter& member) const {
  const Bucket& bucket = program_.buckets[member.bucket];
  if (!steps(bucket)) return {};
  const std::int64_t from = own_begin(bucket);
  const std::int64_t first = std::max(member.offset, from);
  const std::int64_t end =
      std::min(member.offset + member.parameter.shape.elements(), from + bucket.shard_elements);
  if (first >= end) return {};
  OwnedStates owned{own_states(bucket), first - member.offset, end - first};
  for (StoredArray& data : owned.data) data = data.from(first - from);
  return owned;
}

Arena::Slice Arena::saved_slice(const Bucket& bucket) const {
  if (bucket.snapshot.buffer < 0 || !steps(bucket)) return {};
  if (!bucket.owner.everybody()) return {0, bucket.shard_elements};
  const GroupKind alike = bucket.sharded ? bucket.replica() : bucket.rdp();
  const std::int64_t slice = bucket.slice_elements();
  const std::int64_t begin =
      std::min(index_in_[static_cast<int>(alike)] * slice, bucket.shard_elements);
  return {begin, std::min(slice, bucket.shard_elements - begin)};
}

float* Arena::factors(const StageParameter& member) const {
  return buffer<float>(program_.factors_buffer) + member.first_factor;
}

// Writes Adafactor's factors of matrices to the snapshot, in place of the second moments of a
// matrix's first elements. The rank that saves an element saves the factor in its place.
void Arena::save_factors(const Bucket& bucket, Slice slice, float* to) const {
  const std::int64_t from = own_begin(bucket) + slice.begin;
  for (const int index : bucket.parameters) {
    const StageParameter& member = program_.parameters[index];
    const std::int64_t first = std::max(member.offset, from);
    const std::int64_t end =
        std::min(member.offset + member.parameter.shape.elements(), from + slice.count);
    if (first >= end) continue;
    const std::int64_t count = factor_count(factored_shape(member.parameter));
    HostView<const float> values(backend_, factors(member), count);
    visit_runs(member.parameter, part_of(member.parameter, mesh_, coordinates_),
               first - member.offset, end - first, [&](const ParameterRun& run) {
                 if (run.global < 0 || run.global >= count) return;
                 std::copy_n(values.data() + run.global, std::min(run.count, count - run.global),
                             to + (member.offset + run.local - from));
               });
  }
}

void Arena::take_snapshot() const {
  for (const Bucket& bucket : program_.buckets) {
    const Slice slice = saved_slice(bucket);
    if (slice.count == 0) continue;
    std::byte* to = snapshot(bucket);
    const Dtype type = bucket.snapshot.type.dtype;
    const StoredStates states = own_states(bucket);
    const StepSettings& training = program_.settings->training;
    for (int i = 0; i < static_cast<int>(states.size()); ++i) {
      const bool is_average = i + 1 == static_cast<int>(states.size());
      if (is_average ? !training.averages()
                     : (i == 1 && !has_first_moment(training.optimizer)) ||
                           (i == 2 && !has_second_moment(training.optimizer)))
        continue;
      const StoredArray from = states[i].from(slice.begin);
      if (from.data == nullptr) {  // only other buckets have this state
        std::fill_n(to, bytes_of(slice.count, type), std::byte{0});
        if (i == 2 && bucket.factored) save_factors(bucket, slice, reinterpret_cast<float*>(to));
      } else if (from.type == type) {
        backend_.copy(to, from.data, bytes_of(slice.count, type));
      } else {
        StateView<const float> values(backend_, from, slice.count);
        std::copy_n(values.data(), slice.count, reinterpret_cast<float*>(to));
      }
      to += bytes_of(bucket.slice_elements(), type);
    }
  }
  backend_.wait();
}

}  // namespace meshwright::exec
