// Recognizes norms, activations, linear layers and sums. An elementwise operation on reordered
// tensors becomes the operation on the tensors in order, and its result is reordered, if all
// operands are reordered in the same way.
#include <array>
#include <cmath>

#include "models/architectures/onnx/trace.h"
#include "models/core/error.h"

namespace meshwright::architectures {

namespace {

constexpr double tolerance = 1e-5;  // for constants rounded to fp32; relative above 1

bool near(double a, double b) { return std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b)); }

// Returns whether the value is a vector of this length, apart from leading dimensions of 1.
bool is_vector(const OnnxValue& value, std::int64_t length) {
  return !value.dims.empty() && value.dims.back() == length && element_count(value.dims) == length;
}

bool all_are(const Known& known, double number) {
  for (const double value : known.values)
    if (value != number) return false;
  return true;
}

// Holds the coefficients of 1, x, x^2 and x^3 of a polynomial in x.
using Cubic = std::array<double, 4>;

Cubic product(const Cubic& a, const Cubic& b, bool& fits) {
  Cubic result{};
  for (std::size_t i = 0; i < 4; ++i)
    for (std::size_t k = 0; k < 4; ++k) {
      if (i + k < 4)
        result[i + k] += a[i] * b[k];
      else if (a[i] != 0 && b[k] != 0)
        fits = false;
    }
  return result;
}

// Returns `expression` as a polynomial in expression number `x`, or nothing if it is not recognized
// as one of degree 3 or less. `depth` bounds the recursion.
std::optional<Cubic> cubic_of(const std::vector<OnnxExpression>& all, int expression, int x,
                              int depth = 0) {
  if (expression == x) return Cubic{0, 1, 0, 0};
  if (depth > 8 || expression < 0) return std::nullopt;
  const OnnxExpression& e = all[static_cast<std::size_t>(expression)];
  const auto input = [&](std::size_t i) -> std::optional<Cubic> {
    const int from = e.inputs[i].expression;
    if (from < 0) return std::nullopt;
    const OnnxDims& dims = all[static_cast<std::size_t>(from)].dims;
    if (!is_in_order(e.inputs[i].view, element_count(dims))) return std::nullopt;
    return cubic_of(all, from, x, depth + 1);
  };
  switch (e.form) {
    case OnnxForm::scale:
    case OnnxForm::add_constant: {
      std::optional<Cubic> a = input(0);
      if (!a) return std::nullopt;
      if (e.form == OnnxForm::add_constant)
        (*a)[0] += e.number;
      else
        for (double& each : *a) each *= e.number;
      return a;
    }
    case OnnxForm::power: {
      const std::optional<Cubic> a = input(0);
      const Cubic only_x{0, 1, 0, 0};
      if (!a || *a != only_x) return std::nullopt;
      if (e.number == 2) return Cubic{0, 0, 1, 0};
      if (e.number == 3) return Cubic{0, 0, 0, 1};
      return std::nullopt;
    }
    case OnnxForm::add:
    case OnnxForm::multiply: {
      std::optional<Cubic> a = input(0);
      const std::optional<Cubic> b = input(1);
      if (!a || !b) return std::nullopt;
      bool fits = true;
      if (e.form == OnnxForm::multiply)
        a = product(*a, *b, fits);
      else
        for (std::size_t i = 0; i < 4; ++i) (*a)[i] += (*b)[i];
      if (!fits) return std::nullopt;
      return a;
    }
    default:
      return std::nullopt;
  }
}

}  // namespace

bool OnnxTracer::is_reordered(const OnnxValue& x) const {
  return is_permutation(x.view, element_count(at(x).dims));
}

OnnxValue OnnxTracer::unary(OnnxForm form, const OnnxValue& x, double number) {
  OnnxExpression e;
  e.form = form;
  e.number = number;
  // A scale is applied before any view, so that attention finds the view directly.
  if (!is_reordered(x) && form != OnnxForm::scale) {
    e.dims = x.dims;
    e.inputs = {x};
    return make(std::move(e));
  }
  e.inputs = {whole(x.expression)};
  e.dims = at(x).dims;
  OnnxValue result = make(std::move(e));
  result.view = x.view;
  result.dims = x.dims;
  return result;
}

