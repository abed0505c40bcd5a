// Compares the kernels of the CUDA tables, on the emulated device, with the CPU backend in double
// precision.
#pragma once

#include <memory>

#include "tests/exec/op_cases.h"
#include "tests/exec/table_backend.h"

namespace meshwright::tests {

OpTensor in_double(const OpTensor& tensor);  // the same numbers in f64; integers as they are
double largest(const OpTensor& tensor);      // largest magnitude; infinite if one is NaN

// Runs operations on both. All operands of the tables that are not integers have the type `real`.
class Beside {
 public:
  explicit Beside(Dtype real);
  double tolerance() const { return real_ == Dtype::f32 ? 1e-5 : 1e-2; }

  // Runs the tables' kernel (Runner::run), checks every output against the CPU's, and returns the
  // outputs. Integers must be equal. If ranks do different work, set tensor_rank and the like
  // before.
  std::vector<OpTensor> run(Op op, const Attributes& attributes,
                            const std::vector<const OpTensor*>& inputs,
                            const std::vector<Shape>& outputs, std::size_t added_outputs = 0);
  OpTensor random(const InputSpec& spec, std::uint64_t seed) const {
    return runner.random(spec, seed);
  }

 private:
  std::unique_ptr<Backend> cpu_;
  Dtype real_;

 public:
  int tensor_rank = 0, context_rank = 0;
  std::int64_t first_sequence = 0;
  TableBackend tables;
  Runner reference, runner;
};

}  // namespace meshwright::tests
