#include "tests/exec/op_cases.h"

#include <cmath>
#include <limits>
#include <random>

#include "exec/core/half.h"
#include "models/graph/widen.h"

namespace meshwright {

namespace {

using Inputs = std::vector<OpTensor>;

Attributes sequences(int batch, int length) {
  Attributes a;
  a.micro_batch = batch;
  a.sequence_length = length;
  return a;
}

struct Sizes {
  int batch, length;            // of sequences
  int width, other;             // of rows; rows of a table
  int in = width, out = other;  // of weights
  int of_attention = batch;     // sequences of it
};

void add_table_cases(std::vector<Case>& cases, const Sizes& z) {
  const std::int64_t rows = z.batch * z.length, h = z.width;
  Attributes a = sequences(z.batch, z.length);
  cases.push_back(
      {"embedding", Op::embedding, a, {{{rows}, z.other}, {{z.other, h}}}, {{rows, h}}});
  const std::vector<InputSpec> with_positions = {{{rows, h}}, {{z.length + 3, h}}};
  cases.push_back({"add_position", Op::add_position, a, with_positions, {{rows, h}}});
  a.position_offset = 2;
  cases.push_back({"add_position, offset 2", Op::add_position, a, with_positions, {{rows, h}}});
  cases.push_back({"add_row", Op::add_row, a, {{{rows, h}}, {{2, h}}}, {{rows, h}}});
  cases.push_back({"prepend_row", Op::prepend_row, a, {{{rows - z.batch, h}}, {{h}}}, {{rows, h}}});
  const int chosen = 3;
  cases.push_back({"select_positions",
                   Op::select_positions,
                   a,
                   {{{rows, h}}, {{z.batch, chosen}, z.length}},
                   {{z.batch * chosen, h}}});
}

void add_row_cases(std::vector<Case>& cases, const Sizes& z) {
  const std::int64_t rows = z.batch * z.length, h = z.width, in = z.in, out = z.out;
  const Attributes a = sequences(z.batch, z.length);
  const InputSpec x{{rows, h}}, row{{h}}, of_product{{rows, in}};
  cases.push_back({"layer_norm", Op::layer_norm, a, {x, row, row}, {{rows, h}, {rows, 2}}});
  cases.push_back({"layer_norm without bias", Op::layer_norm, a, {x, row}, {{rows, h}, {rows, 2}}});
  cases.push_back({"rms_norm", Op::rms_norm, a, {x, row}, {{rows, h}, {rows, 1}}});
  for (const bool in_out : {false, true}) {
    Attributes stored = a;
    stored.weight_in_out = in_out;
    const InputSpec weight{in_out ? Shape{in, out} : Shape{out, in}};
    const std::string name = in_out ? "linear [in, out]" : "linear [out, in]";
    cases.push_back({name, Op::linear, stored, {of_product, weight}, {{rows, out}}});
    cases.push_back(
        {name + " + bias", Op::linear, stored, {of_product, weight, {{out}}}, {{rows, out}}});
    stored.accumulate_separately = true;
    cases.push_back(
        {name + ", summed apart", Op::linear, stored, {of_product, weight}, {{rows, out}}});
  }
  cases.push_back({"add_bias", Op::add_bias, a, {x, row}, {{rows, h}}});
  Attributes tanh_form = a;
  tanh_form.gelu_tanh = true;
  cases.push_back({"gelu, tanh form", Op::gelu, tanh_form, {x}, {{rows, h}}});
  cases.push_back({"gelu, erf form", Op::gelu, a, {x}, {{rows, h}}});
  cases.push_back({"relu", Op::relu, a, {x}, {{rows, h}}});
  cases.push_back({"tanh", Op::tanh, a, {x}, {{rows, h}}});
  cases.push_back({"swiglu", Op::swiglu, a, {x, x}, {{rows, h}}});
  cases.push_back({"add", Op::add, a, {x, x}, {{rows, h}}});
  Attributes dropping = a;
  dropping.dropout = 0.3;
  dropping.dropout_key = 11;
  cases.push_back({"dropout", Op::dropout, dropping, {x}, {{rows, h}}});
}

// Columns handed out to three ranks: one segment, or queries, keys and values.
void add_part_cases(std::vector<Case>& cases, const Sizes& z) {
  const std::int64_t rows = z.batch * z.length, w = z.width;
  Attributes a = sequences(z.batch, z.length);
  a.tensor_degree = 3;
  for (const bool segmented : {false, true}) {
    if (segmented) a.segments = {6 * w, 3 * w, 3 * w};
    const Shape columns{rows, 12 * w}, parts{3 * rows, 4 * w};
    const std::string what = segmented ? ", segments" : "";
    cases.push_back({"columns_to_parts" + what, Op::columns_to_parts, a, {{columns}}, {parts}});
    cases.push_back({"parts_to_columns" + what, Op::parts_to_columns, a, {{parts}}, {columns}});
  }
}

void add_loss_cases(std::vector<Case>& cases, const Sizes& z) {
  const std::int64_t rows = z.batch * z.length, columns = z.other;
  Attributes a = sequences(z.batch, z.length);
  a.scale = 0.125;
  const auto entropy = [&](const char* name, int vocabulary) {
    a.vocabulary = vocabulary;
    const InputSpec targets{{rows}, vocabulary};
    cases.push_back({name, Op::cross_entropy, a, {{{rows, columns}}, targets}, {{rows}, {rows}}});
  };
  entropy("cross_entropy", z.other);
  entropy("cross_entropy, masked columns", z.other - 3);
  cases.push_back({"span_loss",
                   Op::span_loss,
                   a,
                   {{{rows, 2}}, {{z.batch, 2}, z.length}},
                   {{2 * z.batch}, {2 * z.batch}}});
}

// Six experts on three ranks: the rows of each come in three groups, one from every rank.
void add_expert_cases(std::vector<Case>& cases, const Sizes& z) {
  Attributes a = sequences(z.batch, z.length);
  a.experts = 6;
  a.expert_capacity = std::max(1, z.length / 3);
  const std::int64_t rows = std::int64_t{6} * z.batch * a.expert_capacity;
  for (const std::int64_t own : {6, 2})
    for (const bool apart : {false, true}) {
      a.accumulate_separately = apart;
      cases.push_back(
          {"expert_linear, " + std::to_string(own) + " of 6" + (apart ? ", summed apart" : ""),
           Op::expert_linear,
           a,
           {{{rows, z.in}}, {{own, z.out, z.in}}},
           {{rows, z.out}}});
    }
}

const char* name_of(Packing packing) {
  return packing == Packing::separate       ? "separate"
         : packing == Packing::concatenated ? "concatenated"
                                            : "per_head";
}

// Of 6 * unit coordinates, all or the first two thirds turn.
void add_rope_cases(std::vector<Case>& cases, const Sizes& z, int unit) {
  Attributes a = sequences(z.batch, z.length);
  a.heads = 4;
  a.head_dim = 6 * unit;
  for (const Packing packing : {Packing::separate, Packing::concatenated, Packing::per_head})
    for (const bool interleaved : {false, true}) {
      a.packing = packing;
      a.rotary_interleaved = interleaved;
      a.rotary_dim = (interleaved ? 6 : 4) * unit;
      a.kv_heads = packing == Packing::concatenated ? 2 : 4;
      const std::int64_t width =
          (packing == Packing::separate ? 4 : std::int64_t{a.heads + 2 * a.kv_heads}) * a.head_dim;
      const Shape shape{z.batch * z.length, width};
      const std::string which =
          std::string(", ") + name_of(packing) + (interleaved ? ", pairs" : "");
      const auto add = [&](const char* name, Op op) {
        cases.push_back({name + which, op, a, {{shape}}, {shape}});
      };
      add("rope", Op::rope);
      add("rotate_half", Op::rotate_half);
      add("times_cosine", Op::times_cosine);
      add("times_sine", Op::times_sine);
    }
}

Case attention_case(const Attributes& a) {
  const std::int64_t rows = std::int64_t{a.micro_batch} * a.sequence_length, dim = a.head_dim;
  const std::int64_t s = a.sequence_length, batch = std::int64_t{a.micro_batch} * a.heads;
  const bool unfused = a.attention == AttentionKernel::unfused;
  std::string name = std::string("attention, ") + name_of(a.packing);
  name += unfused ? ", unfused" : ", flash";
  if (a.causal) name += ", causal";
  if (a.alibi) name += ", alibi";
  if (a.window > 0) name += ", window";
  if (a.kv_heads != a.heads) name += ", grouped queries";
  if (a.relative_buckets > 0) name += ", relative positions";
  if (!a.scaled_scores) name += ", unscaled";
  if (a.dropout > 0) name += ", dropout";
  std::vector<InputSpec> inputs = {{{rows, (a.heads + 2 * a.kv_heads) * dim}}};
  if (a.packing == Packing::separate)
    inputs = {{{rows, a.heads * dim}}, {{rows, a.kv_heads * dim}}, {{rows, a.kv_heads * dim}}};
  if (a.relative_buckets > 0) inputs.push_back({{a.relative_buckets, a.heads}});
  return {name + ", s = " + std::to_string(s),
          Op::attention,
          a,
          inputs,
          {{rows, a.heads * dim}, unfused ? Shape{batch, s, s} : Shape{batch, s}}};
}

void add_attention_cases(std::vector<Case>& cases, int batch, int length, int head_dim) {
  Attributes a = sequences(batch, length);
  a.heads = 6;
  a.alibi_heads = 6;
  a.head_dim = head_dim;
  for (const Packing packing : {Packing::separate, Packing::concatenated, Packing::per_head})
    for (const AttentionKernel kernel : {AttentionKernel::unfused, AttentionKernel::flash2})
      for (const bool causal : {false, true}) {
        a.packing = packing;
        a.attention = kernel;
        a.causal = causal;
        a.alibi = packing == Packing::per_head;
        a.kv_heads = packing == Packing::per_head || !causal ? 6 : 2;
        cases.push_back(attention_case(a));
      }
  a.packing = Packing::concatenated;
  a.causal = true;
  a.dropout = 0.25;
  a.dropout_key = 7;
  for (const AttentionKernel kernel : {AttentionKernel::unfused, AttentionKernel::flash2}) {
    a.attention = kernel;
    cases.push_back(attention_case(a));
    a.window = 2;
    cases.push_back(attention_case(a));
    a.window = 0;
  }
}

// One head over more than one tile of 128 rows.
void add_tiled_attention_cases(std::vector<Case>& cases, int length) {
  Attributes a = sequences(1, length);
  a.heads = a.alibi_heads = 2;
  a.kv_heads = 1;
  a.head_dim = 3;
  for (const AttentionKernel kernel : {AttentionKernel::unfused, AttentionKernel::flash})
    for (const bool causal : {false, true}) {
      a.attention = kernel;
      a.causal = causal;
      a.alibi = causal;
      a.dropout = 0;
      cases.push_back(attention_case(a));
      a.dropout = 0.25;
      cases.push_back(attention_case(a));
      if (!causal) continue;
      a.window = 40;  // the rows of a tile may see nothing of the first
      cases.push_back(attention_case(a));
      a.window = 0;
    }
}

// With a table of relative positions; of unscaled scores too.
void add_relative_cases(std::vector<Case>& cases, int batch, int length, int head_dim) {
  Attributes a = sequences(batch, length);
  a.heads = 4;
  a.head_dim = head_dim;
  a.relative_buckets = 8;
  a.relative_distance = 20;
  for (const AttentionKernel kernel : {AttentionKernel::unfused, AttentionKernel::flash})
    for (const bool causal : {false, true}) {
      a.attention = kernel;
      a.causal = causal;
      a.kv_heads = causal ? 4 : 2;
      a.scaled_scores = !causal;
      cases.push_back(attention_case(a));
      a.dropout = causal ? 0.25 : 0;
    }
  const Shape all{std::int64_t{batch} * 4, length, length};
  for (const bool causal : {false, true}) {
    a.causal = causal;
    cases.push_back({std::string("add_relative_bias") + (causal ? ", causal" : ""),
                     Op::add_relative_bias,
                     a,
                     {{all}, {{a.relative_buckets, a.heads}}},
                     {all}});
  }
}

// What an eager framework runs.
void add_framework_cases(std::vector<Case>& cases, const Sizes& z) {
  const std::int64_t rows = z.batch * z.length, h = z.width;
  Attributes a = sequences(z.batch, z.length);
  a.factor = -1.5;
  const InputSpec x{{rows, h}}, column{{rows, 1}};
  const std::vector<Shape> like_x = {{rows, h}};
  cases.push_back({"scale", Op::scale, a, {x}, like_x});
  cases.push_back({"add_constant", Op::add_constant, a, {x}, like_x});
  cases.push_back({"cube", Op::cube, a, {x}, like_x});
  cases.push_back({"multiply", Op::multiply, a, {x, x}, like_x});
  cases.push_back({"silu", Op::silu, a, {x}, like_x});
  cases.push_back({"mean_of_squares", Op::mean_of_squares, a, {x}, {{rows, 1}}});
  a.epsilon = 1.5;  // operands are in (-1, 1)
  cases.push_back({"inverse_root", Op::inverse_root, a, {column}, {{rows, 1}}});
  cases.push_back({"scale_rows", Op::scale_rows, a, {x, column}, like_x});
  cases.push_back({"scale_columns", Op::scale_columns, a, {x, {{h}}}, like_x});
  a.scale = 0.125;
  for (const int words : {z.other, z.other - 3}) {
    a.vocabulary = words;
    const Shape logits{rows, z.other};
    const std::string which = words < z.other ? ", masked columns" : "";
    cases.push_back({"log_softmax" + which, Op::log_softmax, a, {{logits}}, {logits}});
    cases.push_back({"nll_loss" + which, Op::nll_loss, a, {{logits}, {{rows}, words}}, {{rows}}});
  }
}

// The steps of attention over heads that lie apart.
void add_score_cases(std::vector<Case>& cases, const Sizes& z, int head_dim) {
  const int s = z.length, d = head_dim;
  Attributes a = sequences(z.batch, z.length);
  a.heads = a.alibi_heads = 4;
  a.head_dim = d;
  a.factor = -100;  // of masked scores, beside scores in (-1, 1)
  a.dropout = 0.25;
  a.dropout_key = 7;
  const Shape queries{z.batch * 4, s, d}, all{z.batch * 4, s, s};
  for (const int kv_heads : {4, 2}) {
    a.kv_heads = kv_heads;
    const Shape shared{z.batch * kv_heads, s, d};
    const std::string which = kv_heads < 4 ? ", grouped queries" : "";
    cases.push_back({"scores" + which, Op::scores, a, {{queries}, {shared}}, {all}});
    cases.push_back({"weigh_values" + which, Op::weigh_values, a, {{all}, {shared}}, {queries}});
  }
  cases.push_back({"add_alibi", Op::add_alibi, a, {{all}}, {all}});
  cases.push_back({"softmax", Op::softmax, a, {{all}}, {all}});
  cases.push_back({"drop_probabilities", Op::drop_probabilities, a, {{all}}, {all}});
}

void add_head_cases(std::vector<Case>& cases, const Sizes& z, int head_dim) {
  Attributes a = sequences(z.batch, z.length);
  a.heads = 4;
  a.head_dim = head_dim;
  for (const Packing packing : {Packing::separate, Packing::concatenated, Packing::per_head}) {
    a.packing = packing;
    a.kv_heads = packing == Packing::concatenated ? 2 : 4;
    const auto apart = [&](int heads) { return Shape{z.batch * heads, z.length, head_dim}; };
    std::vector<Shape> parts = {apart(4)};
    if (packing != Packing::separate)
      for (int i = 0; i < 2; ++i) parts.push_back(apart(a.kv_heads));
    std::int64_t width = 0;
    for (const Shape& part : parts) width += part[0] / z.batch * head_dim;
    const Shape together{z.batch * z.length, width};
    const std::string which = std::string(", ") + name_of(packing);
    cases.push_back({"split_heads" + which, Op::split_heads, a, {{together}}, parts});
    cases.push_back({"join_heads" + which,
                     Op::join_heads,
                     a,
                     std::vector<InputSpec>(parts.begin(), parts.end()),
                     {together}});
  }
}

std::vector<Case> cases_of(const Sizes& z, int head_dim, int rope_unit = 1) {
  std::vector<Case> cases;
  add_table_cases(cases, z);
  add_row_cases(cases, z);
  add_part_cases(cases, z);
  add_loss_cases(cases, z);
  add_expert_cases(cases, z);
  add_rope_cases(cases, z, rope_unit);
  add_framework_cases(cases, z);
  add_score_cases(cases, z, head_dim);
  add_head_cases(cases, z, head_dim);
  add_attention_cases(cases, z.of_attention, z.length, head_dim);
  add_relative_cases(cases, z.of_attention, z.length, head_dim);
  return cases;
}

}  // namespace

std::vector<Case> small_cases() {
  std::vector<Case> cases = cases_of({2, 5, 7, 9}, 3);
  for (const Case& c : cases_of({1, 1, 1, 4}, 1)) cases.push_back(c);
  add_tiled_attention_cases(cases, 131);
  add_relative_cases(cases, 1, 131, 2);
  return cases;
}

std::vector<Case> large_cases() {
  std::vector<Case> cases = cases_of({3, 67, 515, 1030}, 32);
  add_tiled_attention_cases(cases, 300);
  add_relative_cases(cases, 2, 300, 8);
  return cases;
}

// Weights are small: their products are a library's.
std::vector<Case> device_cases() {
  std::vector<Case> cases = cases_of({3, 67, 515, 1030, 131, 262, 1}, 32);
  for (Case& c : cases_of({2, 24, 264, 520, 72, 136}, 16, 8)) cases.push_back(std::move(c));
  return cases;
}

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
  if (op == Op::route && output == 1) return Dtype::i32;
  if (!is_16_bit(real_)) return real_;
  const bool is_loss = op == Op::cross_entropy || op == Op::span_loss ||
                       op == Op::cross_entropy_stats || op == Op::cross_entropy_combine;
  const bool statistics =
      op == Op::norm_stats || (op == Op::norm_parts_sums && output == 0) ||
      ((op == Op::layer_norm || op == Op::rms_norm || op == Op::norm_parts || op == Op::attention ||
        op == Op::context_attention) &&
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
  return results;
}

OpTensor Runner::random(const InputSpec& spec, std::uint64_t seed) const {
  OpTensor tensor({spec.shape, spec.below > 0 ? Dtype::i32 : real_});
  std::mt19937_64 generator(seed);
  for (std::int64_t i = 0; i < tensor.elements(); ++i) {
    const double unit = static_cast<double>(generator() >> 11U) * 0x1p-53;
    tensor.set(i, spec.below > 0 ? unit * spec.below : static_cast<float>(2 * unit - 1));
  }
  return tensor;
}

namespace {

const OpRule rules[] = {
    {Op::embedding,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return r.run(Op::embedding_grad, c.attributes, {&in[0], &dy}, {in[1].type.shape}, 1);
     }},
    {Op::add_position,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return Inputs{dy,
                     r.run(Op::add_position_grad, c.attributes, {&dy}, {in[1].type.shape}, 1)[0]};
     }},
    {Op::add_row,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return Inputs{dy, r.run(Op::add_row_grad, c.attributes, {&dy}, {in[1].type.shape}, 1)[0]};
     }},
    {Op::prepend_row,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return r.run(Op::prepend_row_grad, c.attributes, {&dy}, {in[0].type.shape, in[1].type.shape},
                    1);
     }},
    {Op::layer_norm,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs& out, const OpTensor& dy) {
       std::vector<Shape> shapes;
       for (const OpTensor& tensor : in) shapes.push_back(tensor.type.shape);
       return r.run(Op::layer_norm_grad, c.attributes, {&in[0], &in[1], &out[1], &dy}, shapes,
                    in.size() - 1);
     }},
    {Op::rms_norm,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs& out, const OpTensor& dy) {
       return r.run(Op::rms_norm_grad, c.attributes, {&in[0], &in[1], &out[1], &dy},
                    {in[0].type.shape, in[1].type.shape}, 1);
     }},
    {Op::linear,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       Inputs g = r.run(Op::linear_grad_input, c.attributes, {&dy, &in[1]}, {in[0].type.shape});
       g.push_back(
           r.run(Op::linear_grad_weight, c.attributes, {&in[0], &dy}, {in[1].type.shape}, 1)[0]);
       if (in.size() > 2)
         g.push_back(r.run(Op::bias_grad, c.attributes, {&dy}, {in[2].type.shape}, 1)[0]);
       return g;
     }},
    {Op::expert_linear,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return Inputs{
           r.run(Op::expert_linear_grad_input, c.attributes, {&dy, &in[1]}, {in[0].type.shape})[0],
           r.run(Op::expert_linear_grad_weight, c.attributes, {&in[0], &dy}, {in[1].type.shape},
                 1)[0]};
     }},
    {Op::add_bias,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return Inputs{dy, r.run(Op::bias_grad, c.attributes, {&dy}, {in[1].type.shape}, 1)[0]};
     }},
    {Op::columns_to_parts,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return r.run(Op::parts_to_columns, c.attributes, {&dy}, {in[0].type.shape});
     }},
    {Op::parts_to_columns,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return r.run(Op::columns_to_parts, c.attributes, {&dy}, {in[0].type.shape});
     }},
    {Op::rope,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return r.run(Op::rope_grad, c.attributes, {&dy}, {in[0].type.shape});
     }},
    {Op::attention,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs& out, const OpTensor& dy) {
       std::vector<const OpTensor*> operands;
       std::vector<Shape> shapes;
       const bool relative = c.attributes.relative_buckets > 0;
       for (const OpTensor& tensor : in) {
         operands.push_back(&tensor);
         shapes.push_back(tensor.type.shape);
       }
       if (relative) operands.pop_back();  // the table comes last
       for (const OpTensor* tensor : {&out[0], &out[1], &dy}) operands.push_back(tensor);
       if (relative) operands.push_back(&in.back());
       return r.run(Op::attention_grad, c.attributes, operands, shapes, relative ? 1 : 0);
     }},
    {Op::gelu,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return r.run(Op::gelu_grad, c.attributes, {&in[0], &dy}, {in[0].type.shape});
     }},
    {Op::relu,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return r.run(Op::relu_grad, c.attributes, {&in[0], &dy}, {in[0].type.shape});
     }},
    {Op::tanh,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs& out, const OpTensor& dy) {
       return r.run(Op::tanh_grad, c.attributes, {&out[0], &dy}, {in[0].type.shape});
     }},
    {Op::swiglu,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return r.run(Op::swiglu_grad, c.attributes, {&in[0], &in[1], &dy},
                    {in[0].type.shape, in[1].type.shape});
     }},
    {Op::add,
     [](Runner&, const Case&, const Inputs&, const Inputs&, const OpTensor& dy) {
       return Inputs{dy, dy};
     }},
    {Op::dropout,
     [](Runner& r, const Case& c, const Inputs&, const Inputs&, const OpTensor& dy) {
       return r.run(Op::dropout_grad, c.attributes, {&dy}, {dy.type.shape});
     }},
    {Op::select_positions,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return r.run(Op::select_positions_grad, c.attributes, {&dy, &in[1]}, {in[0].type.shape});
     }},
    {Op::cross_entropy,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs& out, const OpTensor&) {
       return r.run(Op::cross_entropy_grad, c.attributes, {&in[0], &out[1], &in[1]},
                    {in[0].type.shape});
     },
     true},
    {Op::span_loss,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs& out, const OpTensor&) {
       return r.run(Op::span_loss_grad, c.attributes, {&in[0], &out[1], &in[1]},
                    {in[0].type.shape});
     },
     true},
};

