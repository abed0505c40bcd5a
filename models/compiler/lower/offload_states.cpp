#include "models/compiler/lower/offload_states.h"

#include <algorithm>
#include <array>

#include "models/compiler/lower/draft.h"
#include "models/compiler/lower/memory.h"
#include "models/compiler/lower/moment_blocks.h"
#include "models/core/round_up.h"

namespace meshwright::compiler {

namespace {

constexpr std::size_t state_places = 2;

// A state of a bucket on the host, and the state of one of its pieces on the device.
struct MovedState {
  const Operand* host;
  Operand* device;
};
std::array<MovedState, 4> moved_states(const Bucket& bucket, StatePiece& piece) {
  return {MovedState{&bucket.master, &piece.master},
          MovedState{&bucket.first_moment, &piece.first_moment},
          MovedState{&bucket.second_moment, &piece.second_moment},
          MovedState{&bucket.average, &piece.average}};
}

// Returns whether the state is copied. Without master weights, `master` refers to the weights
// themselves, which are not copied.
bool is_moved(const Bucket& bucket, const Operand& state) {
  return state.buffer >= 0 && (&state != &bucket.master || bucket.has_master());
}

// Returns how many elements a piece has. Each piece costs a few instructions, so pieces grow with
// the states, and there are not many more than `most_state_pieces`.
std::int64_t piece_elements(const StageDraft& draft) {
  const Plan& plan = draft.plan;
  const std::int64_t given =
      plan.parallelism.reduce_bucket_bytes / bytes_of(plan.training.gradient_reduce);
  std::int64_t all = 0;
  for (const BucketPlan& planned : draft.buckets)
    if (!planned.bucket.frozen) all += planned.bucket.shard_elements;
  return std::max(given > 0 ? given : default_state_piece_elements, all / most_state_pieces);
}

// Returns the elements at which the pieces of a bucket begin, and its end. lamb measures whole
// parameters, so its pieces begin where parameters do. A sharded bucket is one piece for lamb,
// because parameters begin at different elements in the shard of every rank.
std::vector<std::int64_t> cuts_of(const StageDraft& draft, const Bucket& bucket,
                                  std::int64_t wanted) {
  const std::int64_t all = bucket.shard_elements;
  std::vector<std::int64_t> cuts = {0};
  if (draft.plan.training.optimizer != OptimizerKind::lamb) {
    const std::int64_t count = std::max<std::int64_t>(1, all / wanted);
    const std::int64_t each = round_up((all + count - 1) / count, alignment_of_states(draft.plan));
    while (cuts.back() + each < all) cuts.push_back(cuts.back() + each);
  } else if (!bucket.sharded) {
    for (const int index : bucket.parameters) {
      const std::int64_t begin = draft.program.parameters[index].offset;
      if (begin - cuts.back() >= wanted) cuts.push_back(begin);
    }
  }
  cuts.push_back(all);
  return cuts;
}

Operand part_on_host(const Operand& state, const StatePiece& piece) {
  Operand part = state;
  part.offset += bytes_of(piece.begin, state.type.dtype);
  part.type.shape = Shape{piece.count};
  return part;
}

// Places the states of a piece one after another in buffer `place`, and returns their end in bytes.
std::int64_t place_piece(const Bucket& bucket, StatePiece& piece, int place) {
  std::int64_t end = 0;
  for (const MovedState& each : moved_states(bucket, piece)) {
    if (!is_moved(bucket, *each.host)) continue;
    *each.device = {place, end, {Shape{piece.count}, each.host->type.dtype}, GroupKind::none};
    end = round_up(end + each.device->type.bytes(), arena_alignment);
  }
  return end;
}

}  // namespace

bool offloads_states(const Plan& plan) { return plan.parallelism.offload == Offload::optimizer; }

void cut_states(StageDraft& draft) {
  if (!offloads_states(draft.plan)) return;
  std::vector<int> places;
  std::size_t turn = 0;
  const std::int64_t wanted = piece_elements(draft);
  for (BucketPlan& planned : draft.buckets) {
    Bucket& bucket = planned.bucket;
    if (bucket.frozen) continue;
    const std::vector<std::int64_t> cuts = cuts_of(draft, bucket, wanted);
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      if (places.size() < state_places)
        places.push_back(add_buffer(draft, "states", MemoryClass::optimizer, Region::task, 0));
      const int place = places[turn++ % state_places];
      StatePiece& piece = bucket.pieces.emplace_back();
      piece.begin = cuts[i];
      piece.count = cuts[i + 1] - cuts[i];
      const std::int64_t bytes = place_piece(bucket, piece, place);
      draft.buffer(place).bytes = std::max(draft.buffer(place).bytes, bytes);
    }
  }
}

StateTurns::StateTurns(const StageDraft& draft, BodyBuilder& body, int rounds)
    : draft_(draft), body_(body) {
  for (std::size_t b = 0; b < draft.buckets.size(); ++b)
    for (std::size_t piece = 0; piece < draft.buckets[b].bucket.pieces.size(); ++piece)
      pieces_.emplace_back(static_cast<int>(b), static_cast<int>(piece));
  turns_ = rounds * pieces_.size();
  for (std::size_t turn = 0; turn < std::min(state_places, pieces_.size()); ++turn) bring(turn);
}

int StateTurns::place_of(std::size_t turn) const {
  const auto [bucket, piece] = pieces_[turn % pieces_.size()];
  return draft_.buckets[bucket].bucket.pieces[piece].first_moment.buffer;
}

void StateTurns::bring(std::size_t turn) { copy(turn, InstructionKind::copy_in, States::all); }

void StateTurns::end_turn(States changed) {
  if (pieces_.empty()) return;
  copy(turn_, InstructionKind::copy_out, changed);
  // If the number of pieces is odd, two consecutive turns use the same buffer when a second round
  // begins.
  std::size_t next = turn_ + 1;
  while (next < turns_ && place_of(next) != place_of(turn_)) ++next;
  if (next < turns_) bring(next);
  ++turn_;
}

void StateTurns::finish() {
  if (!pieces_.empty()) body_.finish();
}

void StateTurns::copy(std::size_t turn, InstructionKind kind, States which) {
  const auto [number, index] = pieces_[turn % pieces_.size()];
  const Bucket& bucket = draft_.buckets[number].bucket;
  StatePiece piece = bucket.pieces[index];
  const bool out = kind == InstructionKind::copy_out;
  for (const MovedState& each : moved_states(bucket, piece)) {
    const bool of_weights = each.host == &bucket.master || each.host == &bucket.average;
    if (each.device->buffer < 0 || which == (of_weights ? States::moments : States::weights))
      continue;
    Instruction copy;
    copy.kind = kind;
    copy.stream = out ? Stream::copy_out : Stream::copy_in;
    copy.phase = Phase::backward;
    copy.bucket = number;
    copy.piece = index;
    const Operand on_host = part_on_host(*each.host, piece);
    copy.inputs = {out ? *each.device : on_host};
    copy.outputs = {out ? on_host : *each.device};
    body_.emit(std::move(copy));
  }
}

}  // namespace meshwright::compiler
