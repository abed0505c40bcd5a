// Appends a block's attention: queries, keys and values from one matrix, from three, or from a
// latent vector.
#include "models/architectures/graph_builder.h"
#include "models/core/error.h"
#include "models/program/graph/documents.h"

namespace meshwright::architectures {

int GraphBuilder::rope(int x, int heads, int kv_heads, int head_dim) {
  if (m_.rotary_dim == 0 || !turns_) return x;
  Attributes a = attributes();
  a.heads = heads;
  a.kv_heads = kv_heads;
  a.head_dim = head_dim;
  a.packing = names_.packing;
  a.rotary_dim = m_.rotary_dim;
  a.rotary_base = m_.rotary_base;
  a.rotary_interleaved = m_.rotary_interleaved;
  a.rotary_factor = names_.turns_back ? -m_.rotary_factor : m_.rotary_factor;
  a.rotary_low = m_.rotary_low;
  a.rotary_high = m_.rotary_high;
  a.rotary_original = m_.rotary_original;
  a.rotary_yarn = m_.rotary_yarn;
  a.rotary_truncate = m_.rotary_truncate;
  if (window_ > 0 && m_.local_rotary_base > 0) {
    a.rotary_base = m_.local_rotary_base;
    a.rotary_factor = 1;
    a.rotary_original = 0;
    a.rotary_yarn = false;
  }
  TensorIds inputs{x};
  tell_documents(inputs, a);
  return apply(Op::rope, in_block(names_.attention.module), inputs, a);
}

TensorIds GraphBuilder::packed_qkv(int x) {
  const std::int64_t q = std::int64_t{m_.heads} * m_.head_dim;
  const std::int64_t kv = std::int64_t{m_.kv_heads} * m_.head_dim;
  Matrix matrix{in_block(names_.attention.qkv), m_.hidden, q + 2 * kv, Side::outputs,
                m_.attention_bias};
  if (names_.packing == Packing::concatenated) matrix.segments = {q, kv, kv};
  matrix.weight_in_out = names_.weight_in_out;
  return {rope(linear(x, matrix), m_.heads, m_.kv_heads)};
}

int GraphBuilder::project(int x, const std::string& path, int heads) {
  return linear(
      x, {path, m_.hidden, std::int64_t{heads} * m_.head_dim, Side::outputs, m_.attention_bias});
}

std::optional<PublishedPart> GraphBuilder::part_of_qkv(int which) const {
  if (names_.published_qkv.empty()) return {};
  std::int64_t groups = names_.published_by_groups ? m_.kv_heads : 1;
  if (names_.published_qvk_groups > 0) {
    groups = names_.published_qvk_groups;
    if (which > 0) which = 3 - which;
  }
  const std::int64_t kv = m_.kv_heads / groups * m_.head_dim;
  const std::int64_t q = m_.heads / groups * m_.head_dim;
  return PublishedPart{in_block(names_.published_qkv), groups, q + 2 * kv,
                       which == 0 ? 0 : q + (which - 1) * kv};
}

int GraphBuilder::project_part(int x, std::string_view name, int which) {
  const int heads = which == 0 ? m_.heads : m_.kv_heads;
  return linear(x, {.path = in_block(name),
                    .in = m_.hidden,
                    .out = std::int64_t{heads} * m_.head_dim,
                    .side = Side::outputs,
                    .bias = m_.attention_bias,
                    .part = part_of_qkv(which)});
}

int GraphBuilder::head_norm(int x, std::string_view name) {
  const bool of_heads = m_.query_key_norm == QueryKeyNorm::heads;
  if (!of_heads && m_.query_key_norm != QueryKeyNorm::rows) return x;
  const std::string path = in_block(name);
  const std::int64_t width = graph_.tensor(x).type.shape[1];
  if (of_heads)
    return apply(Op::head_norm, path, {x, norm_weight(path, m_.head_dim)}, norm_attributes());
  return apply(Op::rms_norm, path, {x, norm_weight(path, width, {0, {width}})}, norm_attributes());
}

int GraphBuilder::turned_norm(int x, std::string_view name) {
  const std::string path = in_block(name);
  if (m_.query_key_norm == QueryKeyNorm::heads_turned)
    return apply(Op::head_norm, path, {x, norm_weight(path, m_.head_dim)}, norm_attributes());
  if (m_.query_key_norm != QueryKeyNorm::turned || !turns_) return x;
  Attributes a = norm_attributes();
  a.head_dim = m_.head_dim;
  return apply(Op::head_norm, path, {x}, a);
}

// In sequences shorter than temperature_floor, the factor is 1 everywhere. If it grows from that
// place on, it is also 1 everywhere in a sequence as long.
int GraphBuilder::tempered(int x) {
  const bool from_floor = names_.grows_from_floor;
  if (m_.temperature == 0 || (turns_ && !from_floor)) return x;
  if (sequence_ < m_.temperature_floor + (from_floor ? 1 : 0)) return x;
  Attributes a = attributes();
  a.heads = m_.heads;
  a.kv_heads = m_.kv_heads;
  a.head_dim = a.rotary_dim = m_.head_dim;
  a.temperature = m_.temperature;
  a.temperature_floor = m_.temperature_floor;
  a.position_offset = from_floor ? 1 : 0;
  TensorIds inputs{x};
  tell_documents(inputs, a);
  return apply(Op::rope, in_block(names_.attention.module), inputs, a);
}

TensorIds GraphBuilder::separate_qkv(int x) {
  const auto turned = [&](std::string_view name, std::string_view norm_name, int which) {
    const int y = head_norm(project_part(x, name, which), norm_name);
    return turned_norm(rope(y, which == 0 ? m_.heads : m_.kv_heads, m_.kv_heads), norm_name);
  };
  const int q = tempered(turned(names_.attention.q, names_.q_norm, 0));
  const int k = turned(names_.attention.k, names_.k_norm, 1);
  return {q, k, project_part(x, names_.attention.v, 2)};
}

int GraphBuilder::latent_norm(int x, std::string_view name) {
  const std::string path = in_block(name);
  Attributes a = attributes();
  a.epsilon = 1e-6;
  return apply(Op::rms_norm, path, {x, norm_weight(path, graph_.tensor(x).type.shape[1])}, a);
}

int GraphBuilder::latent_part(int x, const LatentPart& each) {
  return linear(
      x, {.path = in_block(names_.attention.module) + "." + std::string(each.part),
          .in = graph_.tensor(x).type.shape[1],
          .out = each.groups * each.width,
          .side = each.side,
          .bias = each.bias,
          .part = PublishedPart{in_block(names_.attention.module) + "." + std::string(each.whole),
                                each.groups, each.group_width, each.first}});
}

int GraphBuilder::joined_heads(int other, int turned, int heads_of_turned) {
  const int rotated = rope(turned, heads_of_turned, heads_of_turned, m_.rotary_dim);
  Attributes a = attributes();
  a.heads = m_.heads;
  a.kv_heads = heads_of_turned;
  a.head_dim = m_.head_dim;
  a.rotary_dim = m_.rotary_dim;
  return apply(Op::concat_heads, in_block(names_.attention.module), {other, rotated}, a);
}

TensorIds GraphBuilder::latent_qkv(int x) {
  const std::int64_t turned = m_.rotary_dim, other = m_.head_dim - turned;
  int from = x;
  if (m_.q_lora_rank > 0) {
    from = linear(x, {.path = in_block("self_attn.q_a_proj"),
                      .in = m_.hidden,
                      .out = m_.q_lora_rank,
                      .bias = m_.attention_bias});
    from = latent_norm(from, "self_attn.q_a_layernorm");
  }
  const std::string_view q = m_.q_lora_rank > 0 ? "q_b_proj" : "q_proj";
  const auto of_heads = [&](int vectors, std::string_view matrix, std::string_view part,
                            std::int64_t first, std::int64_t width, std::int64_t both) {
    return latent_part(vectors, {matrix, part, m_.heads, both, first, width, Side::outputs});
  };
  const int q_other = of_heads(from, q, "q_nope_proj", 0, other, m_.head_dim);
  const int q_turned = of_heads(from, q, "q_rope_proj", other, turned, m_.head_dim);
  const std::string_view down = "kv_a_proj_with_mqa", up = "kv_b_proj";
  const std::int64_t rank = m_.kv_lora_rank, both = other + m_.v_head_dim;
  const auto of_all = [&](std::string_view part, std::int64_t first, std::int64_t width) {
    return latent_part(
        x, {down, part, 1, rank + turned, first, width, Side::whole, m_.attention_bias});
  };
  const int latent = latent_norm(of_all("kv_a_proj", 0, rank), "self_attn.kv_a_layernorm");
  const int k_turned = of_all("k_rope_proj", rank, turned);
  const int k_other = of_heads(latent, up, "k_nope_proj", 0, other, both);
  const int v = of_heads(latent, up, "v_proj", other, m_.v_head_dim, both);
  return {joined_heads(q_other, q_turned, m_.heads), joined_heads(k_other, k_turned, 1), v};
}

int GraphBuilder::attention(int x) {
  TensorIds qkv = m_.kv_lora_rank > 0            ? latent_qkv(x)
                  : names_.attention.qkv.empty() ? separate_qkv(x)
                                                 : packed_qkv(x);
  if (m_.relative_buckets > 0) qkv.push_back(relative_bias());
  if (m_.attention_sinks && training_.attention == AttentionKernel::unfused)
    throw InputError(unsupported("/training/attention",
                                 "'unfused' of a model with attention sinks is not supported yet"));
  if (m_.attention_sinks)
    qkv.push_back(parameter(in_block(names_.sinks), {m_.heads}, Initial::zeros, {0, {m_.heads}}));
  const int gate = names_.attention_gate.empty()
                       ? -1
                       : linear(x, {in_block(names_.attention_gate), m_.hidden,
                                    std::int64_t{m_.heads} * m_.head_dim, Side::outputs, false});
  return attention(qkv, in_block(names_.attention.module), in_block(names_.attention.out),
                   m_.is_causal() || encoded_ >= 0, gate);
}

// sigmoid(g) = (1 + tanh(g / 2)) / 2
int GraphBuilder::gated(int x, int gate, const std::string& path) {
  const int share = apply(Op::tanh, path, {times(gate, path, 0.5)}, attributes());
  const int part = apply(Op::multiply, path, {x, share}, attributes());
  return times(apply(Op::add, path, {x, part}, attributes()), path, 0.5);
}

int GraphBuilder::inner_norm(int x, std::string_view name) {
  if (name.empty()) return x;
  const std::string path = in_block(name);
  const std::int64_t width = graph_.tensor(x).type.shape[1];
  return apply(Op::rms_norm, path, {x, norm_weight(path, width, {0, {width}})}, norm_attributes());
}

int GraphBuilder::relative_bias() {
  const std::string first = in_stack(names_.block) + ".0.";
  return parameter(first + std::string(names_.relative_bias) + ".weight",
                   {m_.relative_buckets, m_.heads}, Initial::normal, {1, {m_.heads}});
}

int GraphBuilder::cross_attention(int x) {
  const auto path = [&](std::string_view name) {
    return in_block(names_.cross_attention) +
           std::string(name.substr(names_.attention.module.size()));
  };
  const int q = project(x, path(names_.attention.q), m_.heads);
  const int k = project(encoded_, path(names_.attention.k), m_.kv_heads);
  const int v = project(encoded_, path(names_.attention.v), m_.kv_heads);
  return attention({q, k, v}, path(names_.attention.module), path(names_.attention.out), false);
}

int GraphBuilder::attention(const TensorIds& qkv, const std::string& path,
                            const std::string& out_path, bool causal, int gate) {
  Attributes a = attributes();
  a.heads = m_.heads;
  a.kv_heads = m_.kv_heads;
  a.head_dim = m_.head_dim;
  a.packing = names_.packing;
  a.attention = training_.attention;
  a.causal = causal;
  a.alibi = m_.alibi;
  a.alibi_heads = m_.alibi ? m_.heads : 0;
  a.sinks = m_.attention_sinks;
  a.relative_buckets = qkv.size() > 3 ? m_.relative_buckets : 0;
  a.relative_distance = m_.relative_distance;
  a.scaled_scores = names_.scaled_scores;
  a.score_width = m_.score_width;
  // Blocks with a window and a rotary base of their own have no YaRN, and so no temperature of it.
  const bool without_yarn = m_.rotary_yarn && window_ > 0 && m_.local_rotary_base > 0;
  a.score_factor = without_yarn ? 1 : m_.score_factor;
  a.value_dim = m_.kv_lora_rank > 0 ? m_.v_head_dim : 0;
  a.score_cap = m_.score_cap;
  a.window = causal ? window_ : 0;
  a.chunk = causal ? chunk_ : 0;
  set_dropout(a, path + ".dropout");
  TensorIds inputs = qkv;
  tell_documents(inputs, a);
  if (a.documents) a.document_share = document_share(training_.documents_per_row.value_or(1));
  int y = apply(Op::attention, path, inputs, a);
  if (gate >= 0) y = gated(y, gate, path);
  y = inner_norm(y, names_.attention_inner_norm);
  const bool only_bias = !names_.last_out_bias.empty() && block_ == m_.layers - 1;
  const int out = linear(y, {.path = out_path,
                             .in = std::int64_t{m_.heads} * value_dim_of(a),
                             .out = m_.hidden,
                             .side = Side::inputs,
                             .bias = m_.attention_out_bias,
                             .residual = true,
                             .weight_in_out = names_.weight_in_out,
                             .bias_name = only_bias ? in_block(names_.last_out_bias) : ""});
  return dropout(out, out_path);
}

}  // namespace meshwright::architectures
