// Checks what a stage in a file holds: its memory, buckets and parameters.
#include <algorithm>

#include "models/program/check_program.h"
#include "models/program/factors.h"

namespace meshwright::program {

void StageMemoryCheck::run() const {
  check_memory();
  check_rank(program_.fullest, place_ / "fullest");
  check_buckets();
  for (std::size_t i = 0; i < program_.parameters.size(); ++i)
    check_parameter(program_.parameters[i], place_ / "parameters" / i);
  check_scalars();
}

void StageMemoryCheck::check_rank(const Owner& rank, const Place& place) const {
  (place / "rdp").names(rank.rdp, settings_.degrees.rdp(), "data-parallel index", -1);
  (place / "tensor").names(rank.tensor, settings_.degrees.tensor, "tensor index", -1);
}

void StageMemoryCheck::check_copies(const std::vector<SlotRegion>& regions,
                                    const Place& place) const {
  for (std::size_t i = 0; i < regions.size(); ++i) {
    (place / i / "offset").in_range(regions[i].offset, 0, most_bytes);
    (place / i / "slots").in_range(regions[i].slots, 0, most_copies);
    (place / i / "stride").in_range(regions[i].stride, 0, most_bytes / most_copies);
  }
}

void StageMemoryCheck::check_memory() const {
  const Place place = place_ / "memory";
  check_copies(memory_.slots, place / "slots");
  check_copies(memory_.windows, place / "windows");
  check_copies(memory_.host, place / "host");
  (place / "arena_bytes").in_range(memory_.arena_bytes, 0, most_bytes);
  (place / "host_bytes").in_range(memory_.host_bytes, 0, most_bytes);
  (place / "snapshot_bytes").in_range(memory_.snapshot_bytes, 0, memory_.host_bytes);
  (place / "state_bytes")
      .in_range(memory_.state_bytes, 0, memory_.host_bytes - memory_.snapshot_bytes);
  check_owned(place);
  const bool owns = !memory_.owned_bytes.empty();
  const std::int64_t of_all = owns ? memory_.owned_offset : memory_.arena_bytes;
  (place / "persistent_bytes").in_range(memory_.persistent_bytes, 0, of_all);
  (place / "task_offset").in_range(memory_.task_offset, 0, of_all);
  (place / "task_bytes").in_range(memory_.task_bytes, 0, of_all - memory_.task_offset);
  for (std::size_t cls = 0; cls < memory_.class_bytes.size(); ++cls)
    (place / "class_bytes").in_range(memory_.class_bytes[cls], 0, most_bytes);
  for (std::size_t i = 0; i < memory_.buffers.size(); ++i)
    check_buffer(memory_.buffers[i], place / "buffers" / i);
}

void StageMemoryCheck::check_owned(const Place& place) const {
  (place / "owned_offset").in_range(memory_.owned_offset, 0, memory_.arena_bytes);
  if (memory_.owned_bytes.empty()) return;
  const Place owned = place / "owned_bytes";
  owned.demand(std::ssize(memory_.owned_bytes) == settings_.degrees.rdp(),
               "a list for each data-parallel index is needed");
  for (const auto& of_tensor : memory_.owned_bytes) {
    owned.demand(std::ssize(of_tensor) == settings_.degrees.tensor,
                 "a number for each tensor index is needed");
    for (const std::int64_t bytes : of_tensor)
      owned.in_range(bytes, 0, memory_.arena_bytes - memory_.owned_offset);
  }
}

// Checks the numbers of a buffer. broken_rule(MemoryPlan) checks later whether it lies in its
// region.
void StageMemoryCheck::check_buffer(const Buffer& buffer, const Place& place) const {
  (place / "bytes").in_range(buffer.bytes, 0, most_bytes);
  (place / "offset").in_range(buffer.offset, 0, most_bytes);
  (place / "body").names(buffer.body, program_.bodies.size(), "body", -1);
  check_rank(buffer.owner, place / "owner");
  if (buffer.region == Region::slot)
    (place / "chunk").names(buffer.chunk, memory_.slots.size(), "chunk with slots");
  if (buffer.region == Region::window)
    (place / "chunk").names(buffer.chunk, memory_.windows.size(), "chunk with windows");
  if (buffer.region == Region::host)
    (place / "chunk").names(buffer.chunk, memory_.host.size(), "chunk in host memory", -1);
  if (buffer.region == Region::owned)
    place.demand(!memory_.owned_bytes.empty() && !buffer.owner.everybody(),
                 "what is owned has an owner, and memory.owned_bytes says how much each owns");
}

void StageMemoryCheck::check_operand(const Operand& operand, const Place& place) const {
  (place / "buffer").names(operand.buffer, memory_.buffers.size(), "buffer");
  const Buffer& buffer = memory_.buffers[operand.buffer];
  const std::int64_t parts =
      operand.part_of == GroupKind::none ? 1 : mesh_.size_of(operand.part_of);
  (place / "offset").in_range(operand.offset, 0, buffer.bytes);
  const std::int64_t left = (buffer.bytes - operand.offset) / std::max<std::int64_t>(1, parts);
  if (operand.type.bytes() > left)
    place.fail("its " + std::to_string(operand.type.bytes()) + " bytes" +
               (parts > 1 ? ", for each of " + std::to_string(parts) + " ranks," : "") +
               " do not fit into buffer " + std::to_string(operand.buffer) + " of " +
               std::to_string(buffer.bytes));
}

void StageMemoryCheck::check_holds(const Operand& operand, std::int64_t elements,
                                   const Place& place) const {
  check_operand(operand, place);
  if (operand.type.shape.elements() < elements)
    place.fail("fewer than the " + std::to_string(elements) + " elements that are stepped");
}

void StageMemoryCheck::check_master(const Bucket& bucket, const Place& place) const {
  if (!bucket.has_master()) return;
  const Dtype master = bucket.master.type.dtype, weight = bucket.own_weights.type.dtype;
  (place / "type")
      .demand(master == Dtype::f32 || (master == Dtype::i16 && weight == Dtype::bf16),
              "masters are f32, or i16 beside weights of bf16");
}

void StageMemoryCheck::check_moment(const Operand& moment, std::int64_t elements, Dtype type,
                                    const Place& place) const {
  check_holds(moment, elements, place);
  (place / "type").demand(moment.type.dtype == type, "is not that of settings.training.moments");
}

void StageMemoryCheck::check_average(const Operand& average, std::int64_t elements,
                                     const Place& place) const {
  place.demand((average.buffer >= 0) == settings_.training.averages(),
               "is kept where settings.training.ema_decay says so");
  if (average.buffer < 0) return;
  check_holds(average, elements, place);
  (place / "type")
      .demand(average.type.dtype == settings_.training.exact_type(), "averages are not rounded");
}

void StageMemoryCheck::check_piece(const StatePiece& piece, const Bucket& bucket,
                                   const Place& place) const {
  (place / "begin").in_range(piece.begin, 0, bucket.shard_elements);
  (place / "count").in_range(piece.count, 1, bucket.shard_elements - piece.begin);
  const auto check = [&](const Operand& placed, const Operand& state, const char* key) {
    if (placed.buffer < 0) return;
    check_holds(placed, piece.count, place / key);
    (place / key / "type")
        .demand(placed.type.dtype == state.type.dtype, "is not that of the bucket's states");
  };
  check(piece.master, bucket.master, "master");
  check(piece.first_moment, bucket.first_moment, "first_moment");
  check(piece.second_moment, bucket.second_moment, "second_moment");
  check(piece.average, bucket.average, "average");
  (place / "first_moment").demand(piece.first_moment.buffer >= 0, "missing; it is required");
  (place / "second_moment")
      .demand((piece.second_moment.buffer >= 0) == (bucket.second_moment.buffer >= 0),
              "a piece has the moments that its bucket has");
  (place / "average")
      .demand((piece.average.buffer >= 0) == (bucket.average.buffer >= 0),
              "a piece has the average that its bucket has");
}

void StageMemoryCheck::check_buckets() const {
  for (std::size_t i = 0; i < program_.buckets.size(); ++i) {
    const Bucket& bucket = program_.buckets[i];
    const Place place = place_ / "buckets" / i;
    (place / "elements").in_range(bucket.elements, 1, most_bytes);
    (place / "shard_elements").in_range(bucket.shard_elements, 1, bucket.elements);
    if (bucket.sharded)
      (place / "shard_elements")
          .in_range(bucket.shard_elements, 1, bucket.elements / mesh_.size_of(bucket.shard()));
    for (const int parameter : bucket.parameters)
      (place / "parameters").names(parameter, program_.parameters.size(), "parameter");
    check_operand(bucket.weights, place / "weights");
    const std::int64_t stepped = bucket.shard_elements;
    check_holds(bucket.own_weights, stepped, place / "own_weights");
    const Dtype storage = bucket.weights.type.dtype;
    if (is_in_blocks(storage))
      (place / "weights" / "type")
          .demand(bucket.frozen && bucket.own_weights.type.dtype == storage &&
                      bucket.shard_elements % dtype_block(storage).elements == 0,
                  "weights in blocks are frozen, and every rank has whole blocks");
    check_rank(bucket.owner, place / "owner");
    if (bucket.frozen) continue;
    check_operand(bucket.gradients, place / "gradients");
    check_holds(bucket.own_gradients, stepped, place / "own_gradients");
    check_holds(bucket.master, stepped, place / "master");
    check_master(bucket, place / "master");
    const Dtype moments = settings_.training.moments;
    const OptimizerKind optimizer = settings_.training.optimizer;
    (place / "factored")
        .demand(!bucket.factored || optimizer == OptimizerKind::adafactor,
                "factors are of optimizer adafactor");
    if (has_first_moment(optimizer) || bucket.first_moment.buffer >= 0)
      check_moment(bucket.first_moment, stepped, moments, place / "first_moment");
    if ((has_second_moment(optimizer) && !bucket.matrices && !bucket.factored) ||
        bucket.second_moment.buffer >= 0)
      check_moment(bucket.second_moment, stepped, second_moment_type(moments),
                   place / "second_moment");
    check_average(bucket.average, stepped, place / "average");
    for (std::size_t p = 0; p < bucket.pieces.size(); ++p)
      check_piece(bucket.pieces[p], bucket, place / "pieces" / p);
    if (bucket.matrices) {
      (place / "matrices")
          .demand(!bucket.sharded && settings_.training.optimizer == OptimizerKind::muon,
                  "whole matrices are of optimizer muon, and not sharded");
      check_holds(bucket.update, stepped, place / "update");
      check_operand(bucket.updates, place / "updates");
    }
    if (bucket.snapshot.buffer >= 0) check_operand(bucket.snapshot, place / "snapshot");
  }
}

void StageMemoryCheck::check_parameter(const StageParameter& member, const Place& place) const {
  (place / "bucket").names(member.bucket, program_.buckets.size(), "bucket");
  (place / "chunk").names(member.chunk, program_.layout.chunks, "chunk");
  const Parameter& parameter = member.parameter;
  const std::int64_t elements = parameter.shape.elements();
  const std::int64_t room = program_.buckets[member.bucket].elements;
  (place / "offset").in_range(member.offset, 0, room);
  const Dtype storage = program_.buckets[member.bucket].weights.type.dtype;
  (place / "offset")
      .demand(!is_in_blocks(storage) || member.offset % dtype_block(storage).elements == 0,
              "is within a block of the bucket's weights");
  (place / "first_count").in_range(member.first_count, -1, most_bytes / 8);
  (place / "parameter" / "shape")
      .demand(elements <= room - member.offset, "reaches beyond its bucket");
  check_cut(parameter, place / "parameter");
}

void StageMemoryCheck::check_cut(const Parameter& parameter, const Place& place) const {
  const Shape &global = parameter.global_shape, &padded = parameter.padded_shape;
  (place / "global_shape").demand(global.rank >= 1, "missing; it is required (a list of sizes)");
  const int parts = parameter.is_cut ? settings_.degrees.tensor : 1;
  if (parameter.is_cut) {
    (place / "cut" / "dim").names(parameter.cut.dim, padded.rank, "dimension");
    std::int64_t sum = 0;
    for (const std::int64_t segment : parameter.cut.segments) {
      (place / "cut" / "segments").in_range(segment, 1, padded[parameter.cut.dim]);
      (place / "cut" / "segments").demand(segment % parts == 0, "the ranks do not divide one");
      sum += segment;
    }
    (place / "cut" / "segments")
        .demand(sum == padded[parameter.cut.dim], "they do not add up to the size that is cut");
  }
  Shape own = padded;
  if (parameter.is_cut) own[parameter.cut.dim] /= parts;
  if (parameter.is_cut_by_experts) {
    (place / "is_cut_by_experts").demand(parameter.of_experts, "is said of no experts");
    (place / "padded_shape")
        .demand(padded[0] % settings_.degrees.expert == 0, "the ranks do not divide the experts");
    own[0] /= settings_.degrees.expert;
  }
  (place / "shape").demand(parameter.shape == own, "is not a rank's part of padded_shape");
  (place / "padded_shape")
      .demand(padded.elements() >= global.elements(), "is smaller than global_shape");
}

void StageMemoryCheck::check_scalar(int buffer, std::int64_t bytes, std::string_view key,
                                    int least) const {
  (place_ / key).names(buffer, memory_.buffers.size(), "buffer", least);
  if (buffer < 0) return;
  const Buffer& found = memory_.buffers[buffer];
  (place_ / key)
      .demand(
          found.bytes >= bytes && found.region == Region::persistent,
          "that buffer is not persistent, or has fewer than " + std::to_string(bytes) + " bytes");
}

// Checks that matrices of factored buckets, and only those, have factors, and that the buffers have
// room for all factors.
void StageMemoryCheck::check_factors() const {
  std::int64_t all = 0;
  for (std::size_t i = 0; i < program_.parameters.size(); ++i) {
    const StageParameter& member = program_.parameters[i];
    const Place place = place_ / "parameters" / i / "first_factor";
    place.in_range(member.first_factor, -1, most_bytes / 8);
    const bool factored = program_.buckets[member.bucket].factored;
    place.demand(factored == (member.first_factor >= 0), "is said of what has factors");
    if (!factored) continue;
    const Shape shape = factored_shape(member.parameter);
    place.demand(shape.rank == 2, "is said of no matrix");
    all = std::max(all, member.first_factor + factor_count(shape));
  }
  check_scalar(program_.factors_buffer, 4 * all, "factors_buffer", all > 0 ? 0 : -1);
  check_scalar(program_.factor_sums_buffer, 8 * all, "factor_sums_buffer", all > 0 ? 0 : -1);
}

void StageMemoryCheck::check_scalars() const {
  constexpr int optional = -1;
  const int scale = program_.loss_scale_buffer, lamb = program_.parameter_norms_buffer;
  check_scalar(program_.loss_buffer, 8, "loss_buffer", 0);
  check_scalar(program_.mtp_loss_buffer, 8, "mtp_loss_buffer", optional);
  check_scalar(program_.norm_buffer, 8, "norm_buffer", 0);
  const bool scales = settings_.training.scales_loss();
  check_scalar(scale, 4, "loss_scale_buffer", scales ? 0 : optional);
  check_scalar(program_.loss_scale_state_buffer, 8 * Program::loss_scale_state,
               "loss_scale_state_buffer", scale >= 0 ? 0 : optional);
  const auto norms = static_cast<std::int64_t>(16 * program_.parameters.size());
  const bool needs = measures_parameters(settings_.training.optimizer);
  check_scalar(lamb, norms, "parameter_norms_buffer", needs ? 0 : optional);
  const auto rounded = static_cast<std::int64_t>(program_.rounded.size());
  const int least = rounded > 0 ? 0 : optional;
  check_scalar(program_.largest_buffer, 8 * rounded, "largest_buffer", least);
  check_scalar(program_.history_buffer, 4 * rounded * Program::history_steps, "history_buffer",
               least);
  std::int64_t counts = 0;
  for (const StageParameter& member : program_.parameters)
    if (member.first_count >= 0)
      counts = std::max(counts, member.first_count + member.parameter.shape.elements());
  check_scalar(program_.choice_counts_buffer, 8 * counts, "choice_counts_buffer",
               counts > 0 || program_.counted_routers > 0 ? 0 : optional);
  check_counted_routers();
  check_factors();
  (place_ / "targets_per_step").in_range(program_.targets_per_step, 1, most_bytes);
}

// Checks that the bytes of choice_counts_buffer are a multiple of 8 * counted routers * ranks of an
// expert group, so that each has the same number of counts. Does nothing if no routers are counted.
void StageMemoryCheck::check_counted_routers() const {
  const Place place = place_ / "counted_routers";
  place.in_range(program_.counted_routers, 0, most_bytes / 8);
  if (program_.counted_routers == 0) return;
  const std::int64_t of_each = std::int64_t{8} * program_.counted_routers;
  const std::int64_t bytes = memory_.buffers[program_.choice_counts_buffer].bytes;
  place.demand(bytes > 0 && bytes % (of_each * settings_.degrees.expert) == 0,
               "choice_counts_buffer needs as many counts for each, and for each rank of an expert "
               "group");
}

}  // namespace meshwright::program