OnnxValue OnnxTracer::binary(OnnxForm form, const OnnxValue& a, const OnnxValue& b) {
  const bool alike = is_reordered(a) && a.view == b.view && a.dims == b.dims &&
                     element_count(at(a).dims) == element_count(at(b).dims);
  OnnxExpression e;
  e.form = form;
  if (!alike) {
    e.dims = broadcast(a.dims, b.dims);
    e.inputs = {a, b};
    return make(std::move(e));
  }
  e.dims = at(a).dims;
  e.inputs = {whole(a.expression), whole(b.expression)};
  OnnxValue result = make(std::move(e));
  result.view = a.view;
  result.dims = a.dims;
  return result;
}

bool OnnxTracer::is_square_of(const OnnxValue& value, const OnnxValue& x) const {
  if (!value.is_traced() || value.view != x.view) return false;
  const OnnxExpression& e = at(value);
  const bool power = e.form == OnnxForm::power && e.number == 2;
  const bool times_itself = e.form == OnnxForm::multiply && same(e.inputs[0], e.inputs[1]);
  if (!power && !times_itself) return false;
  // `value` and x are the same view of the square and of x's expression, so the square has to be of
  // that expression's elements in order.
  const OnnxValue& of = e.inputs[0];
  return of.expression == x.expression &&
         (of.view == x.view || is_in_order(of.view, element_count(at(of).dims)));
}

std::optional<double> OnnxTracer::epsilon_of_root(const OnnxValue& root, const OnnxValue& x) const {
  const OnnxExpression* sqrt = as(root, OnnxForm::root);
  const OnnxExpression* sum = sqrt ? as(sqrt->inputs[0], OnnxForm::add_constant) : nullptr;
  const OnnxExpression* mean = sum ? as(sum->inputs[0], OnnxForm::mean) : nullptr;
  if (mean == nullptr || !is_square_of(mean->inputs[0], x)) return std::nullopt;
  return sum->number;
}

OnnxValue OnnxTracer::mean(const OnnxNode& node, const Values& inputs) {
  const OnnxValue& x = inputs[0];
  OnnxDims axes;
  if (const OnnxDims* given = node.integers("axes")) axes = *given;
  if (inputs.size() > 1 && inputs[1].known) axes = integers_of(*inputs[1].known);
  const bool of_last =
      axes.size() == 1 && !x.dims.empty() && axis_of(axes[0], x.dims.size()) + 1 == x.dims.size();
  if (!of_last || node.integer("keepdims", 1) == 0)
    throw InputError("a mean of anything but the last dimension, which stays, is not known");
  OnnxExpression e;
  e.form = OnnxForm::mean;
  e.inputs = {x};
  e.dims = x.dims;
  e.dims.back() = 1;
  return make(std::move(e));
}

// Reads LayerNormalization and RMSNormalization.
OnnxValue OnnxTracer::norm(const OnnxNode& node, const Values& inputs) {
  const OnnxValue& x = inputs[0];
  if (x.dims.empty() || axis_of(node.integer("axis", -1), x.dims.size()) + 1 != x.dims.size())
    throw InputError("a layer norm over more than the last dimension is not known");
  OnnxExpression e;
  e.form = node.op == "RMSNormalization" ? OnnxForm::rms_normalized : OnnxForm::normalized;
  e.number = node.real("epsilon", 1e-5);
  e.inputs = {x};
  e.dims = x.dims;
  if (inputs.size() < 2) throw InputError("has no scale");
  OnnxValue result = multiply(make(std::move(e)), inputs[1]);
  if (inputs.size() > 2 && (inputs[2].is_weight() || inputs[2].known))
    result = add(result, inputs[2]);
  return result;
}

