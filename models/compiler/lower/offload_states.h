// Optimizer states that wait in host memory (Offload::optimizer). In the step's end those of one
// piece of a bucket after the other come to one of two places in device memory and go back from
// there: while one is stepped, the next one's come and the last one's go. The step is the device's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "models/compiler/lower/body_builder.h"
#include "models/compiler/plan/plan.h"

namespace meshwright {

struct StageDraft;

// Of a bucket that is larger; `reduce_bucket_bytes` may say another size.
constexpr std::int64_t default_state_piece_elements = std::int64_t{8} << 20;
constexpr std::int64_t most_state_pieces = 1024;  // of a stage, beside one for each bucket

bool offloads_states(const Plan& plan);

// Cuts buckets into pieces, and says where these are stepped. Does nothing where states stay on the
// device.
void cut_states(StageDraft& draft);

// What is copied of a piece; weights: masters and averages.
enum class States : std::uint8_t { all, weights, moments };

// The copies of one step's end, around the instructions that use the states. A turn is one piece's
// use: as many as there are pieces, twice that where all of them are measured before any is
// stepped. Does nothing where states stay on the device.
class StateTurns {
 public:
  // Brings the first ones.
  StateTurns(const StageDraft& draft, BodyBuilder& body, int rounds);
  // After the instructions of a turn: takes back what they changed, and brings the states of the
  // turn that has this place next.
  void end_turn(States changed);
  // The places are free for the next task when all have gone back.
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
