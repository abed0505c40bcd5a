// One operation of the CUDA tables beside the CPU backend in double precision, on the same numbers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "exec/backends/cpu/cpu_backend.h"
#include "tests/catch.h"
#include "tests/exec/op_cases.h"
#include "tests/exec/table_backend.h"

namespace meshwright {

// The same numbers; integers as they are.
inline OpTensor in_double(const OpTensor& tensor) {
  if (tensor.type.dtype == Dtype::i32) return tensor;
  OpTensor wide({tensor.type.shape, Dtype::f64});
  for (std::int64_t i = 0; i < tensor.elements(); ++i) wide.set(i, tensor.get(i));
  return wide;
}

class BesideCpu {
 public:
  explicit BesideCpu(Dtype dtype) : dtype_(dtype), cpu_(make_cpu_backend(1)) {}

  Dtype dtype() const { return dtype_; }
  double tolerance() const { return dtype_ == Dtype::f32 ? 1e-5 : 1e-2; }
  // Of the tables' operands: activations in their type.
  OpTensor random(const InputSpec& spec, std::uint64_t seed) const {
    return on_device_.random(spec, seed);
  }

  // Runs both; checks that outputs agree, whole numbers exactly. Returns the device's.
  std::vector<OpTensor> run(Op op, const Attributes& attributes,
                            const std::vector<OpTensor>& inputs, const std::vector<Shape>& outputs,
                            std::size_t added = 0) {
    INFO(info(op).name);
    std::vector<OpTensor> wide;
    for (const OpTensor& input : inputs) wide.push_back(in_double(input));
    // These take the loss scale, their last operand, in fp32 whatever the others are.
    if (op == Op::route_grad && inputs.size() > 3) wide[3] = inputs[3];
    if (op == Op::nll_loss_grad && inputs.size() > 2) wide[2] = inputs[2];
    for (Runner* runner : {&on_device_, &reference_}) {
      runner->tensor_rank = tensor_rank;
      runner->context_rank = context_rank;
      runner->first_sequence = first_sequence;
    }
    const std::vector<OpTensor> found =
        on_device_.run(op, attributes, addresses(inputs), outputs, added);
    const std::vector<OpTensor> expected =
        reference_.run(op, attributes, addresses(wide), outputs, added);
    for (std::size_t i = 0; i < found.size(); ++i) {
      INFO("output " << i);
      CHECK(distance(found[i], expected[i]) <
            (found[i].type.dtype == Dtype::i32 ? 1e-12 : tolerance()));
    }
    CHECK(tables_.ran.count(op) == 1);
    return found;
  }

  int tensor_rank = 0, context_rank = 0;
  std::int64_t first_sequence = 0;

 private:
  static std::vector<const OpTensor*> addresses(const std::vector<OpTensor>& tensors) {
    std::vector<const OpTensor*> all;
    for (const OpTensor& tensor : tensors) all.push_back(&tensor);
    return all;
  }

  Dtype dtype_;
  TableBackend tables_;
  std::unique_ptr<Backend> cpu_;
  Runner on_device_{tables_, dtype_}, reference_{*cpu_, Dtype::f64};
};

inline OpTensor tensor_of(const Shape& shape, Dtype dtype, const std::vector<double>& numbers) {
  OpTensor tensor({shape, dtype});
  for (std::size_t i = 0; i < numbers.size(); ++i)
    tensor.set(static_cast<std::int64_t>(i), numbers[i]);
  return tensor;
}

}  // namespace meshwright
