#include "tests/exec/op_runner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>

#include "exec/core/half.h"
#include "models/program/graph/op_table.h"
#include "models/program/graph/widen.h"

namespace meshwright::tests {

OpTensor::OpTensor(const TensorType& of)
    : type(of), storage(static_cast<std::size_t>(of.bytes() / 8 + 1)) {}

double distance(const OpTensor& a, const OpTensor& b) {
  double difference = 0, largest = 1e-30;
  for (std::int64_t i = 0; i < a.elements(); ++i) {
    const double d = std::fabs(a.get(i) - b.get(i));
    difference = d <= difference ? difference : std::isnan(d) ? INFINITY : d;
    largest = std::max(largest, std::fabs(b.get(i)));
  }
  return difference / largest;
}

double OpTensor::get(std::int64_t i) const {
  if (type.dtype == Dtype::i32) return as<std::int32_t>()[i];
  if (type.dtype == Dtype::f16) return static_cast<double>(reference_value(as<Half>()[i]));
  if (type.dtype == Dtype::bf16) return static_cast<double>(reference_value(as<BFloat16>()[i]));
  return type.dtype == Dtype::f32 ? static_cast<double>(as<float>()[i]) : as<double>()[i];
}

void OpTensor::set(std::int64_t i, double value) {
  if (type.dtype == Dtype::i32)
    as<std::int32_t>()[i] = static_cast<std::int32_t>(value);
  else if (type.dtype == Dtype::f16)
    as<Half>()[i] = reference_half(static_cast<float>(value));
  else if (type.dtype == Dtype::bf16)
    as<BFloat16>()[i] = reference_bfloat16(static_cast<float>(value));
  else if (type.dtype == Dtype::f32)
    as<float>()[i] = static_cast<float>(value);
  else
    as<double>()[i] = value;
}

Dtype Runner::output_type(Op op, const Attributes& attributes, std::size_t output,
                          bool added) const {
  if (op == Op::route && (output == 1 || output == 3)) return Dtype::i32;
  if (!is_16_bit(real_)) return real_;
  const bool is_loss = op == Op::cross_entropy || op == Op::span_loss ||
                       op == Op::cross_entropy_stats || op == Op::cross_entropy_combine;
  const bool statistics =
      op == Op::norm_stats || (op == Op::norm_parts_sums && output == 0) ||
      ((op == Op::layer_norm || op == Op::rms_norm || op == Op::head_norm || op == Op::norm_parts ||
        op == Op::attention || op == Op::context_attention) &&
       output == 1 && !(op == Op::attention && attributes.attention == AttentionKernel::unfused));
  const bool logarithms = op == Op::log_softmax || op == Op::nll_loss ||
                          op == Op::mean_of_squares || op == Op::row_dots;
  const bool weights = logarithms || op == Op::route || (op == Op::combine_grad && output == 1);
  return added || is_loss || statistics || weights ? Dtype::f32 : real_;
}

std::vector<OpTensor> Runner::run(Op op, const Attributes& attributes,
                                  const std::vector<const OpTensor*>& inputs,
                                  const std::vector<Shape>& outputs, std::size_t added_outputs) {
  called.insert(op);
  std::vector<OpTensor> results;
  std::vector<TensorType> input_types, output_types;
  std::vector<const void*> in;
  std::vector<void*> out;
  for (const OpTensor* tensor : inputs) {
    input_types.push_back(tensor->type);
    in.push_back(tensor->storage.data());
  }
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    const bool added = o + added_outputs >= outputs.size();
    output_types.push_back({outputs[o], output_type(op, attributes, o, added)});
    OpTensor& result = results.emplace_back(output_types.back());
    for (std::int64_t i = 0; i < result.elements(); ++i)
      result.set(i, added ? 0.5 : std::numeric_limits<double>::quiet_NaN());
  }
  for (OpTensor& result : results) out.push_back(result.storage.data());
  OpContext context;
  context.tensor_rank = tensor_rank;
  context.context_rank = context_rank;
  context.tensor_size = attributes.tensor_degree;
  std::vector<double> scratch(static_cast<std::size_t>(
      backend_.workspace_bytes({op, attributes, input_types, output_types}) / 8 + 1));
  context.workspace = scratch.data();
  context.first_sequence = first_sequence;
  backend_.run({op, attributes, input_types, output_types}, {in, out}, context);
  for (std::size_t o = outputs.size() - added_outputs; o < outputs.size(); ++o)
    for (std::int64_t i = 0; i < results[o].elements(); ++i)
      results[o].set(i, results[o].get(i) - 0.5);
  check_overwriting({op, attributes, input_types, output_types}, in, context, results,
                    added_outputs);
  return results;
}

// Checks that gradients which overwrite are those that are added. Both are sums of the same terms,
// but sums that were added to 0.5 have lost bits of that size too.
void Runner::check_overwriting(const OpCall& call, const std::vector<const void*>& in,
                               const OpContext& context, const std::vector<OpTensor>& results,
                               std::size_t added_outputs) {
  OpCall again = call;
  std::vector<OpTensor> written;
  std::vector<void*> out;
  for (std::size_t o = 0; o < results.size(); ++o) {
    const bool overwrites =
        o + added_outputs >= results.size() && can_overwrite(call.op, call.attributes, o);
    if (overwrites) again.overwrites |= std::uint32_t{1} << o;
    OpTensor& tensor = written.emplace_back(results[o].type);
    for (std::int64_t i = 0; i < tensor.elements(); ++i)
      tensor.set(i, std::numeric_limits<double>::quiet_NaN());
  }
  if (again.overwrites == 0) return;
  for (OpTensor& tensor : written) out.push_back(tensor.storage.data());
  std::vector<double> scratch(static_cast<std::size_t>(backend_.workspace_bytes(again) / 8 + 1));
  OpContext in_scratch = context;
  in_scratch.workspace = scratch.data();
  backend_.run(again, {in, out}, in_scratch);
  for (std::size_t o = 0; o < results.size(); ++o) {
    if (!again.overwrites_output(o)) continue;
    double largest = 0.5;
    for (std::int64_t i = 0; i < results[o].elements(); ++i)
      largest = std::max(largest, std::fabs(results[o].get(i)));
    const double tolerance = results[o].type.dtype == Dtype::f64 ? 1e-13 : 1e-5;
    for (std::int64_t i = 0; i < results[o].elements(); ++i)
      if (!(std::fabs(written[o].get(i) - results[o].get(i)) <= tolerance * largest))
        throw std::logic_error(std::string(info(call.op).name) + " overwrites output " +
                               std::to_string(o) + " with other numbers than it adds");
  }
}

OpTensor Runner::random(const InputSpec& spec, std::uint64_t seed) const {
  OpTensor tensor({spec.shape, spec.below > 0 ? Dtype::i32 : real_});
  std::mt19937_64 generator(seed);
  double begin = 0;
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    const double unit = static_cast<double>(generator() >> 11U) * 0x1p-53;
    if (spec.documents) {  // documents of about 2 to about `below` tokens
      const std::int64_t place = i % spec.below;
      if (place == 0 || unit < (i / spec.below % 2 == 0 ? 0.3 : 1.5 / spec.below))
        begin = static_cast<double>(place);
      tensor.set(i, begin);
      continue;
    }
    tensor.set(i, spec.below > 0 ? unit * spec.below : static_cast<float>(2 * unit - 1));
  }
  return tensor;
}

}  // namespace meshwright::tests
