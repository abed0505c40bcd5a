// Recognizes attention and rotary positions in the matmuls, masks and slices that they are exported
// as.
#include <cmath>

#include "models/architectures/onnx/trace.h"
#include "models/core/error.h"
#include "models/program/graph/attributes.h"

namespace meshwright::architectures {

namespace {

constexpr double hidden_below = -1e4;  // masks add at most this to a score to hide it

struct MaskShape {
  bool causal = false;
  int window = 0;
};

// Returns the mask that `sees(query, key)` describes for s tokens: all keys, the keys up to the
// query, or a window of these. Returns nothing for any other mask.
template <class Sees>
std::optional<MaskShape> mask_shape(std::int64_t s, Sees sees) {
  MaskShape shape;
  shape.causal = s > 1 && !sees(0, s - 1);
  if (shape.causal) {
    std::int64_t width = 0;  // keys that the last query sees
    while (width < s && sees(s - 1, s - 1 - width)) ++width;
    if (width == 0) return std::nullopt;
    if (width < s) shape.window = static_cast<int>(width);
  }
  for (std::int64_t query = 0; query < s; ++query)
    for (std::int64_t key = 0; key < s; ++key) {
      const bool in_window = shape.window == 0 || key > query - shape.window;
      if (sees(query, key) != (!shape.causal || (key <= query && in_window))) return std::nullopt;
    }
  return shape;
}

// Returns the form of a mask that is equal for all heads and sequences, or nothing if it has no
// known form. Its shape is [..., rows, s], where `rows` is s, or 1 for all queries. An additive
// mask has a very negative number for a hidden key, another one has 0.
std::optional<MaskShape> shape_of_mask(const Known& mask, std::int64_t s, bool additive) {
  if (mask.dims.empty() || mask.dims.back() != s) return std::nullopt;
  const std::int64_t rows = mask.dims.size() > 1 ? mask.dims[mask.dims.size() - 2] : 1;
  if (rows != s && rows != 1) return std::nullopt;
  const auto block = static_cast<std::size_t>(rows * s);
  for (std::size_t i = 0; i < mask.values.size(); ++i) {
    if (mask.values[i] != mask.values[i % block]) return std::nullopt;
    if (additive && mask.values[i] != 0 && !(mask.values[i] <= hidden_below)) return std::nullopt;
  }
  return mask_shape(s, [&](std::int64_t query, std::int64_t key) {
    const double value = mask.values[static_cast<std::size_t>((rows == 1 ? 0 : query) * s + key)];
    return additive ? value == 0 : value != 0;
  });
}

using Index = OnnxView::Index;

// Returns whether a dimension shows `size` elements with this stride, and nothing else.
bool shows(const OnnxView::Dimension& dimension, std::int64_t size, std::int64_t stride) {
  if (size == 1) return dimension.empty();
  return dimension.size() == 1 && dimension[0] == Index{size, stride};
}

// Describes how one dimension shows heads: `heads` of them, `stride` elements apart, each shown
// `repeats` times, because a head of keys or values serves a group of heads of queries.
struct HeadsView {
  std::int64_t heads = 0, stride = 0, repeats = 1;
};

std::optional<HeadsView> heads_of(const OnnxView::Dimension& dimension, std::int64_t width) {
  if (dimension.empty()) return HeadsView{1, width, 1};
  const Index& first = dimension[0];
  if (dimension.size() == 1 && first.stride != 0) return HeadsView{first.size, first.stride, 1};
  if (dimension.size() == 1) return HeadsView{1, width, first.size};
  if (dimension.size() == 2 && first.stride != 0 && dimension[1].stride == 0)
    return HeadsView{first.size, first.stride, dimension[1].size};
  return std::nullopt;
}

// Describes a value [b, heads, s, width] whose heads are side by side in a matrix [b * s, columns],
// the first one from column `begin` on.
struct HeadColumns {
  int expression = -1;
  std::int64_t begin = 0, columns = 0, width = 0;
  HeadsView heads;
};

std::optional<HeadColumns> head_columns(const OnnxValue& value, const OnnxExpression& of,
                                        std::int64_t b, std::int64_t s, bool keys_last) {
  if (value.view.dims.size() != 4 || value.dims[0] != b) return std::nullopt;
  const std::size_t tokens = keys_last ? 3 : 2, width = keys_last ? 2 : 3;
  HeadColumns result;
  result.expression = value.expression;
  result.begin = value.view.offset;
  result.columns = element_count(of.dims) / (b * s);
  result.width = value.dims[width];
  const std::optional<HeadsView> heads = heads_of(value.view.dims[1], result.width);
  if (!heads || value.dims[tokens] != s) return std::nullopt;
  result.heads = *heads;
  if (!shows(value.view.dims[0], b, s * result.columns) ||
      !shows(value.view.dims[tokens], s, result.columns) ||
      !shows(value.view.dims[width], result.width, 1))
    return std::nullopt;
  return result;
}

// Returns how queries, keys and values are packed in the matrices that they are columns of. Returns
// nothing for a packing that is not known.
std::optional<Packing> packing_of(const HeadColumns& q, const HeadColumns& k,
                                  const HeadColumns& v) {
  const std::int64_t d = q.width, heads = q.heads.heads, kv = k.heads.heads;
  const bool one = q.expression == k.expression && k.expression == v.expression;
  const bool apart = q.heads.stride == d && k.heads.stride == d && v.heads.stride == d;
  if (!one) {
    const bool whole = q.begin == 0 && k.begin == 0 && v.begin == 0 && q.columns == heads * d &&
                       k.columns == kv * d && v.columns == kv * d;
    if (apart && whole) return Packing::separate;
    return std::nullopt;
  }
  if (apart && q.begin == 0 && k.begin == heads * d && v.begin == (heads + kv) * d &&
      q.columns == (heads + 2 * kv) * d)
    return Packing::concatenated;
  const bool together =
      q.heads.stride == 3 * d && k.heads.stride == 3 * d && v.heads.stride == 3 * d;
  if ((together || heads == 1) && kv == heads && q.begin == 0 && k.begin == d && v.begin == 2 * d &&
      q.columns == 3 * heads * d)
    return Packing::per_head;
  return std::nullopt;
}

// Returns the base of rotary positions from the cosines and sines of their angles, [..., s, d] or
// [..., s, d / 2]. The angle of pair i at position p is p * base^(-2i/d), and the first half of a
// row of d repeats in the second. Returns nothing if the tensors have other values.
std::optional<double> rotary_base_of(const Known& cosine, const Known& sine, std::int64_t s,
                                     std::int64_t d) {
  const auto fits = [&](const Known& known) {
    return known.dims.size() >= 2 && known.dims.back() == cosine.dims.back() &&
           known.dims[known.dims.size() - 2] == s && !known.values.empty();
  };
  if (!fits(cosine) || !fits(sine) || d % 2 != 0 || s < 2) return std::nullopt;
  const std::int64_t columns = cosine.dims.back();
  if (columns != d && columns != d / 2) return std::nullopt;
  const auto block = static_cast<std::size_t>(s * columns);
  const auto at = [&](const Known& known, std::int64_t position, std::int64_t i) {
    return known.values[static_cast<std::size_t>(position * columns + i)];
  };
  double base = 10000;
  if (d > 2) {
    // The last angle is the smallest, so at position 1 it is below a full turn and atan2 returns
    // it.
    const std::int64_t last = d / 2 - 1;
    const double angle = std::atan2(at(sine, 1, last), at(cosine, 1, last));
    if (!(angle > 0)) return std::nullopt;
    base = std::pow(angle, -static_cast<double>(d) / (2.0 * static_cast<double>(last)));
    if (!std::isfinite(base)) return std::nullopt;
    if (std::abs(base - std::round(base)) < 1e-3 * base) base = std::round(base);
    // fp32 leaves six digits of the base, so it is rounded to a number with few digits if one is
    // near.
    for (double unit = 1; unit <= base; unit *= 10)
      if (std::abs(base - std::round(base / unit) * unit) < 1e-5 * base)
        base = std::round(base / unit) * unit;
  }
  constexpr double most_error = 2e-4;
  for (std::size_t i = 0; i < std::max(cosine.values.size(), sine.values.size()); ++i) {
    const auto position = static_cast<std::int64_t>(i % block) / columns;
    const auto pair = static_cast<std::int64_t>(i % block) % columns % (d / 2);
    const double angle = static_cast<double>(position) *
                         std::pow(base, -2.0 * static_cast<double>(pair) / static_cast<double>(d));
    const double tolerated = most_error * std::max(1.0, static_cast<double>(position) / 100);
    if (i < cosine.values.size() && !(std::abs(cosine.values[i] - std::cos(angle)) < tolerated))
      return std::nullopt;
    if (i < sine.values.size() && !(std::abs(sine.values[i] - std::sin(angle)) < tolerated))
      return std::nullopt;
  }
  return base;
}

}  // namespace

OnnxValue OnnxTracer::matrix_product(const OnnxValue& a, const OnnxValue& b) {
  if (a.is_traced() && b.is_weight()) return linear(a, b);
  if (!a.is_traced() || !b.is_traced())
    throw InputError("a product with a constant, or with a weight before it, is not known");
  if (std::optional<OnnxValue> attention = as_attention(a, b)) return *attention;
  if (a.dims.size() < 2 || a.dims.size() != b.dims.size() ||
      a.dims.back() != b.dims[b.dims.size() - 2])
    throw InputError("multiplies matrices that do not fit");
  OnnxExpression e;
  e.form = OnnxForm::product;
  e.inputs = {a, b};
  e.dims = broadcast(OnnxDims(a.dims.begin(), a.dims.end() - 2),
                     OnnxDims(b.dims.begin(), b.dims.end() - 2));
  e.dims.push_back(a.dims[a.dims.size() - 2]);
  e.dims.push_back(b.dims.back());
  return make(std::move(e));
}

OnnxValue OnnxTracer::softmax(const OnnxNode& node, const OnnxValue& x) {
  if (x.dims.empty() || axis_of(node.integer("axis", -1), x.dims.size()) + 1 != x.dims.size())
    throw InputError("a softmax over another dimension than the last is not known");
  OnnxExpression e;
  e.form = OnnxForm::softmax;
  e.inputs = {x};
  e.dims = x.dims;
  return make(std::move(e));
}

std::optional<OnnxValue> OnnxTracer::masked(const OnnxValue& scores, const Known& mask) {
  const bool of_scores = scores.dims.size() >= 2 && scores.dims.back() == sequence_ &&
                         scores.dims[scores.dims.size() - 2] == sequence_;
  const std::optional<MaskShape> shape =
      of_scores ? shape_of_mask(mask, sequence_, true) : std::nullopt;
  if (!shape) return std::nullopt;
  OnnxExpression e;
  e.form = OnnxForm::masked;
  e.inputs = {scores};
  e.dims = scores.dims;
  e.causal = shape->causal;
  e.window = shape->window;
  return make(std::move(e));
}

// Returns the masked scores of Where(seen, scores, very negative), whose last two inputs may be
// swapped. If all scores are seen, returns them as they are. Throws InputError for any other
// choice.
OnnxValue OnnxTracer::where(const Values& inputs) {
  if (inputs[0].is_traced() || !inputs[0].known)
    throw InputError("a choice that depends on the tokens is not known");
  const bool first = inputs[1].is_traced();
  if (first == inputs[2].is_traced())
    throw InputError("a choice between two tensors that depend on the tokens is not known");
  const OnnxValue& scores = inputs[first ? 1 : 2];
  const KnownPtr other = known_of(inputs[first ? 2 : 1]);
  Known mask = *inputs[0].known;
  bool all = true;
  for (double& value : mask.values) {
    const bool seen = (value != 0) == first;
    all = all && seen;
    value = seen ? 0 : -INFINITY;
  }
  if (all && broadcast(scores.dims, broadcast(mask.dims, other->dims)) == scores.dims)
    return scores;
  for (const double value : other->values)
    if (!(value <= hidden_below)) throw InputError("a choice that masks no scores is not known");
  std::optional<OnnxValue> result = masked(scores, mask);
  if (!result) throw InputError("this mask is neither causal nor a window of earlier tokens");
  return *result;
}

// Reads the operation Attention (operator set 23) as the operations that it stands for.
OnnxValue OnnxTracer::attention(const OnnxNode& node, const Values& inputs) {
  for (const char* name : {"softcap", "qk_matmul_output_mode"})
    if (node.real(name, 0) != 0 || node.integer(name, 0) != 0)
      throw InputError("attention with " + std::string(name) + " is not known");
  const auto is_given = [&](std::size_t i) {
    return i < inputs.size() &&
           (inputs[i].is_traced() || inputs[i].is_weight() || inputs[i].known != nullptr);
  };
  if (!is_given(2) || is_given(4) || is_given(5) || is_given(6))
    throw InputError("attention is known of queries, keys, values and a mask");
  const bool joined = inputs[0].dims.size() == 3;
  Values heads(inputs.begin(), inputs.begin() + 3);
  for (std::size_t i = 0; i < 3; ++i) {
    if (!heads[i].is_traced() || heads[i].dims.size() != (joined ? 3U : 4U))
      throw InputError("attention with operands of these shapes is not known");
    if (!joined) continue;
    const std::int64_t count = node.integer(i == 0 ? "q_num_heads" : "kv_num_heads", 0);
    if (count < 1) throw InputError("attention without a number of heads is not known");
    heads[i] = reshaped_to(heads[i],
                           {heads[i].dims[0], heads[i].dims[1], count, heads[i].dims[2] / count});
    heads[i] = with_view(heads[i], transposed(heads[i].view, {0, 2, 1, 3}));
  }
  const OnnxDims q = heads[0].dims;
  for (std::size_t i = 1; i < 3; ++i) {  // a head of keys and values serves several of queries
    const OnnxDims dims = heads[i].dims;
    if (dims[1] < 1 || q[1] % dims[1] != 0)
      throw InputError("attention with these heads is not known");
    const OnnxDims grouped = {dims[0], dims[1], q[1] / dims[1], dims[2], dims[3]};
    heads[i] = reshaped_to(heads[i], {dims[0], dims[1], 1, dims[2], dims[3]});
    heads[i] = with_view(heads[i], expanded(heads[i].view, grouped));
    heads[i] = reshaped_to(heads[i], {dims[0], q[1], dims[2], dims[3]});
  }
  const OnnxValue keys = with_view(heads[1], transposed(heads[1].view, {0, 1, 3, 2}));
  const double usual = 1 / std::sqrt(static_cast<double>(q[3]));
  OnnxValue scores = scaled(matrix_product(heads[0], keys), node.real("scale", usual));
  if (node.integer("is_causal", 0) != 0) {
    OnnxExpression e;
    e.form = OnnxForm::masked;
    e.inputs = {scores};
    e.dims = scores.dims;
    e.causal = true;
    scores = make(std::move(e));
  }
  if (is_given(3)) {
    OnnxValue hidden;
    hidden.known = std::make_shared<const Known>(Known{{}, KnownKind::real, {-INFINITY}});
    scores = inputs[3].kind == KnownKind::boolean ? where({inputs[3], scores, hidden})
                                                  : add(scores, inputs[3]);
  }
  OnnxNode last;
  last.op = "Softmax";
  const OnnxValue result = matrix_product(softmax(last, scores), heads[2]);
  if (!joined) return result;
  return reshaped_to(with_view(result, transposed(result.view, {0, 2, 1, 3})),
                     {q[0], q[2], q[1] * q[3]});
}

OnnxValue OnnxTracer::joined(const OnnxNode& node, const Values& inputs) {
  OnnxExpression e;
  e.form = OnnxForm::joined;
  for (const OnnxValue& input : inputs)
    if (!input.is_traced() || input.dims.size() != inputs[0].dims.size())
      throw InputError("joins what does not depend on the tokens with what does");
  const std::size_t rank = inputs[0].dims.size();
  if (rank == 0 || axis_of(node.integer("axis", 0), rank) + 1 != rank)
    throw InputError("joins tensors along another dimension than the last");
  if (inputs.size() == 2)
    if (std::optional<OnnxValue> heads = as_partly_rotated(inputs[0], inputs[1])) return *heads;
  e.inputs = inputs;
  e.dims = inputs[0].dims;
  e.dims.back() = 0;
  for (const OnnxValue& input : inputs) e.dims.back() += input.dims.back();
  return make(std::move(e));
}

// Recognizes rotary positions: x cos + (-x2, x1) sin, where x1 and x2 are the halves of x. They
// rotate the pairs (i, i + d/2). Returns nothing if a + b has another form.
std::optional<OnnxValue> OnnxTracer::as_rope(const OnnxValue& a, const OnnxValue& b) {
  const OnnxExpression* cosine = as(a, OnnxForm::times_known);
  const OnnxExpression* sine = as(b, OnnxForm::times_known);
  const OnnxExpression* turned = sine ? as(sine->inputs[0], OnnxForm::joined) : nullptr;
  if (cosine == nullptr || turned == nullptr || turned->inputs.size() != 2) return std::nullopt;
  const OnnxValue x = cosine->inputs[0];
  const OnnxExpression* minus = as(turned->inputs[0], OnnxForm::negate);
  if (minus == nullptr || x.dims.size() != 4 || x.dims[2] != sequence_) return std::nullopt;
  const std::int64_t width = x.dims[3];
  const std::optional<OnnxView> low = sliced(x.view, 3, 0, width / 2);
  const std::optional<OnnxView> high = sliced(x.view, 3, width / 2, width - width / 2);
  if (width % 2 != 0 || !low || !high || turned->inputs[1].expression != x.expression ||
      minus->inputs[0].expression != x.expression || turned->inputs[1].view != *low ||
      minus->inputs[0].view != *high)
    return std::nullopt;
  return rotated(x, *cosine->inputs[1].known, *sine->inputs[1].known);
}

// Returns x as a view of a new matrix, in which the columns that x shows are rotated: the heads of
// queries or keys, or the first columns of each head. Throws InputError for other views and angles.
OnnxValue OnnxTracer::rotated(const OnnxValue& x, const Known& cosine, const Known& sine) {
  const std::optional<HeadColumns> columns = head_columns(x, at(x), batch_, sequence_, false);
  if (!columns || columns->heads.repeats != 1)
    throw InputError("rotary positions of a part of a matrix are not known");
  const std::optional<double> base = rotary_base_of(cosine, sine, sequence_, columns->width);
  if (!base)
    throw InputError("rotary angles are not position * base^(-2i/" +
                     std::to_string(columns->width) + "); scaled rotary positions are not known");
  OnnxExpression e;
  e.form = OnnxForm::rope;
  e.inputs = {whole(x.expression)};
  e.dims = at(x).dims;
  e.rotated = x.view;
  e.heads = static_cast<int>(columns->heads.heads);
  e.head_dim = static_cast<int>(columns->columns / columns->heads.heads);
  e.rotary_dim = static_cast<int>(columns->width);
  e.rotary_base = *base;
  e.is_part = columns->begin != 0 || e.head_dim * columns->heads.heads != columns->columns ||
              (e.heads > 1 && columns->heads.stride != e.head_dim);
  OnnxValue result = make(std::move(e));
  result.view = x.view;
  result.dims = x.dims;
  return result;
}

// Reads the operation RotaryEmbedding (operator set 23).
OnnxValue OnnxTracer::rotary_embedding(const OnnxNode& node, const Values& inputs) {
  if (node.integer("interleaved", 0) != 0 || node.integer("rotary_embedding_dim", 0) != 0 ||
      inputs.size() != 3 || inputs[0].dims.size() != 4)
    throw InputError("rotary positions in this form are not known");
  return rotated(inputs[0], *known_of(inputs[1]), *known_of(inputs[2]));
}

// Returns the heads of which `first` has the rotated columns and `second` the others, or nothing.
std::optional<OnnxValue> OnnxTracer::as_partly_rotated(const OnnxValue& first,
                                                       const OnnxValue& second) const {
  const OnnxExpression& rope = at(first);
  if (rope.form != OnnxForm::rope || rope.inputs[0].expression != second.expression ||
      first.dims.size() != 4 || first.view != rope.rotated)
    return std::nullopt;
  const std::int64_t turned = first.dims[3], others = second.dims[3];
  OnnxView all = first.view;
  all.dims[3] = {{turned + others, 1}};
  if (sliced(all, 3, 0, turned) != first.view || sliced(all, 3, turned, others) != second.view)
    return std::nullopt;
  return with_view(first, all);
}

// Returns the matrix of queries, keys and values that `attention` reads: that of v, in which the
// queries and keys are rotated if q and k are. Throws InputError if they are rotated differently.
OnnxValue OnnxTracer::rotated_together(const OnnxValue& q, const OnnxValue& k, const OnnxValue& v,
                                       const OnnxExpression& attention) {
  const OnnxExpression queries = at(q), keys = at(k);
  if (q.expression == v.expression && k.expression == v.expression) return whole(v.expression);
  const auto begin = [](const OnnxExpression& rope) { return rope.rotated.offset; };
  if (queries.form != OnnxForm::rope || keys.form != OnnxForm::rope ||
      queries.rotary_base != keys.rotary_base || queries.rotary_dim != keys.rotary_dim ||
      queries.heads != attention.heads || keys.heads != attention.kv_heads ||
      begin(queries) != q.view.offset || begin(keys) != k.view.offset)
    throw InputError("attention with queries and keys that are rotated differently is not known");
  OnnxExpression e = queries;
  e.inputs = {whole(v.expression)};
  e.kv_heads = attention.kv_heads;
  e.head_dim = attention.head_dim;
  e.packing = attention.packing;
  e.is_part = false;
  return make(std::move(e));
}

// Recognizes attention: softmax(mask(q k^T / sqrt d)) v. The factor may be on the scores, or on q
// and k, or be 1. Returns nothing if `weights` is not a softmax. Throws InputError if the rest has
// another form.
std::optional<OnnxValue> OnnxTracer::as_attention(const OnnxValue& weights, const OnnxValue& v) {
  const OnnxExpression* probabilities = as(weights, OnnxForm::softmax);
  if (probabilities == nullptr) return std::nullopt;
  OnnxExpression e;
  e.form = OnnxForm::attention;
  OnnxValue scores = probabilities->inputs[0];
  double factor = 1;
  for (int step = 0; step < 4; ++step) {
    if (const OnnxExpression* mask = as(scores, OnnxForm::masked)) {
      if (mask->causal && e.causal && mask->window != e.window)
        throw InputError("two masks of different windows are not known");
      e.causal = e.causal || mask->causal;
      e.window = std::max(e.window, mask->window);
      scores = mask->inputs[0];
    } else if (const OnnxExpression* scale = as(scores, OnnxForm::scale)) {
      factor *= scale->number;
      scores = scale->inputs[0];
    }
  }
  const OnnxExpression* product = as(scores, OnnxForm::product);
  if (product == nullptr) throw InputError("attention whose scores are no product is not known");
  const auto unscaled = [&](OnnxValue value) {
    while (at(value).form == OnnxForm::scale) {
      factor *= at(value).number;
      value.expression = at(value).inputs[0].expression;
    }
    return value;
  };
  const OnnxValue q = unscaled(product->inputs[0]), k = unscaled(product->inputs[1]);
  std::optional<HeadColumns> queries = head_columns(q, at(q), batch_, sequence_, false);
  std::optional<HeadColumns> keys = head_columns(k, at(k), batch_, sequence_, true);
  const std::optional<HeadColumns> values = head_columns(v, at(v), batch_, sequence_, false);
  const bool fits = queries && keys && values && queries->heads.repeats == 1 &&
                    queries->width == keys->width && keys->width == values->width &&
                    keys->heads.heads == values->heads.heads &&
                    keys->heads.repeats == values->heads.repeats &&
                    keys->heads.heads * keys->heads.repeats == queries->heads.heads;
  if (!fits) throw InputError("attention with heads of this layout is not known");
  for (HeadColumns* each : {&*queries, &*keys}) {  // the matrix before its rotation
    const OnnxExpression& rope = expressions_[static_cast<std::size_t>(each->expression)];
    if (rope.form == OnnxForm::rope && rope.inputs[0].expression == values->expression)
      each->expression = values->expression;
  }
  const std::optional<Packing> packing = packing_of(*queries, *keys, *values);
  if (!packing)
    throw InputError("attention with queries, keys and values of this layout is not known");
  const double usual = 1 / std::sqrt(static_cast<double>(queries->width));
  e.scaled = std::abs(factor - usual) < 1e-5 * usual;
  if (!e.scaled && factor != 1)
    throw InputError("attention with scores * " + std::to_string(factor) +
                     " is not known; known: 1 / sqrt(head width) and 1");
  e.heads = static_cast<int>(queries->heads.heads);
  e.kv_heads = static_cast<int>(keys->heads.heads);
  e.head_dim = static_cast<int>(queries->width);
  e.packing = static_cast<int>(*packing);
  if (*packing == Packing::separate) {
    for (const OnnxValue& each : {q, k})
      if (at(each).form == OnnxForm::rope && at(each).head_dim != e.head_dim)
        throw InputError("attention with heads of this layout is not known");
    e.inputs = {whole(q.expression), whole(k.expression), whole(v.expression)};
  } else {
    e.inputs = {rotated_together(q, k, v, e)};
  }
  const std::int64_t width = queries->width, heads = queries->heads.heads;
  e.dims = {batch_, sequence_, heads * width};
  OnnxValue result = make(std::move(e));
  result = reshaped_to(result, {batch_, sequence_, heads, width});
  return with_view(result, transposed(result.view, {0, 2, 1, 3}));
}

}  // namespace meshwright::architectures
