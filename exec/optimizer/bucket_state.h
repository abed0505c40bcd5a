// Where the optimizer finds what it keeps of a bucket, and of which types.
#pragma once

#include "exec/optimizer/optimizer.h"
#include "models/plan/program.h"

namespace meshwright {

// `address` gives that of an operand; null where there is none.
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
  return state;
}

}  // namespace meshwright
