#include "tests/exec/op_cases.h"

#include <stdexcept>

#include "tests/exec/eager_op_cases.h"

namespace meshwright::tests {

namespace {

using Inputs = std::vector<OpTensor>;

void add_table_cases(std::vector<Case>& cases, const Sizes& z) {
  const std::int64_t rows = z.batch * z.length, h = z.width;
  Attributes a = sequences(z.batch, z.length);
  cases.push_back(
      {"embedding", Op::embedding, a, {{{rows}, z.other}, {{z.other, h}}}, {{rows, h}}});
  const std::vector<InputSpec> with_positions = {{{rows, h}}, {{z.length + 3, h}}};
  cases.push_back({"add_position", Op::add_position, a, with_positions, {{rows, h}}});
  a.position_offset = 2;
  cases.push_back({"add_position, offset 2", Op::add_position, a, with_positions, {{rows, h}}});
  a.documents = true;
  std::vector<InputSpec> in_documents = with_positions;
  in_documents.push_back({{rows}, static_cast<int>(z.length), true});
  cases.push_back({"add_position, documents", Op::add_position, a, in_documents, {{rows, h}}});
  a.documents = false;
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
  Attributes one_plus = a;
  one_plus.one_plus_weight = true;
  cases.push_back({"layer_norm by 1 + weight",
                   Op::layer_norm,
                   one_plus,
                   {x, row, row},
                   {{rows, h}, {rows, 2}}});
  cases.push_back(
      {"rms_norm by 1 + weight", Op::rms_norm, one_plus, {x, row}, {{rows, h}, {rows, 1}}});
  for (const Attributes& each : {a, one_plus})
    cases.push_back({std::string("head_norm") + (each.one_plus_weight ? " by 1 + weight" : ""),
                     Op::head_norm,
                     each,
                     {{{rows, 3 * h}}, row},
                     {{rows, 3 * h}, {rows, 3}}});
  Attributes unit = a;
  unit.head_dim = static_cast<int>(h);
  cases.push_back({"head_norm without weights",
                   Op::head_norm,
                   unit,
                   {{{rows, 3 * h}}},
                   {{rows, 3 * h}, {rows, 3}}});
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
  cases.push_back({"squared_relu", Op::squared_relu, a, {x}, {{rows, h}}});
  cases.push_back({"tanh", Op::tanh, a, {x}, {{rows, h}}});
  cases.push_back({"swiglu", Op::swiglu, a, {x, x}, {{rows, h}}});
  Attributes clamped = a;
  clamped.swiglu_limit = 0.6;
  cases.push_back({"clamped_swiglu", Op::clamped_swiglu, clamped, {x, x}, {{rows, h}}});
  cases.push_back({"gate_rows", Op::gate_rows, a, {x, {{rows, 1}}}, {{rows, h}}});
  cases.push_back({"add", Op::add, a, {x, x}, {{rows, h}}});
  Attributes dropping = a;
  dropping.dropout = 0.3;
  dropping.dropout_key = 11;
  cases.push_back({"dropout", Op::dropout, dropping, {x}, {{rows, h}}});
}

// Adds cases with columns that are split over three ranks, in one segment or as queries, keys and
// values, and cases with the ranks' tokens in the order of whole sequences.
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
  a.context_degree = 3;
  a.sequence_length = 2 * z.length;
  const Shape tokens{6 * rows, w};
  cases.push_back({"parts_to_sequence", Op::parts_to_sequence, a, {{tokens}}, {tokens}});
  cases.push_back({"sequence_to_parts", Op::sequence_to_parts, a, {{tokens}}, {tokens}});
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

// Adds cases with six experts. On three ranks, the rows of each expert come in three groups, one
// from every rank.
void add_expert_cases(std::vector<Case>& cases, const Sizes& z) {
  Attributes a = sequences(z.batch, z.length);
  a.experts = 6;
  a.expert_capacity = std::max(1, z.length / 3);
  const std::int64_t rows = std::int64_t{6} * z.batch * a.expert_capacity;
  for (const std::int64_t own : {6, 2})
    cases.push_back({"add_expert_bias, " + std::to_string(own) + " of 6",
                     Op::add_expert_bias,
                     a,
                     {{{rows, z.out}}, {{own, z.out}}},
                     {{rows, z.out}}});
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

// Adds cases whose heads have 6 * unit coordinates, of which all or the first two thirds are
// rotated.
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
      a.documents = true;
      const InputSpec documents{{z.batch * z.length}, static_cast<int>(z.length), true};
      cases.push_back({"rope, documents" + which, Op::rope, a, {{shape}, documents}, {shape}});
      a.documents = false;
      add("rotate_half", Op::rotate_half);
      add("times_cosine", Op::times_cosine);
      add("times_sine", Op::times_sine);
      if (packing != Packing::separate) continue;
      a.rotary_factor = 4;
      add("rope, slower", Op::rope);
      a.rotary_original = 40;
      add("rope, slow pairs slower", Op::rope);
      a.rotary_yarn = true;
      a.rotary_high = 8;
      for (const bool truncate : {false, true}) {
        a.rotary_truncate = truncate;
        add(truncate ? "rope, YaRN" : "rope, YaRN between pairs", Op::rope);
      }
      a.rotary_yarn = false;
      a.rotary_high = 4;
      a.rotary_factor = 1;
      a.rotary_original = 0;
      a.temperature = 0.3;
      a.temperature_floor = 2;
      a.rotary_dim = a.head_dim;
      add("rope, temperature", Op::rope);
      a.position_offset = 1;
      add("rope, temperature of places from 0", Op::rope);
      a.position_offset = 0;
      a.temperature = 0;
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
  if (a.chunk > 0) name += ", chunks";
  if (a.score_cap > 0) name += ", capped";
  if (a.kv_heads != a.heads) name += ", grouped queries";
  if (a.relative_buckets > 0) name += ", relative positions";
  if (!a.scaled_scores) name += ", unscaled";
  if (a.dropout > 0) name += ", dropout";
  if (a.value_dim > 0) name += ", narrow values";
  if (a.sinks) name += ", sinks";
  const std::int64_t of_values = value_dim_of(a);
  std::vector<InputSpec> inputs = {{{rows, (a.heads + 2 * a.kv_heads) * dim}}};
  if (a.packing == Packing::separate)
    inputs = {
        {{rows, a.heads * dim}}, {{rows, a.kv_heads * dim}}, {{rows, a.kv_heads * of_values}}};
  if (a.relative_buckets > 0) inputs.push_back({{a.relative_buckets, a.heads}});
  if (a.sinks) inputs.push_back({{a.heads}});
  if (a.documents) {
    inputs.push_back({{rows}, a.sequence_length, true});
    name += ", documents";
  }
  return {name + ", s = " + std::to_string(s),
          Op::attention,
          a,
          inputs,
          {{rows, a.heads * of_values}, unfused ? Shape{batch, s, s} : Shape{batch, s}}};
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
        a.score_cap = 0.75;
        a.score_width = 2;
        cases.push_back(attention_case(a));
        a.score_cap = a.score_width = 0;
      }
  a.packing = Packing::concatenated;
  a.causal = a.documents = true;
  for (const AttentionKernel kernel : {AttentionKernel::unfused, AttentionKernel::flash2}) {
    a.attention = kernel;
    cases.push_back(attention_case(a));
    a.chunk = 3;
    a.alibi = true;
    cases.push_back(attention_case(a));
    a.chunk = 0;
    a.alibi = a.causal = false;
    cases.push_back(attention_case(a));
    a.causal = true;
  }
  a.documents = false;
  a.dropout = 0.25;
  a.dropout_key = 7;
  for (const AttentionKernel kernel : {AttentionKernel::unfused, AttentionKernel::flash2}) {
    a.attention = kernel;
    cases.push_back(attention_case(a));
    a.window = 2;
    cases.push_back(attention_case(a));
    a.score_cap = 0.75;
    cases.push_back(attention_case(a));
    a.window = 0;
    a.score_cap = 0;
    a.chunk = 3;
    cases.push_back(attention_case(a));
    a.chunk = 0;
  }
}

// Adds cases with heads of a rotated part and another part, and with narrower values.
void add_latent_cases(std::vector<Case>& cases, int batch, int length, int head_dim) {
  Attributes a = sequences(batch, length);
  a.heads = 4;
  a.rotary_dim = head_dim;
  a.head_dim = 3 * head_dim;
  const std::int64_t rows = std::int64_t{batch} * length;
  for (const int kv_heads : {1, 4}) {
    a.kv_heads = kv_heads;
    cases.push_back({kv_heads == 1 ? "concat_heads, one for all" : "concat_heads",
                     Op::concat_heads,
                     a,
                     {{{rows, 8 * head_dim}}, {{rows, kv_heads * head_dim}}},
                     {{rows, 12 * head_dim}}});
  }
  a.value_dim = 2 * head_dim;
  a.score_factor = 1.5;
  for (const AttentionKernel kernel : {AttentionKernel::unfused, AttentionKernel::flash2})
    for (const bool causal : {false, true}) {
      a.attention = kernel;
      a.causal = causal;
      a.kv_heads = causal ? 4 : 2;
      a.dropout = causal ? 0.25 : 0;
      a.dropout_key = 7;
      cases.push_back(attention_case(a));
      a.documents = causal;
      if (causal) cases.push_back(attention_case(a));
      a.documents = false;
    }
}

// Adds attention cases over more than one tile of 128 rows. Two heads share one head of keys.
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
      a.documents = true;  // some rows see no key of the first tile
      cases.push_back(attention_case(a));
      a.window = 40;
      cases.push_back(attention_case(a));
      a.window = 0;
      a.documents = false;
      a.chunk = 50;  // some rows see no key of the first tile
      cases.push_back(attention_case(a));
      a.chunk = 0;
      a.window = 40;  // some rows see no key of the first tile
      cases.push_back(attention_case(a));
      a.score_cap = 0.75;
      cases.push_back(attention_case(a));
      a.window = 0;
      a.score_cap = 0;
    }
}

