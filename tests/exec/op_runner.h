// Runs operations on tensors in host memory.
#pragma once

#include <set>
#include <vector>

#include "exec/backends/backend.h"
#include "models/program/graph/op_call.h"

namespace meshwright::tests {

// A tensor in host memory.
struct OpTensor {
  TensorType type;
  std::vector<double> storage;  // memory in 8-byte units, whatever the type

  OpTensor() = default;
  explicit OpTensor(const TensorType& of);
  template <typename T>
  T* as() {
    return reinterpret_cast<T*>(storage.data());
  }
  template <typename T>
  const T* as() const {
    return reinterpret_cast<const T*>(storage.data());
  }
  std::int64_t elements() const { return type.shape.elements(); }
  double get(std::int64_t i) const;
  void set(std::int64_t i, double value);
};

// Returns the largest difference, relative to the largest element of b.
double distance(const OpTensor& a, const OpTensor& b);

struct InputSpec {
  Shape shape;
  int below = 0;           // 0: real numbers in (-1, 1); else integers in [0, below)
  bool documents = false;  // begins of documents, for sequences of `below` tokens
};

// Runs operations on a backend with all real operands of one type, and records which ones. Outputs
// hold NaN before the call. Parameter gradients, which are added to, hold 0.5, which is subtracted
// afterwards. If the operation can overwrite them, it runs once more over NaN. Throws
// std::logic_error if that gives other gradients. With a 16-bit type, statistics, losses and
// parameter gradients are fp32, as op.h specifies.
class Runner {
 public:
  Runner(Backend& backend, Dtype real) : backend_(backend), real_(real) {}

  std::vector<OpTensor> run(Op op, const Attributes& attributes,
                            const std::vector<const OpTensor*>& inputs,
                            const std::vector<Shape>& outputs, std::size_t added_outputs = 0);
  OpTensor random(const InputSpec& spec, std::uint64_t seed) const;  // equal numbers in f32 and f64
  int tensor_rank = 0, context_rank = 0;
  std::int64_t first_sequence = 0;
  std::set<Op> called;

 private:
  void check_overwriting(const OpCall& call, const std::vector<const void*>& in,
                         const OpContext& context, const std::vector<OpTensor>& results,
                         std::size_t added_outputs);
  Dtype output_type(Op op, const Attributes& attributes, std::size_t output, bool added) const;

  Backend& backend_;
  Dtype real_;
};

}  // namespace meshwright::tests
