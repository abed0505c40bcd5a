#include "models/program/graph/ops/rules.h"
#include "models/program/graph/op_call.h"

namespace meshwright::program {

void same_as_first(const Attributes&, In in, Out& out) { out.push_back(in[0]); }

void same_as_second(const Attributes&, In in, Out& out) { out.push_back(in[1]); }

void first_and_second(const Attributes&, In in, Out& out) {
  out.push_back(in[0]);
  out.push_back(in[1]);
}

void nothing(const Attributes&, In, Out&) {}

void same_as_both(const Attributes&, In in, Out& out) {
  require(in[0] == in[1], "both have one type");
  out.push_back(in[0]);
}

void work_nothing(const OpCall&, CompilerLevel, KernelList&) {}

void work_unary(const OpCall& call, CompilerLevel, KernelList& kernels) {
  memory_kernel(kernels, 2 * bytes(call.inputs[0]));
}

void work_elementwise(const OpCall& call, CompilerLevel, KernelList& kernels) {
  memory_kernel(kernels, bytes_of_all(call.inputs) + bytes_of_all(call.outputs));
}

void work_rewrite(const OpCall& call, CompilerLevel, KernelList& kernels) {
  memory_kernel(kernels, 2 * bytes_of_all(call.outputs));
}

void work_column_sum(const OpCall& call, CompilerLevel, KernelList& kernels) {
  memory_kernel(kernels, bytes(call.inputs[0]) + bytes_of_all(call.outputs));
}

void work_write(const OpCall& call, CompilerLevel, KernelList& kernels) {
  memory_kernel(kernels, bytes_of_all(call.outputs));
}

namespace {

// Appends the kernels of dropout in fp32 for a tensor in 16 bits, which is converted before and
// after. Without dropout it is only converted.
void work_dropout_in_fp32(const OpCall& call, KernelList& kernels) {
  const double elements = static_cast<double>(call.inputs[0].shape.elements());
  const double wide = 4 * elements, mask = elements;
  memory_kernel(kernels, bytes(call.inputs[0]) + wide);
  if (call.attributes.dropout > 0) memory_kernel(kernels, 2 * wide + mask);
  memory_kernel(kernels, wide + bytes(call.inputs[0]));
}

bool drops_in_fp32(const OpCall& call, CompilerLevel level) {
  return call.attributes.drops_in_fp32 && level == CompilerLevel::none &&
         element_size(call.inputs[0]) < 4;
}

}  // namespace

void work_dropout(const OpCall& call, CompilerLevel level, KernelList& kernels) {
  if (drops_in_fp32(call, level)) return work_dropout_in_fp32(call, kernels);
  const double mask = static_cast<double>(call.inputs[0].shape.elements());
  if (level == CompilerLevel::none) memory_kernel(kernels, 2 * bytes(call.inputs[0]) + mask);
  if (level == CompilerLevel::fused) joining_traffic(kernels, mask);
}

void work_dropout_grad(const OpCall& call, CompilerLevel level, KernelList& kernels) {
  if (drops_in_fp32(call, level)) return work_dropout_in_fp32(call, kernels);
  const double mask = static_cast<double>(call.inputs[0].shape.elements());
  const double read = level == CompilerLevel::full ? 0 : mask;
  memory_kernel(kernels, 2 * bytes(call.inputs[0]) + read);
}

}  // namespace meshwright::program
