// Compares attention whose heads the ranks of a context group share with the attention of one rank
// that has all of them. The ranks run one after another here, and the test hands over what they
// exchange.
#include <array>

#include "exec/backends/cpu/cpu_backend.h"
#include "models/program/graph/context.h"
#include "tests/catch.h"
#include "tests/exec/op_cases.h"

using namespace meshwright::tests;

namespace {

using Tensors = std::vector<OpTensor>;

// A context group that exchanges heads. `attributes` describes all tokens and all heads of one rank
// of the tensor group.
class ContextGroup {
 public:
  ContextGroup(Runner& runner, const Attributes& attributes, int degree)
      : runner_(runner), degree_(degree), moving_(attributes), attention_(attributes) {
    moving_.context_degree = moving_.tensor_degree = degree;
    moving_.sequence_length /= degree;
    attention_.heads /= degree;
    attention_.kv_heads /= degree;
    attention_.head_parts = degree;
    if (attributes.packing == Packing::concatenated) {
      const std::int64_t q = std::int64_t{attributes.heads} * attributes.head_dim;
      const std::int64_t kv = std::int64_t{attributes.kv_heads} * attributes.head_dim;
      moving_.segments = {q, kv, kv};
    }
  }

  const Attributes& attention() const { return attention_; }

  // Returns the rows that each rank holds of a tensor of whole sequences.
  Tensors held(const OpTensor& whole) const {
    const std::int64_t rows = whole.type.shape[0] / degree_, width = whole.type.shape[1];
    Tensors parts(static_cast<std::size_t>(degree_), OpTensor({{rows, width}, whole.type.dtype}));
    for (std::int64_t row = 0; row < rows; ++row)
      for (int rank = 0; rank < degree_; ++rank) {
        const std::int64_t of_rank = moving_.sequence_length, sequence = row / of_rank;
        const std::int64_t place =
            sequence * of_rank * degree_ + context_position(degree_, rank, of_rank, row % of_rank);
        for (std::int64_t c = 0; c < width; ++c)
          parts[rank].set(row * width + c, whole.get(place * width + c));
      }
    return parts;
  }

  // Moves data from each rank's tokens of all heads to its heads of all tokens.
  Tensors to_heads(const Tensors& held) { return to_heads(held, moving_); }
  // Does the same for outputs, which are not packed.
  Tensors outputs_to_heads(const Tensors& held) { return to_heads(held, plain()); }
  Tensors to_tokens(const Tensors& heads) { return to_tokens(heads, moving_); }
  Tensors outputs_to_tokens(const Tensors& heads) { return to_tokens(heads, plain()); }

  Tensors run(int rank, Op op, const Tensors& inputs, const std::vector<Shape>& outputs,
              std::size_t added = 0) {
    std::vector<const OpTensor*> in;
    for (const OpTensor& each : inputs) in.push_back(&each);
    runner_.context_rank = rank;
    return runner_.run(op, attention_, in, outputs, added);
  }

 private:
  Attributes plain() const {
    Attributes a = moving_;
    a.segments = {};
    return a;
  }

  // Part j of rank i becomes part i of rank j.
  Tensors exchange(const Tensors& parts) const {
    Tensors result = parts;
    const std::int64_t elements = parts[0].elements() / degree_;
    for (int to = 0; to < degree_; ++to)
      for (int from = 0; from < degree_; ++from)
        for (std::int64_t i = 0; i < elements; ++i)
          result[to].set(from * elements + i, parts[from].get(to * elements + i));
    return result;
  }

  Tensors to_heads(const Tensors& held, const Attributes& a) {
    Tensors parts;
    for (const OpTensor& each : held) {
      const Shape& shape = each.type.shape;
      parts.push_back(runner_.run(Op::columns_to_parts, a, {&each},
                                  {{shape[0] * degree_, shape[1] / degree_}})[0]);
    }
    parts = exchange(parts);
    for (OpTensor& each : parts)
      each = runner_.run(Op::parts_to_sequence, a, {&each}, {each.type.shape})[0];
    return parts;
  }

  Tensors to_tokens(const Tensors& heads, const Attributes& a) {
    Tensors parts;
    for (const OpTensor& each : heads)
      parts.push_back(runner_.run(Op::sequence_to_parts, a, {&each}, {each.type.shape})[0]);
    parts = exchange(parts);
    for (OpTensor& each : parts) {
      const Shape& shape = each.type.shape;
      each = runner_.run(Op::parts_to_columns, a, {&each},
                         {{shape[0] / degree_, shape[1] * degree_}})[0];
    }
    return parts;
  }

