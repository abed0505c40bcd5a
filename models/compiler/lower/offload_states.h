// Optimizer states wait in host memory with Offload::optimizer. At the step's end, the states of
// one piece of a bucket after the other come to one of two places in device memory and go back from
// there. While one piece is updated, the states of the next one arrive and those of the last one
// leave. The device computes the update.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "models/compiler/lower/body_builder.h"
#include "models/compiler/plan/plan.h"

namespace meshwright {

struct StageDraft;

// Elements of a piece of a larger bucket, unless `reduce_bucket_bytes` sets another size.
constexpr std::int64_t default_state_piece_elements = std::int64_t{8} << 20;
constexpr std::int64_t most_state_pieces = 1024;  // of a stage, beside one for each bucket

bool offloads_states(const Plan& plan);

// Splits buckets into pieces and assigns the memory in which these are updated. Does nothing if
// states stay on the device.
void cut_states(StageDraft& draft);

// Says which states of a piece are copied. `weights` means masters and averages.
enum class States : std::uint8_t { all, weights, moments };

// Writes the copies of one step's end, around the instructions that use the states. A turn is one
// use of one piece. There are as many turns as pieces, or twice as many if all pieces are measured
// before any is updated. Does nothing if states stay on the device.
class StateTurns {
 public:
  // Brings the states of the first turns.
  StateTurns(const StageDraft& draft, BodyBuilder& body, int rounds);
  // Ends a turn, after its instructions: takes back what they changed, and brings the states of the
  // next turn that has this place.
  void end_turn(States changed);
  // Ends the body. The places are free for the next task when all states have gone back.
  void finish();

 private:
  int place_of(std::size_t turn) const;
  void bring(std::size_t turn);
  void copy(std::size_t turn, InstructionKind kind, States which);

  const StageDraft& draft_;
  BodyBuilder& body_;
  std::vector<std::pair<int, int>> pieces_;  // bucket, piece of it
  std::size_t turns_ = 0, turn_ = 0;
};

}  // namespace meshwright