// Of the framework's operations; of split_heads that of the first part, which the tests ask for.
const OpRule framework_rules[] = {
    {Op::scale,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return r.run(Op::scale, c.attributes, {&dy}, {in[0].type.shape});
     }},
    {Op::cube,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return r.run(Op::cube_grad, c.attributes, {&in[0], &dy}, {in[0].type.shape});
     }},
    {Op::silu,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return r.run(Op::silu_grad, c.attributes, {&in[0], &dy}, {in[0].type.shape});
     }},
    {Op::mean_of_squares,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return r.run(Op::mean_of_squares_grad, c.attributes, {&in[0], &dy}, {in[0].type.shape});
     }},
    {Op::inverse_root,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs& out, const OpTensor& dy) {
       return r.run(Op::inverse_root_grad, c.attributes, {&out[0], &dy}, {in[0].type.shape});
     }},
    {Op::rotate_half,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return r.run(Op::rotate_half_grad, c.attributes, {&dy}, {in[0].type.shape});
     }},
    {Op::times_cosine,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return r.run(Op::times_cosine, c.attributes, {&dy}, {in[0].type.shape});
     }},
    {Op::times_sine,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return r.run(Op::times_sine, c.attributes, {&dy}, {in[0].type.shape});
     }},
    {Op::softmax,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs& out, const OpTensor& dy) {
       return r.run(Op::softmax_grad, c.attributes, {&out[0], &dy}, {in[0].type.shape});
     }},
    {Op::drop_probabilities,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return r.run(Op::drop_probabilities_grad, c.attributes, {&dy}, {in[0].type.shape});
     }},
    {Op::log_softmax,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs& out, const OpTensor& dy) {
       return r.run(Op::log_softmax_grad, c.attributes, {&out[0], &dy}, {in[0].type.shape});
     }},
    {Op::add_constant, [](Runner&, const Case&, const Inputs&, const Inputs&,
                          const OpTensor& dy) { return Inputs{dy}; }},
    {Op::add_alibi, [](Runner&, const Case&, const Inputs&, const Inputs&,
                       const OpTensor& dy) { return Inputs{dy}; }},
    {Op::add_relative_bias,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return Inputs{dy,
                     r.run(Op::relative_bias_grad, c.attributes, {&dy}, {in[1].type.shape}, 1)[0]};
     }},
    {Op::multiply,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       const Shape shape = dy.type.shape;
       return Inputs{r.run(Op::multiply, c.attributes, {&dy, &in[1]}, {shape})[0],
                     r.run(Op::multiply, c.attributes, {&dy, &in[0]}, {shape})[0]};
     }},
    {Op::scale_rows,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return Inputs{r.run(Op::scale_rows, c.attributes, {&dy, &in[1]}, {dy.type.shape})[0],
                     r.run(Op::row_dots, c.attributes, {&in[0], &dy}, {in[1].type.shape})[0]};
     }},
    {Op::scale_columns,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return Inputs{
           r.run(Op::scale_columns, c.attributes, {&dy, &in[1]}, {dy.type.shape})[0],
           r.run(Op::scale_columns_grad, c.attributes, {&in[0], &dy}, {in[1].type.shape}, 1)[0]};
     }},
    {Op::scores,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return Inputs{
           r.run(Op::weigh_values, c.attributes, {&dy, &in[1]}, {in[0].type.shape})[0],
           r.run(Op::weigh_transposed, c.attributes, {&dy, &in[0]}, {in[1].type.shape})[0]};
     }},
    {Op::weigh_values,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return Inputs{
           r.run(Op::scores, c.attributes, {&dy, &in[1]}, {in[0].type.shape})[0],
           r.run(Op::weigh_transposed, c.attributes, {&in[0], &dy}, {in[1].type.shape})[0]};
     }},
    {Op::split_heads,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs& out, const OpTensor& dy) {
       Inputs parts(out.begin() + 1, out.end());
       std::vector<const OpTensor*> operands = {&dy};
       for (OpTensor& part : parts) {
         for (std::int64_t i = 0; i < part.elements(); ++i) part.set(i, 0);
         operands.push_back(&part);
       }
       return r.run(Op::join_heads, c.attributes, operands, {in[0].type.shape});
     }},
    {Op::join_heads,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       std::vector<Shape> shapes;
       for (const OpTensor& part : in) shapes.push_back(part.type.shape);
       return r.run(Op::split_heads, c.attributes, {&dy}, shapes);
     }},
    {Op::nll_loss,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor&) {
       return r.run(Op::nll_loss_grad, c.attributes, {&in[0], &in[1]}, {in[0].type.shape});
     },
     true},
};

}  // namespace

const OpRule& rule_of(Op op) {
  for (const OpRule& rule : rules)
    if (rule.op == op) return rule;
  for (const OpRule& rule : framework_rules)
    if (rule.op == op) return rule;
  throw std::out_of_range("no gradient rule");
}

std::vector<OpTensor> forward(Runner& runner, const Case& c, const std::vector<OpTensor>& inputs) {
  std::vector<const OpTensor*> operands;
  for (const OpTensor& tensor : inputs) operands.push_back(&tensor);
  return runner.run(c.op, c.attributes, operands, c.outputs);
}

Played play(Runner& runner, const Case& c) {
  Played played;
  for (const InputSpec& spec : c.inputs)
    played.inputs.push_back(runner.random(spec, 17 + played.inputs.size()));
  played.outputs = forward(runner, c, played.inputs);
  played.dy = runner.random({c.outputs[0]}, 5);
  played.gradients = rule_of(c.op).gradient(runner, c, played.inputs, played.outputs, played.dy);
  return played;
}

}  // namespace meshwright