OnnxValue OnnxTracer::gelu(const OnnxNode& node, const OnnxValue& x) {
  OnnxValue result = unary(OnnxForm::gelu, x);
  const auto approximate = node.attributes.find("approximate");
  expressions_[static_cast<std::size_t>(result.expression)].is_tanh =
      approximate != node.attributes.end() && approximate->second.s == "tanh";
  return result;
}

bool OnnxTracer::is_scores(const OnnxValue& x) const {
  const OnnxExpression* e = &at(x);
  while (e->form == OnnxForm::scale || e->form == OnnxForm::masked) e = &at(e->inputs[0]);
  return e->form == OnnxForm::product;
}

OnnxValue OnnxTracer::constant_of(const OnnxValue& weight) {
  OnnxValue constant = weight;
  constant.known = known_of(weight);
  constant.weight = -1;
  return constant;
}

OnnxValue OnnxTracer::add(const OnnxValue& a, const OnnxValue& b) {
  if (!a.is_traced()) return add(b, a);
  if (b.is_traced()) {
    if (std::optional<OnnxValue> rope = as_rope(a, b)) return *rope;
    if (std::optional<OnnxValue> rope = as_rope(b, a)) return *rope;
    return binary(OnnxForm::add, a, b);
  }
  // An exporter that knows the shape of a mask computes the mask, and stores it as it stores
  // weights.
  if (b.is_weight() && is_scores(a)) return add_known(a, constant_of(b));
  if (b.is_weight()) return add_weight(a, b);
  if (const std::optional<double> number = number_of(b)) {
    if (*number == 0 && broadcast(a.dims, b.dims) == a.dims) return a;
    return unary(OnnxForm::add_constant, a, *number);
  }
  if (!b.known) throw InputError("has an operand that is not given");
  return add_known(a, b);
}

// Adds a known tensor: zeros, rows of a table (positions, the token type), or a mask. Throws
// InputError for others.
OnnxValue OnnxTracer::add_known(const OnnxValue& x, const OnnxValue& known) {
  if (broadcast(x.dims, known.dims) != x.dims)
    throw InputError("adds a constant that repeats what it is added to");
  if (known.rows_of >= 0) {
    OnnxExpression e;
    OnnxValue table;
    table.weight = known.rows_of;
    table.weight_name = known.weight_name;
    table.dims = file_.weights[static_cast<std::size_t>(known.rows_of)].dims;
    e.form = known.rows_run ? OnnxForm::add_position : OnnxForm::add_row;
    if (known.rows_run && known.dims[known.dims.size() - 2] != sequence_)
      throw InputError("adds rows of a table that are not one for each position");
    e.first = known.first_row;
    if (!known.rows_run && e.first != 0)
      throw InputError("adds row " + std::to_string(e.first) +
                       " of a table to all tokens; only "
                       "the first is known");
    e.inputs = {x, table};
    e.dims = x.dims;
    return make(std::move(e));
  }
  if (all_are(*known.known, 0)) return x;
  if (std::optional<OnnxValue> scores = masked(x, *known.known)) return *scores;
  throw InputError("adds a constant that is no bias, no rows of a table and no mask");
}

// Exporters that know batch and length store the rows of a table that are added to the tokens, in
// place of the table. A row of zeros that repeats is taken for a table of positions.
std::int64_t OnnxTracer::rows_before_repeats(const OnnxValue& weight) {
  const std::int64_t width = weight.dims.back(), all = element_count(weight.dims);
  if (all > most_known) return all / width;
  const std::vector<double>& values = known_of(weight)->values;
  const auto repeats_after = [&](std::int64_t rows) {
    return std::equal(values.begin() + rows * width, values.end(), values.begin());
  };
  if (repeats_after(1) && !all_are(*known_of(weight), 0)) return 1;
  return repeats_after(sequence_) ? sequence_ : all / width;
}

