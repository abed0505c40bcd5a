// A segment is a piece of a captured model (models/architectures/captured/) that PyTorch computes
// as a whole, forward and backward. Its operations are not ours: it tells the types of what it
// reads and makes, and the kernels that it runs.
#pragma once

#include <string>
#include <vector>

#include "models/program/graph/op_table.h"
#include "models/program/graph/tensor_type.h"

namespace meshwright::program {

// Operands of Op::segment: what it reads, parameters first, -> what it hands on (`makes` tensors),
// then what its backward needs beside operands (if `saves`), then its workspace (if it has some).
// Operands of Op::segment_grad: the operands of the forward in `kept`, then a gradient for each
// tensor that was handed on and has one -> the gradients of `differentiated`, then its workspace,
// then the sums of the gradients of its parameters.
struct Segment {
  std::string name;  // of its module and its kind, in dumps and timelines
  int number = 0;    // index in the captured model's list of segments
  int parameters = 0;
  int makes = 0;
  bool saves = false;
  std::vector<TensorType> outputs;    // of the forward
  std::vector<TensorType> gradients;  // of the backward, without the sums
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
