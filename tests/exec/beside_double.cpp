#include "tests/exec/beside_double.h"

#include <cmath>

#include "exec/backends/cpu/cpu_backend.h"
#include "models/program/graph/op_table.h"
#include "tests/catch.h"

namespace meshwright::tests {

OpTensor in_double(const OpTensor& tensor) {
  if (tensor.type.dtype == Dtype::i32) return tensor;
  OpTensor wide({tensor.type.shape, Dtype::f64});
  for (std::int64_t i = 0; i < tensor.elements(); ++i) wide.set(i, tensor.get(i));
  return wide;
}

double largest(const OpTensor& tensor) {
  double found = 0;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    const double size = std::fabs(tensor.get(i));
    if (!(size <= found)) found = std::isnan(size) ? INFINITY : size;
  }
  return found;
}

Beside::Beside(Dtype real)
    : cpu_(make_cpu_backend(1)), real_(real), reference(*cpu_, Dtype::f64), runner(tables, real) {}

std::vector<OpTensor> Beside::run(Op op, const Attributes& attributes,
                                  const std::vector<const OpTensor*>& inputs,
                                  const std::vector<Shape>& outputs, std::size_t added_outputs) {
  for (Runner* each : {&reference, &runner}) {
    each->tensor_rank = tensor_rank;
    each->context_rank = context_rank;
    each->first_sequence = first_sequence;
  }
  std::vector<OpTensor> wide;
  for (const OpTensor* tensor : inputs) wide.push_back(in_double(*tensor));
  // These operations read the loss scale, their last operand, as fp32 whatever type the others
  // have.
  const std::size_t of_route = is_dropless(attributes) ? 4 : 3;
  if (op == Op::route_grad && inputs.size() > of_route) wide[of_route] = *inputs[of_route];
  if (op == Op::nll_loss_grad && inputs.size() > 2) wide[2] = *inputs[2];
  std::vector<const OpTensor*> wide_inputs;
  for (const OpTensor& tensor : wide) wide_inputs.push_back(&tensor);
  const auto found = runner.run(op, attributes, inputs, outputs, added_outputs);
  const auto expected = reference.run(op, attributes, wide_inputs, outputs, added_outputs);
  CHECK(tables.ran.count(op) == 1);
  for (std::size_t o = 0; o < found.size(); ++o) {
    INFO(info(op).name << ", output " << o);
    const bool counts = found[o].type.dtype == Dtype::i32;
    CHECK(distance(found[o], expected[o]) < (counts ? 1e-12 : tolerance()));
  }
  return found;
}

}  // namespace meshwright::tests