  Runner& runner_;
  int degree_;
  Attributes moving_, attention_;
};

double farthest_apart(const OpTensor& a, const OpTensor& b) {
  REQUIRE(a.type == b.type);
  double worst = 0;
  for (std::int64_t i = 0; i < a.elements(); ++i)
    worst = std::max(worst, std::fabs(a.get(i) - b.get(i)));
  return worst;
}

void check_exchanged(const Case& c, int degree, Dtype dtype = Dtype::f64,
                     double tolerance = 1e-12) {
  const auto backend = make_cpu_backend(2);
  Runner runner(*backend, dtype);
  runner.tensor_rank = 1;
  runner.first_sequence = 3;
  const Played whole = play(runner, c);
  ContextGroup group(runner, c.attributes, degree);
  const Attributes& a = group.attention();
  const bool packed = a.packing != Packing::separate;
  const std::size_t sent = packed ? 1 : 3;
  const auto ranks = static_cast<std::size_t>(degree);
  std::vector<Tensors> operands;  // q, k and v of each rank's heads
  for (std::size_t i = 0; i < sent; ++i)
    operands.push_back(group.to_heads(group.held(whole.inputs[i])));
  const Tensors dy = group.outputs_to_heads(group.held(whole.dy));
  const Shape y = dy[0].type.shape;
  const std::int64_t all_heads = std::int64_t{a.micro_batch} * a.heads, s = a.sequence_length;
  const bool unfused = a.attention == AttentionKernel::unfused;
  Tensors outputs;
  std::vector<Tensors> gradients(sent);
  OpTensor sinks;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    Tensors inputs;
    for (const Tensors& each : operands) inputs.push_back(each[rank]);
    if (a.sinks) inputs.push_back(whole.inputs[3]);
    const Tensors made = group.run(static_cast<int>(rank), Op::attention, inputs,
                                   {y, unfused ? Shape{all_heads, s, s} : Shape{all_heads, s}});
    outputs.push_back(made[0]);
    if (a.sinks) inputs.pop_back();
    inputs.insert(inputs.end(), {made[0], made[1], dy[rank]});
    std::vector<Shape> shapes;
    for (const Tensors& each : operands) shapes.push_back(each[rank].type.shape);
    if (a.sinks) inputs.push_back(whole.inputs[3]), shapes.push_back(whole.inputs[3].type.shape);
    const Tensors back =
        group.run(static_cast<int>(rank), Op::attention_grad, inputs, shapes, a.sinks ? 1 : 0);
    for (std::size_t i = 0; i < sent; ++i) gradients[i].push_back(back[i]);
    if (!a.sinks) continue;
    if (rank == 0) sinks = back[3];
    for (std::int64_t i = 0; i < sinks.elements() && rank > 0; ++i)
      sinks.set(i, sinks.get(i) + back[3].get(i));
  }
  const auto check = [&](const Tensors& got, const OpTensor& expected) {
    const Tensors held = group.held(expected);
    for (std::size_t rank = 0; rank < ranks; ++rank)
      CHECK(farthest_apart(got[rank], held[rank]) <= tolerance);
  };
  check(group.outputs_to_tokens(outputs), whole.outputs[0]);
  for (std::size_t i = 0; i < sent; ++i) check(group.to_tokens(gradients[i]), whole.gradients[i]);
  if (a.sinks) CHECK(farthest_apart(sinks, whole.gradients[3]) <= tolerance);
}

// Returns the attributes of one of two ranks of a tensor group.
Attributes eight_heads(int batch, int length) {
  Attributes a;
  a.micro_batch = batch;
  a.sequence_length = length;
  a.heads = 8;
  a.kv_heads = 4;
  a.alibi_heads = 16;
  a.head_dim = 3;
  a.packing = Packing::separate;
  return a;
}

Case attention_of(const Attributes& a) {
  const std::int64_t rows = std::int64_t{a.micro_batch} * a.sequence_length, dim = a.head_dim;
  const std::int64_t q = a.heads * dim, k = a.kv_heads * dim;
  const std::int64_t v = std::int64_t{a.kv_heads} * value_dim_of(a);
  std::vector<InputSpec> inputs{{{rows, q + 2 * k}}};
  if (a.packing == Packing::separate) inputs = {{{rows, q}}, {{rows, k}}, {{rows, v}}};
  if (a.sinks) inputs.push_back({{a.heads}});
  const std::int64_t all_heads = std::int64_t{a.micro_batch} * a.heads, s = a.sequence_length;
  const bool unfused = a.attention == AttentionKernel::unfused;
  return {"attention",
          Op::attention,
          a,
          inputs,
          {{rows, std::int64_t{a.heads} * value_dim_of(a)},
           unfused ? Shape{all_heads, s, s} : Shape{all_heads, s}}};
}

}  // namespace

TEST_CASE("attention by exchanged heads is the attention of one rank", "[exec][context]") {
  const int degree = GENERATE(2, 4);
  const int half = GENERATE(1, 5, 35);  // tokens of half a rank's part
  Attributes a = eight_heads(2, 2 * half * degree);
  for (const Packing packing : {Packing::separate, Packing::concatenated, Packing::per_head}) {
    a.packing = packing;
    a.kv_heads = packing == Packing::per_head ? 8 : 4;
    for (a.causal = false;; a.causal = true) {
      INFO("degree " << degree << ", half " << half << ", packing " << static_cast<int>(packing)
                     << ", causal " << a.causal);
      check_exchanged(attention_of(a), degree);
      if (a.causal) break;
    }
  }
}

TEST_CASE("exchanged heads know which of the model they are", "[exec][context]") {
  const int degree = GENERATE(2, 4);
  const AttentionKernel kernel = GENERATE(AttentionKernel::flash2, AttentionKernel::unfused);
  Attributes a = eight_heads(2, 12 * degree);
  a.attention = kernel;
  a.alibi = true;
  a.dropout = 0.25;
  a.dropout_key = 77;
  INFO("degree " << degree << ", kernel " << static_cast<int>(kernel));
  check_exchanged(attention_of(a), degree);
}

TEST_CASE("exchanged heads see windows, chunks, caps, sinks and wide values as one rank does",
          "[exec][context]") {
  const int degree = GENERATE(2, 4);
  Attributes a = eight_heads(2, 12 * degree);
  a.score_cap = 0.75;
  a.window = 7;
  check_exchanged(attention_of(a), degree);
  a.window = 0;
  a.chunk = 5;
  check_exchanged(attention_of(a), degree);
  a.sinks = true;
  check_exchanged(attention_of(a), degree);
  a.sinks = false;
  a.value_dim = 2;
  a.kv_heads = 8;
  check_exchanged(attention_of(a), degree);
}