void add_sink_cases(std::vector<Case>& cases, int batch, int length, int head_dim) {
  Attributes a = sequences(batch, length);
  a.heads = 4;
  a.kv_heads = 2;
  a.head_dim = head_dim;
  a.attention = AttentionKernel::flash;
  a.sinks = true;
  a.dropout_key = 7;
  for (const int window : {0, 3})
    for (const double dropout : {0.0, 0.25}) {
      a.documents = window > 0 && dropout > 0;
      a.window = window;
      a.dropout = dropout;
      cases.push_back(attention_case(a));
    }
}

// Adds attention cases with a table of relative positions, also with unscaled scores.
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
      a.documents = causal;
      if (causal) cases.push_back(attention_case(a));
      a.documents = false;
      a.score_cap = 0.75;
      cases.push_back(attention_case(a));
      a.score_cap = 0;
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

std::vector<Case> cases_of(const Sizes& z, int head_dim, int rope_unit = 1) {
  std::vector<Case> cases;
  add_table_cases(cases, z);
  add_row_cases(cases, z);
  add_part_cases(cases, z);
  add_loss_cases(cases, z);
  add_expert_cases(cases, z);
  add_rope_cases(cases, z, rope_unit);
  add_eager_cases(cases, z, head_dim);
  add_attention_cases(cases, z.of_attention, z.length, head_dim);
  add_latent_cases(cases, z.of_attention, z.length, head_dim);
  add_relative_cases(cases, z.of_attention, z.length, head_dim);
  add_sink_cases(cases, z.of_attention, z.length, head_dim);
  return cases;
}

}  // namespace