OnnxValue OnnxTracer::add_weight(const OnnxValue& x, const OnnxValue& weight) {
  if (x.dims.empty() || broadcast(x.dims, weight.dims) != x.dims || weight.one_plus)
    throw InputError("adds a weight of another shape");
  const std::int64_t width = x.dims.back();
  OnnxExpression e;
  if (is_vector(weight, width)) {
    for (const OnnxForm form : {OnnxForm::linear, OnnxForm::layer_norm}) {
      const OnnxExpression* before = as(x, form);
      if (before == nullptr || before->inputs.size() != 2 || before->dims.back() != width) continue;
      e = *before;
      e.inputs.push_back(weight);
      OnnxValue result = make(std::move(e));
      result.view = x.view;
      result.dims = x.dims;
      return result;
    }
    e.form = OnnxForm::add_bias;
  } else {
    const bool of_positions = weight.dims.size() >= 2 && !weight.transposed &&
                              weight.dims.back() == width &&
                              weight.dims[weight.dims.size() - 2] == sequence_;
    const std::int64_t rows = of_positions ? rows_before_repeats(weight) : 0;
    if (rows != 1 && rows != sequence_)
      throw InputError("adds a weight that is neither a bias nor one row for each position");
    e.form = rows == 1 ? OnnxForm::add_row : OnnxForm::add_position;
    OnnxValue table = weight;
    table.dims = {rows, width};
    e.inputs = {x, table};
    e.dims = x.dims;
    return make(std::move(e));
  }
  e.inputs = {x, weight};
  e.dims = x.dims;
  return make(std::move(e));
}

OnnxValue OnnxTracer::scaled(const OnnxValue& x, double factor) {
  if (factor == 1) return x;
  if (is_reordered(x)) {
    Values factors;
    double number = factor;
    factors_of(whole(x.expression), number, factors);
    if (std::optional<OnnxValue> gelu = as_gelu(number, factors)) {
      gelu->view = x.view;
      gelu->dims = x.dims;
      return *gelu;
    }
  }
  return unary(OnnxForm::scale, x, factor);
}

OnnxValue OnnxTracer::multiply(const OnnxValue& a, const OnnxValue& b) {
  if (!a.is_traced()) return multiply(b, a);
  if (b.is_traced()) return product_of(OnnxForm::multiply, a, b);
  if (const std::optional<double> number = number_of(b)) {
    if (broadcast(a.dims, b.dims) != a.dims) return scaled(reshaped_to(a, b.dims), *number);
    return scaled(a, *number);
  }
  if (b.is_weight()) return multiply_weight(a, b);
  if (!b.known) throw InputError("has an operand that is not given");
  if (broadcast(a.dims, b.dims) != a.dims)
    throw InputError("multiplies with a constant that repeats what it is multiplied with");
  if (all_are(*b.known, 1)) return a;
  OnnxExpression e;
  e.form = OnnxForm::times_known;
  e.inputs = {a, b};
  e.dims = a.dims;
  return make(std::move(e));
}

OnnxValue OnnxTracer::multiply_weight(const OnnxValue& x, const OnnxValue& weight) {
  // A tensor of another shape is taken for a constant and not for a weight, such as rotary angles
  // that were computed before the export.
  if (x.dims.empty() || !is_vector(weight, x.dims.back())) return multiply(x, constant_of(weight));
  OnnxExpression e;
  e.form = OnnxForm::scale_columns;
  e.inputs = {x, weight};
  e.dims = x.dims;
  e.one_plus = weight.one_plus;
  for (const OnnxForm form : {OnnxForm::normalized, OnnxForm::rms_normalized}) {
    const OnnxExpression* before = as(x, form);
    if (before == nullptr || before->dims.back() != x.dims.back()) continue;
    e.form = form == OnnxForm::normalized ? OnnxForm::layer_norm : OnnxForm::rms_norm;
    e.number = before->number;
    e.inputs[0] = before->inputs[0];
    e.dims = before->dims;
    OnnxValue result = make(std::move(e));
    result.view = x.view;
    result.dims = x.dims;
    return result;
  }
  return make(std::move(e));
}

