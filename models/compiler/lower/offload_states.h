// With Offload::optimizer, optimizer states wait in host memory. At the step's end, they are copied
// to device memory piece by piece, to two buffers that pieces use round-robin, and back after the
// update. While one piece is updated, the states of the next one arrive and those of the last one
// leave. The device computes the update.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "models/compiler/lower/body_builder.h"
#include "models/compiler/plan/plan.h"

namespace meshwright::compiler {

struct StageDraft;

// Elements of a piece of a larger bucket, unless `reduce_bucket_bytes` sets another size or there
// would be too many pieces.
constexpr std::int64_t default_state_piece_elements = std::int64_t{8} << 20;
constexpr std::int64_t most_state_pieces = 1024;  // of a stage, in addition to one for each bucket

bool offloads_states(const Plan& plan);

// Splits buckets into pieces and assigns the memory in which these are updated. Does nothing if
// states stay on the device.
void cut_states(StageDraft& draft);

// The states of a piece that are copied. `weights` means master weights and averages.
enum class States : std::uint8_t { all, weights, moments };

// Writes the copies of one step's end, around the instructions that use the states. A turn is one
// use of one piece. There are as many turns as pieces, or twice as many if all pieces are measured
// before any is updated. Does nothing if states stay on the device.
class StateTurns {
 public:
  // Loads the states of the first turns to the device. `rounds` is how often each piece is used: 1,
  // or 2 if all pieces are measured before any is updated.
  StateTurns(const StageDraft& draft, BodyBuilder& body, int rounds);
  // Ends a turn, after its instructions: copies the states that they changed back to the host, and
  // loads the states of the next turn that uses the same buffer.
  void end_turn(States changed);
  // Ends the body once all states are copied back, so that the next task can use the buffers.
  void finish();

 private:
  int place_of(std::size_t turn) const;
  void bring(std::size_t turn);
  void copy(std::size_t turn, InstructionKind kind, States which);

  const StageDraft& draft_;
  BodyBuilder& body_;
  std::vector<std::pair<int, int>> pieces_;  // bucket, and piece of the bucket
  std::size_t turns_ = 0, turn_ = 0;
};

}  // namespace meshwright::compiler