std::vector<Case> small_cases() {
  std::vector<Case> cases = cases_of({2, 5, 7, 9}, 3);
  for (const Case& c : cases_of({1, 1, 1, 4}, 1)) cases.push_back(c);
  add_tiled_attention_cases(cases, 131);
  add_relative_cases(cases, 1, 131, 2);
  add_sink_cases(cases, 1, 131, 2);
  return cases;
}

std::vector<Case> large_cases() {
  std::vector<Case> cases = cases_of({3, 67, 515, 1030}, 32);
  add_tiled_attention_cases(cases, 300);
  add_relative_cases(cases, 2, 300, 8);
  return cases;
}

// Weights are small, because a library computes their matmuls.
std::vector<Case> device_cases() {
  std::vector<Case> cases = cases_of({3, 67, 515, 1030, 131, 262, 1}, 32);
  for (Case& c : cases_of({2, 24, 264, 520, 72, 136}, 16, 8)) cases.push_back(std::move(c));
  return cases;
}

namespace {

template <Op inverse>
Inputs moved_back(Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
  return r.run(inverse, c.attributes, {&dy}, {in[0].type.shape});
}

const OpRule rules[] = {
    {Op::embedding,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return r.run(Op::embedding_grad, c.attributes, {&in[0], &dy}, {in[1].type.shape}, 1);
     }},
    {Op::add_position,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       std::vector<const OpTensor*> operands = {&dy};
       if (c.attributes.documents) operands.push_back(&in[2]);
       return Inputs{
           dy, r.run(Op::add_position_grad, c.attributes, operands, {in[1].type.shape}, 1)[0]};
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
    {Op::head_norm,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs& out, const OpTensor& dy) {
       std::vector<const OpTensor*> operands = {&in[0], &out[1], &dy};
       std::vector<Shape> shapes = {in[0].type.shape};
       if (in.size() > 1) operands.push_back(&in[1]), shapes.push_back(in[1].type.shape);
       return r.run(Op::head_norm_grad, c.attributes, operands, shapes, in.size() - 1);
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
    {Op::columns_to_parts, moved_back<Op::parts_to_columns>},
    {Op::parts_to_columns, moved_back<Op::columns_to_parts>},
    {Op::parts_to_sequence, moved_back<Op::sequence_to_parts>},
    {Op::sequence_to_parts, moved_back<Op::parts_to_sequence>},
    {Op::rope,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       std::vector<const OpTensor*> operands = {&dy};
       if (c.attributes.documents) operands.push_back(&in[1]);
       return r.run(Op::rope_grad, c.attributes, operands, {in[0].type.shape});
     }},
    {Op::concat_heads,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return r.run(Op::concat_heads_grad, c.attributes, {&dy},
                    {in[0].type.shape, in[1].type.shape});
     }},
    {Op::attention,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs& out, const OpTensor& dy) {
       std::vector<const OpTensor*> operands;
       std::vector<Shape> shapes;
       const bool relative = c.attributes.relative_buckets > 0 || c.attributes.sinks;
       const std::size_t tensors = in.size() - (c.attributes.documents ? 1 : 0);
       for (std::size_t i = 0; i < tensors; ++i) {
         operands.push_back(&in[i]);
         shapes.push_back(in[i].type.shape);
       }
       if (relative) operands.pop_back();  // the table, or the sinks, come last
       for (const OpTensor* tensor : {&out[0], &out[1], &dy}) operands.push_back(tensor);
       if (relative) operands.push_back(&in[tensors - 1]);
       if (c.attributes.documents) operands.push_back(&in.back());
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
    {Op::squared_relu,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return r.run(Op::squared_relu_grad, c.attributes, {&in[0], &dy}, {in[0].type.shape});
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
    {Op::clamped_swiglu,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return r.run(Op::clamped_swiglu_grad, c.attributes, {&in[0], &in[1], &dy},
                    {in[0].type.shape, in[1].type.shape});
     }},
    {Op::add_expert_bias,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return Inputs{dy,
                     r.run(Op::expert_bias_grad, c.attributes, {&dy}, {in[1].type.shape}, 1)[0]};
     }},
    {Op::gate_rows,
     [](Runner& r, const Case& c, const Inputs& in, const Inputs&, const OpTensor& dy) {
       return r.run(Op::gate_rows_grad, c.attributes, {&in[0], &in[1], &dy},
                    {in[0].type.shape, in[1].type.shape});
     }},
    {Op::add, [](Runner&, const Case&, const Inputs&, const Inputs&,
                 const OpTensor& dy) { return Inputs{dy, dy}; }},
    {Op::dropout,
     [](Runner& r, const Case& c, const Inputs&, const Inputs&,
        const OpTensor&
            dy) { return r.run(Op::dropout_grad, c.attributes, {&dy}, {dy.type.shape}); }},
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

}  // namespace

const OpRule& rule_of(Op op) {
  for (const OpRule& rule : rules)
    if (rule.op == op) return rule;
  for (const OpRule& rule : eager_rules())
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

}  // namespace meshwright::tests