void OnnxTracer::factors_of(const OnnxValue& value, double& number, Values& factors,
                            int depth) const {
  constexpr int deepest = 6;  // bounds the recursion
  const OnnxExpression& e = at(value);
  const auto in_order = [&](const OnnxValue& input) {
    return is_in_order(input.view, element_count(at(input).dims));
  };
  if (depth < deepest && e.form == OnnxForm::scale) {
    number *= e.number;
    return factors_of(e.inputs[0], number, factors, depth + 1);
  }
  if (depth < deepest && e.form == OnnxForm::multiply && in_order(e.inputs[0]) &&
      in_order(e.inputs[1])) {
    factors_of(e.inputs[0], number, factors, depth + 1);
    return factors_of(e.inputs[1], number, factors, depth + 1);
  }
  factors.push_back(value);
}

// Recognizes gelu(x) = x/2 (1 + erf(x / sqrt 2)), or its approximation by Hendrycks and Gimpel
// (2016): x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))). Returns nothing if number * the product of
// `factors` has neither form.
std::optional<OnnxValue> OnnxTracer::as_gelu(double number, const Values& factors) {
  if (factors.size() != 2 || !near(number, 0.5)) return std::nullopt;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const OnnxValue& x = factors[1 - i];
    const OnnxExpression* sum = as(factors[i], OnnxForm::add_constant);
    if (sum == nullptr || !near(sum->number, 1)) continue;
    const OnnxExpression* erf = as(sum->inputs[0], OnnxForm::erf);
    const OnnxExpression* tanh = as(sum->inputs[0], OnnxForm::tanh);
    const OnnxExpression* of = erf != nullptr ? erf : tanh;
    if (of == nullptr) continue;
    const std::optional<Cubic> inner =
        cubic_of(expressions_, of->inputs[0].expression, x.expression);
    const double root = std::sqrt(2 / 3.14159265358979323846);
    const Cubic wanted =
        erf != nullptr ? Cubic{0, std::sqrt(0.5), 0, 0} : Cubic{0, root, 0, root * 0.044715};
    if (!inner) continue;
    bool fits = true;
    for (std::size_t k = 0; k < 4; ++k) fits = fits && near((*inner)[k], wanted[k]);
    if (!fits) continue;
    OnnxExpression e;
    e.form = OnnxForm::gelu;
    e.is_tanh = tanh != nullptr && erf == nullptr;
    e.inputs = {whole(x.expression)};
    e.dims = at(x).dims;
    return make(std::move(e));
  }
  return std::nullopt;
}

// Returns the product of two tensors: an activation, a norm, or an elementwise product.
OnnxValue OnnxTracer::product_of(OnnxForm form, const OnnxValue& a, const OnnxValue& b) {
  for (const auto& [x, other] : {std::pair{a, b}, std::pair{b, a}}) {
    const OnnxExpression* inverse = as(other, OnnxForm::inverse);
    if (inverse == nullptr || inverse->number != 1) continue;
    const std::optional<double> epsilon = epsilon_of_root(inverse->inputs[0], x);
    if (!epsilon) continue;
    OnnxExpression e;
    e.form = OnnxForm::rms_normalized;
    e.number = *epsilon;
    e.inputs = {x};
    e.dims = x.dims;
    return make(std::move(e));
  }
  const bool alike = is_reordered(a) && is_reordered(b) && a.view == b.view && a.dims == b.dims;
  if (!alike) return binary(form, a, b);
  const OnnxValue x = whole(a.expression), y = whole(b.expression);
  const auto back = [&](OnnxValue value) {
    value.view = a.view;
    value.dims = a.dims;
    return value;
  };
  double number = 1;
  Values factors;
  factors_of(x, number, factors);
  factors_of(y, number, factors);
  if (std::optional<OnnxValue> gelu = as_gelu(number, factors)) return back(*gelu);
  for (const auto& [of, gate] : {std::pair{x, y}, std::pair{y, x}}) {
    const OnnxExpression* sigmoid = as(gate, OnnxForm::sigmoid);
    if (sigmoid != nullptr && same(sigmoid->inputs[0], of)) return back(unary(OnnxForm::silu, of));
  }
  for (const auto& [up, gate] : {std::pair{y, x}, std::pair{x, y}}) {
    const OnnxExpression* silu = as(gate, OnnxForm::silu);
    if (silu == nullptr) continue;
    OnnxExpression e;
    e.form = OnnxForm::swiglu;
    e.inputs = {silu->inputs[0], up};
    e.dims = at(up).dims;
    return back(make(std::move(e)));
  }
  return binary(form, a, b);
}

