#include "tests/exec/attention_cases.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "exec/backends/cpu/cpu_backend.h"
#include "tests/catch.h"

namespace meshwright::tests {

namespace {
double tolerance_of(Dtype dtype) { return dtype == Dtype::f32 ? 1e-5 : 1e-2; }
}  // namespace

OpTensor in_type(const OpTensor& tensor, Dtype dtype) {
  if (tensor.type.dtype == Dtype::i32) return tensor;
  OpTensor converted({tensor.type.shape, dtype});
  for (std::int64_t i = 0; i < tensor.elements(); ++i) converted.set(i, tensor.get(i));
  return converted;
}

Tensors in_type(const Tensors& tensors, Dtype dtype) {
  Tensors converted;
  for (const OpTensor& each : tensors) converted.push_back(in_type(each, dtype));
  return converted;
}

void compare(std::string_view what, const Tensors& found, const Tensors& expected, Dtype dtype) {
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    INFO(what << " " << i);
    double largest = 0;
    for (std::int64_t e = 0; e < expected[i].elements(); ++e)
      largest = std::max(largest, std::fabs(expected[i].get(e)));
    if (largest < 1e-6) {
      for (std::int64_t e = 0; e < found[i].elements(); ++e)
        if (!(std::fabs(found[i].get(e)) < 1e-6)) FAIL("element " << e << ": " << found[i].get(e));
      continue;
    }
    CHECK(distance(found[i], expected[i]) < tolerance_of(dtype));
  }
}

const char* name_of(Dtype dtype) {
  return dtype == Dtype::f32 ? "f32" : dtype == Dtype::f16 ? "f16" : "bf16";
}

Case attention_case(const AttentionShapes& shapes, Attributes a) {
  a.micro_batch = shapes.length > 100 ? 1 : 2;
  a.sequence_length = shapes.length;
  a.head_dim = shapes.head_dim;
  a.heads = shapes.heads;
  a.kv_heads = shapes.kv_heads;
  a.packing = shapes.packing;
  a.causal = shapes.causal;
  a.alibi_heads = 2 * shapes.heads * a.head_parts;
  const std::int64_t rows = std::int64_t{a.micro_batch} * a.sequence_length, dim = a.head_dim;
  const std::int64_t s = a.sequence_length, all_heads = std::int64_t{a.micro_batch} * a.heads;
  std::vector<InputSpec> inputs = {{{rows, (a.heads + 2 * a.kv_heads) * dim}}};
  if (a.packing == Packing::separate)
    inputs = {{{rows, a.heads * dim}}, {{rows, a.kv_heads * dim}}, {{rows, a.kv_heads * dim}}};
  if (a.relative_buckets > 0) inputs.push_back({{a.relative_buckets, a.heads}});
  if (a.sinks) inputs.push_back({{std::int64_t{a.head_parts} * a.heads}});
  if (a.documents) inputs.push_back({{rows}, shapes.length, true});
  const bool unfused = a.attention == AttentionKernel::unfused;
  const std::string name =
      std::to_string(shapes.length) + " tokens, " + std::to_string(shapes.heads) + " heads of " +
      std::to_string(shapes.head_dim) + " on " + std::to_string(shapes.kv_heads) +
      (shapes.causal ? ", causal" : "") + (unfused ? ", unfused" : "") +
      (a.alibi ? ", alibi" : "") + (a.relative_buckets > 0 ? ", relative positions" : "") +
      (a.dropout > 0 ? ", dropout" : "") + (a.documents ? ", documents" : "");
  return {name,
          Op::attention,
          a,
          inputs,
          {{rows, a.heads * dim}, unfused ? Shape{all_heads, s, s} : Shape{all_heads, s}}};
}

void check_attention(const Case& c, Dtype dtype) {
  TableBackend tables;
  check_attention(c, dtype, tables);
}

void check_attention(const Case& c, Dtype dtype, TableBackend& tables) {
  INFO(c.name << ", " << name_of(dtype));
  const auto cpu = make_cpu_backend(1);
  Runner runner(tables, dtype), reference(*cpu, Dtype::f64);
  for (Runner* each : {&runner, &reference}) {
    each->tensor_rank = 1;  // of two
    each->context_rank = c.attributes.head_parts - 1;
    each->first_sequence = 5;
  }
  const Played found = play(runner, c);
  CHECK(tables.ran == std::set<Op>{Op::attention, Op::attention_grad});
  const Tensors inputs = in_type(found.inputs, Dtype::f64);
  const Tensors outputs = forward(reference, c, inputs);
  compare("output", found.outputs, outputs, dtype);
  compare("gradient", found.gradients,
          rule_of(c.op).gradient(reference, c, inputs, outputs, in_type(found.dy, Dtype::f64)),
          dtype);
}

}  // namespace meshwright::tests
