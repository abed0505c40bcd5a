// Operations with random operands, and how the gradient of each one is asked for: what the tests of
// a backend's kernels share.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "exec/backends/backend.h"

namespace meshwright {

// A tensor in host memory.
struct OpTensor {
  TensorType type;
  std::vector<double> storage;  // of 8-byte units, whatever the type

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

// The largest difference, relative to the largest element of b.
double distance(const OpTensor& a, const OpTensor& b);

struct InputSpec {
  Shape shape;
  int below = 0;  // 0: real numbers in (-1, 1); else integers in [0, below)
};

struct Case {
  std::string name;
  Op op;
  Attributes attributes;
  std::vector<InputSpec> inputs;
  std::vector<Shape> outputs;  // the first is the one that is differentiated
};

// Every forward operation that is a kernel and has a gradient, with several choices of attributes.
// Small cases suit finite differences; large ones have sizes beyond the kernels' pieces and tiles,
// a device's beyond those of its kernels, and multiples of what it moves at once.
std::vector<Case> small_cases();
std::vector<Case> large_cases();
std::vector<Case> device_cases();

// Runs operations on a backend with all real operands of one type, and notes which ones. Outputs
// hold NaN before the call; parameter gradients, which are added to, hold 0.5, taken off after.
// With a 16-bit type, statistics, losses and parameter gradients are fp32, as op.h has them.
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
  Dtype output_type(Op op, const Attributes& attributes, std::size_t output, bool added) const;

  Backend& backend_;
  Dtype real_;
};

// Gradients with respect to the inputs of a case, in order (none for integers), of the sum over
// elements of dy * (first output); for losses of scale * (sum of the losses).
using GradientRule = std::vector<OpTensor> (*)(Runner& runner, const Case& c,
                                               const std::vector<OpTensor>& inputs,
                                               const std::vector<OpTensor>& outputs,
                                               const OpTensor& dy);
struct OpRule {
  Op op;
  GradientRule gradient;
  bool is_loss = false;
};
const OpRule& rule_of(Op op);

// The operands and results of a case.
struct Played {
  std::vector<OpTensor> inputs, outputs, gradients;
  OpTensor dy;
};
std::vector<OpTensor> forward(Runner& runner, const Case& c, const std::vector<OpTensor>& inputs);
Played play(Runner& runner, const Case& c);

}  // namespace meshwright