OnnxValue OnnxTracer::divide(const OnnxValue& a, const OnnxValue& b) {
  if (!b.is_traced()) {
    const std::optional<double> number = number_of(b);
    if (!number || *number == 0) throw InputError("divides by what is no number");
    return scaled(a, 1 / *number);
  }
  if (!a.is_traced()) {
    const std::optional<double> number = number_of(a);
    if (!number) throw InputError("divides a constant that is no number");
    return unary(OnnxForm::inverse, b, *number);
  }
  OnnxExpression e;
  e.dims = a.dims;
  // A layer norm is (x - mean x) / sqrt(mean (x - mean x)^2 + epsilon).
  const OnnxExpression* centred = as(a, OnnxForm::subtract);
  const std::optional<double> epsilon = epsilon_of_root(b, a);
  if (epsilon && centred != nullptr) {
    const OnnxExpression* of = as(centred->inputs[1], OnnxForm::mean);
    if (of != nullptr && same(of->inputs[0], centred->inputs[0])) {
      e.form = OnnxForm::normalized;
      e.number = *epsilon;
      e.inputs = {centred->inputs[0]};
      return make(std::move(e));
    }
  }
  if (epsilon) {
    e.form = OnnxForm::rms_normalized;
    e.number = *epsilon;
    e.inputs = {a};
    return make(std::move(e));
  }
  return binary(OnnxForm::divide, a, b);
}

OnnxValue OnnxTracer::subtract(const OnnxValue& a, const OnnxValue& b) {
  if (a.is_traced() && b.is_traced()) return binary(OnnxForm::subtract, a, b);
  const std::optional<double> number = number_of(a.is_traced() ? b : a);
  if (!number) throw InputError("subtracts a constant that is no number");
  if (a.is_traced()) return unary(OnnxForm::add_constant, a, -*number);
  return unary(OnnxForm::add_constant, unary(OnnxForm::scale, b, -1), *number);
}

OnnxValue OnnxTracer::linear(const OnnxValue& x, const OnnxValue& weight) {
  if (x.dims.empty() || weight.dims.size() != 2 || x.dims.back() != weight.dims[0])
    throw InputError("multiplies with a weight that does not fit");
  OnnxExpression e;
  e.form = OnnxForm::linear;
  e.inputs = {x, weight};
  e.dims = x.dims;
  e.dims.back() = weight.dims[1];
  return make(std::move(e));
}

OnnxValue OnnxTracer::gemm(const OnnxNode& node, const Values& inputs) {
  if (node.integer("transA", 0) != 0 || node.real("alpha", 1) != 1 || node.real("beta", 1) != 1)
    throw InputError("a Gemm with transA, alpha or beta is not known");
  if (!inputs[0].is_traced() || !inputs[1].is_weight() || inputs[1].dims.size() != 2)
    throw InputError("a Gemm is known with a matrix of weights as its second operand");
  OnnxValue weight = inputs[1];
  if (node.integer("transB", 0) != 0) {
    std::swap(weight.dims[0], weight.dims[1]);
    weight.transposed = !weight.transposed;
  }
  const OnnxValue result = linear(inputs[0], weight);
  const bool has_bias = inputs.size() > 2 && (inputs[2].is_weight() || inputs[2].known);
  return has_bias ? add(result, inputs[2]) : result;
}

}  // namespace meshwright::architectures
