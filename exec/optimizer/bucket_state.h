// Tells the optimizer step where a bucket's weights, gradients and optimizer states are, and which
// types they have.
#pragma once

#include <cstddef>

#include "exec/optimizer/optimizer.h"
#include "models/program/program.h"

namespace meshwright::exec {

// Returns the state of a bucket. `address` returns the address of an operand, or null if there is
// none.
template <typename Address>
OptimizerState state_of(const Bucket& bucket, const Address& address) {
  OptimizerState state{address(bucket.master), address(bucket.own_gradients),
                       address(bucket.first_moment), address(bucket.second_moment)};
  state.weights_type = bucket.master.type.dtype;
  state.gradient_type = bucket.own_gradients.type.dtype;
  state.moment_type = bucket.first_moment.type.dtype;
  state.working_type = bucket.own_weights.type.dtype;
  if (bucket.matrices) {
    state.update = static_cast<float*>(address(bucket.update));
    state.updates = static_cast<float*>(address(bucket.updates));
    state.elements = bucket.elements;
  }
  if (bucket.has_master()) state.working = address(bucket.own_weights);
  state.average = address(bucket.average);
  return state;
}

// Returns the state of a piece of a bucket, whose first element becomes element 0.
template <typename Address>
OptimizerState state_of(const Bucket& bucket, const StatePiece& piece, const Address& address) {
  OptimizerState state = state_of(bucket, address);
  const auto moved = [&](const void* array, Dtype type) -> void* {
    return const_cast<std::byte*>(static_cast<const std::byte*>(array)) +
           piece.begin * bytes_of(type);
  };
  state.gradients = moved(state.gradients, state.gradient_type);
  if (state.working != nullptr) state.working = moved(state.working, state.working_type);
  state.weights =
      piece.master.buffer >= 0 ? address(piece.master) : moved(state.weights, state.weights_type);
  state.first_moment = address(piece.first_moment);
  state.second_moment = address(piece.second_moment);
  state.average = address(piece.average);
  return state;
}

}  // namespace meshwright::exec
