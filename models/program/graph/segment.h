// Describes a segment: a piece of a captured model (models/architectures/captured/) that PyTorch
// computes as a whole, forward and backward. The operations inside are PyTorch's. Known are only
// the types of the tensors that the segment reads and makes, and the kernels that it runs.
#pragma once

#include <string>
#include <vector>

#include "models/program/graph/op_table.h"
#include "models/program/graph/tensor_type.h"

namespace meshwright::program {

// Inputs of Op::segment: the tensors that it reads, parameters first. Its outputs: `makes` tensors
// for other nodes, then the data that its backward needs in addition to operands (if `saves`), then
// its workspace (if it has some). Inputs of Op::segment_grad: the operands of the forward in
// `kept`, then a gradient for each output in `differentiable` that has one. Its outputs: the
// gradients of the inputs in `differentiated`, then its workspace (if it has some), then the sums
// of the gradients of its parameters.
struct Segment {
  std::string name;  // the name of its module and its kind, for dumps and timelines
  int number = 0;    // index in the captured model's list of segments
  int parameters = 0;
  int makes = 0;
  bool saves = false;
  std::vector<TensorType> outputs;    // types of the outputs of the forward
  std::vector<TensorType> gradients;  // types of the outputs of the backward, without the sums
  // Operands of the forward that the backward reads: input i as i, output i as -1 - i.
  std::vector<int> kept;
  std::vector<int> differentiated;  // inputs through which a gradient flows back
  std::vector<int> differentiable;  // outputs to which a gradient flows back
  std::vector<Kernel> forward, backward;
  double forward_flops = 0,
         backward_flops = 0;  // model FLOPs; attention's are not halved for a mask
  bool operator==(const Segment&) const = default;
};

}  // namespace meshwright::program
