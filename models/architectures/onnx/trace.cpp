#include "models/architectures/onnx/trace.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>

#include "models/core/error.h"

namespace meshwright::architectures {

namespace {

constexpr std::int64_t most_traced_batch = 64, most_traced_sequence = 2048;

OnnxValue known_value(Known known) {
  OnnxValue value;
  value.dims = known.dims;
  value.kind = known.kind;
  value.known = std::make_shared<const Known>(std::move(known));
  return value;
}

// Returns whether an initializer is taken for a weight: a tensor of more than one real number.
// Others are constants.
bool can_be_trained(const OnnxTensor& tensor) {
  return is_real(tensor.type) && tensor.elements() > 1;
}

bool names_a_parameter(const std::string& name) {
  return name.find('.') != std::string::npos && !name.starts_with("/") &&
         !name.starts_with("onnx::");
}

Known transposed_known(const Known& from) {
  Known result = from;
  std::swap(result.dims[0], result.dims[1]);
  const auto rows = static_cast<std::size_t>(result.dims[0]);
  const auto columns = static_cast<std::size_t>(result.dims[1]);
  for (std::size_t row = 0; row < rows; ++row)
    for (std::size_t column = 0; column < columns; ++column)
      result.values[row * columns + column] = from.values[column * rows + row];
  return result;
}

}  // namespace

const std::vector<std::string>& known_onnx_operations() {
  static const std::vector<std::string> names = [] {
    std::istringstream all(
        "Abs Add And Attention Cast Ceil Concat Constant ConstantOfShape Cos CumSum Div Dropout "
        "Equal Erf Exp Expand Flatten Floor Gather GatherElements GatherND Gelu Gemm Greater "
        "GreaterOrEqual Identity IsNaN LayerNormalization Less LessOrEqual Log MatMul Max Min "
        "Mod Mul Neg Not Or Pow RMSNormalization Range Reciprocal ReduceMean Relu Reshape "
        "RotaryEmbedding ScatterND Shape Sigmoid Sin Slice Softmax Split Sqrt Squeeze Sub Tanh "
        "Transpose Trilu Unsqueeze Where");
    return std::vector<std::string>(std::istream_iterator<std::string>(all), {});  // sorted
  }();
  return names;
}

OnnxTrace trace_onnx(const OnnxFile& file, std::int64_t sequence) {
  return OnnxTracer(file, sequence).trace();
}

OnnxTrace OnnxTracer::trace() {
  check_names();
  bind_inputs();
  if (file_.outputs.empty()) throw InputError(file_.path + ": has no output");
  const bool named = std::ranges::find(file_.outputs, "logits") != file_.outputs.end();
  const std::string output = named ? "logits" : file_.outputs.front();
  const std::vector<bool> needed = needed_nodes(output);
  for (std::size_t i = 0; i < file_.nodes.size(); ++i) {
    if (!needed[i]) continue;
    node_ = static_cast<int>(i);
    try {
      step(file_.nodes[i]);
    } catch (const InputError& error) {
      throw InputError(file_.path + ": node " + file_.nodes[i].name + ": " + error.what());
    }
  }
  OnnxTrace result;
  try {
    result.logits = value_of(output);
  } catch (const InputError& error) {
    throw InputError(file_.path + ": output " + output + ": " + error.what());
  }
  result.batch = batch_;
  result.sequence = sequence_;
  result.expressions = std::move(expressions_);
  return result;
}

void OnnxTracer::check_names() const {
  std::set<std::string_view> made;
  for (const OnnxInput& input : file_.inputs) made.insert(input.name);
  for (const OnnxNode& node : file_.nodes)
    for (const std::string& output : node.outputs)
      if (!output.empty() && (file_.weight_of.contains(output) || !made.insert(output).second))
        throw InputError(file_.path + ": node " + node.name + ": makes " + output +
                         ", which is there already");
}

void OnnxTracer::bind_inputs() {
  const auto tokens = std::ranges::find(file_.inputs, "input_ids", &OnnxInput::name);
  if (tokens == file_.inputs.end())
    throw InputError(file_.path +
                     ": has no input input_ids; export a language model, whose input "
                     "has that name");
  bind_tokens(*tokens);
  const auto bind = [&](const char* name, auto number) {
    Known known{{batch_, sequence_}, KnownKind::integer, {}};
    for (std::int64_t i = 0; i < batch_ * sequence_; ++i)
      known.values.push_back(static_cast<double>(number(i % sequence_)));
    values_[name] = known_value(std::move(known));
  };
  for (const OnnxInput& input : file_.inputs) {
    if (input.name == "attention_mask") bind("attention_mask", [](std::int64_t) { return 1; });
    if (input.name == "position_ids") bind("position_ids", [](std::int64_t i) { return i; });
    if (input.name == "token_type_ids") bind("token_type_ids", [](std::int64_t) { return 0; });
  }
}

void OnnxTracer::bind_tokens(const OnnxInput& input) {
  const auto wrong = [&](const std::string& what) -> InputError {
    return InputError(file_.path + ": input input_ids: " + what);
  };
  if (kind_of(input.type) != KnownKind::integer)
    throw wrong("is not of integers; export a language model");
  if (input.dims.size() != 2)
    throw wrong("has " + std::to_string(input.dims.size()) +
                " dimensions; a batch of sequences has 2");
  if (input.dims[0] >= 0) batch_ = input.dims[0];
  if (input.dims[1] >= 0) sequence_ = input.dims[1];
  if (batch_ < 1 || batch_ > most_traced_batch || sequence_ < 2 || sequence_ > most_traced_sequence)
    throw wrong("has a batch of " + std::to_string(batch_) + " sequences of " +
                std::to_string(sequence_) + " tokens; export with dynamic axes, or at most " +
                std::to_string(most_traced_batch) + " of 2 to " +
                std::to_string(most_traced_sequence));
  OnnxExpression tokens;
  tokens.form = OnnxForm::tokens;
  tokens.dims = {batch_, sequence_};
  OnnxValue value = make(std::move(tokens));
  value.kind = KnownKind::integer;
  values_["input_ids"] = value;
}

std::vector<bool> OnnxTracer::needed_nodes(const std::string& output) const {
  std::map<std::string_view, std::size_t> maker;
  for (std::size_t i = 0; i < file_.nodes.size(); ++i)
    for (const std::string& name : file_.nodes[i].outputs)
      if (!name.empty()) maker.emplace(name, i);
  std::vector<bool> needed(file_.nodes.size(), false);
  std::vector<std::string_view> open = {output};
  while (!open.empty()) {
    const auto found = maker.find(open.back());
    open.pop_back();
    if (found == maker.end() || needed[found->second]) continue;
    needed[found->second] = true;
    for (const std::string& name : file_.nodes[found->second].inputs) open.emplace_back(name);
  }
  return needed;
}

const OnnxValue& OnnxTracer::value_of(const std::string& name) {
  if (const auto found = values_.find(name); found != values_.end()) return found->second;
  if (const auto weight = file_.weight_of.find(name); weight != file_.weight_of.end()) {
    const OnnxTensor& tensor = file_.weights[static_cast<std::size_t>(weight->second)];
    OnnxValue value;
    value.dims = tensor.dims;
    value.kind = kind_of(tensor.type);
    value.weight = weight->second;
    value.weight_name = name;
    if (!can_be_trained(tensor)) {
      value.known = known_of(value);
      value.weight = -1;
    }
    return values_[name] = std::move(value);
  }
  for (const OnnxInput& input : file_.inputs)
    if (input.name == name)
      throw InputError("reads the input " + name +
                       ", which is not known; known: input_ids, attention_mask, position_ids and "
                       "token_type_ids (export with use_cache=False)");
  for (const OnnxNode& node : file_.nodes)
    if (std::ranges::find(node.outputs, name) != node.outputs.end())
      throw InputError("reads " + name + " before node " + node.name +
                       " makes it: the nodes are in a wrong order, or form a cycle");
  throw InputError("reads " + name + ", which is no input, no weight and made by no node");
}

KnownPtr OnnxTracer::known_of(const OnnxValue& value) {
  if (value.known) return value.known;
  if (!value.is_weight()) throw InputError("has an operand that depends on the tokens");
  KnownPtr& loaded = loaded_[value.weight];
  if (!loaded) {
    const OnnxTensor& tensor = file_.weights[static_cast<std::size_t>(value.weight)];
    if (tensor.elements() > most_known)
      throw InputError("computes with the " + std::to_string(tensor.elements()) + " elements of " +
                       tensor.name + "; constants have at most " + std::to_string(most_known));
    loaded = std::make_shared<const Known>(
        Known{tensor.dims, kind_of(tensor.type), values_of(file_, tensor)});
  }
  if (value.one_plus) {
    Known sum = *loaded;
    for (double& each : sum.values) each = static_cast<double>(static_cast<float>(each + 1));
    return std::make_shared<const Known>(std::move(sum));
  }
  if (!value.transposed) return loaded;
  return std::make_shared<const Known>(transposed_known(*loaded));
}

void OnnxTracer::step(const OnnxNode& node) {
  if (!std::ranges::binary_search(known_onnx_operations(), node.op))
    throw InputError("operation " + node.op +
                     " is not known; known: " + list_of(known_onnx_operations(), "and"));
  Values inputs;
  for (const std::string& name : node.inputs)
    inputs.push_back(name.empty() ? OnnxValue{} : value_of(name));
  Values results = results_of(node, inputs);
  for (std::size_t i = 0; i < node.outputs.size() && i < results.size(); ++i)
    if (!node.outputs[i].empty()) values_[node.outputs[i]] = std::move(results[i]);
}

OnnxTracer::Values OnnxTracer::results_of(const OnnxNode& node, Values& inputs) {
  if (node.op == "Shape") {
    if (inputs.empty()) throw InputError("has no operand");
    const auto rank = static_cast<std::int64_t>(inputs[0].dims.size());
    const auto place = [&](std::int64_t at) {
      return std::clamp(at < 0 ? at + rank : at, std::int64_t{0}, rank);
    };
    const std::int64_t begin = place(node.integer("start", 0));
    const std::int64_t end = std::max(begin, place(node.integer("end", rank)));
    Known shape{{end - begin}, KnownKind::integer, {}};
    for (std::int64_t i = begin; i < end; ++i)
      shape.values.push_back(static_cast<double>(inputs[0].dims[static_cast<std::size_t>(i)]));
    return {known_value(std::move(shape))};
  }
  for (const OnnxValue& input : inputs)
    if (input.is_traced()) return traced(node, inputs);
  for (const OnnxValue& input : inputs)
    if (input.is_weight()) return of_weights(node, inputs);
  return folded(node, inputs);
}

OnnxTracer::Values OnnxTracer::of_weights(const OnnxNode& node, Values& inputs) {
  OnnxValue first = inputs[0];
  const bool is_cast =
      node.op == "Cast" && kind_of_number(node.integer("to", 0)) == KnownKind::real;
  if (first.is_weight() && (node.op == "Identity" || is_cast)) {
    // Exporters keep one of several vectors that are equal, and give the others their names with
    // an Identity. Equal matrices are one parameter with several users.
    const std::string& name = node.outputs.empty() ? std::string() : node.outputs[0];
    if (first.dims.size() < 2 && names_a_parameter(name)) first.weight_name = name;
    return {first};
  }
  if (node.op == "Add" && inputs.size() == 2)
    for (const auto& [weight, other] : {std::pair{first, inputs[1]}, std::pair{inputs[1], first}})
      if (weight.is_weight() && weight.dims.size() == 1 && number_of(other) == 1) {
        OnnxValue sum = weight;
        sum.one_plus = true;
        return {sum};
      }
  if (first.is_weight() && node.op == "Transpose" && first.dims.size() == 2) {
    const OnnxDims* order = node.integers("perm");
    if (order != nullptr && *order != OnnxDims{1, 0}) return folded(node, inputs);
    std::swap(first.dims[0], first.dims[1]);
    first.transposed = !first.transposed;
    return {first};
  }
  if (first.is_weight() && node.op == "Gather" && first.dims.size() == 2 && !first.transposed &&
      node.integer("axis", 0) == 0 && inputs.size() == 2 && inputs[1].known)
    return {rows_of_weight(first, inputs[1])};
  return folded(node, inputs);
}

// Returns rows of a table at known indices, such as those of all positions, or that of one token
// type. The values are known too, because the rows may be constants such as rotary angles.
OnnxValue OnnxTracer::rows_of_weight(const OnnxValue& table, const OnnxValue& indices) {
  OnnxValue value;
  value.dims = indices.dims;
  value.dims.push_back(table.dims[1]);
  value.weight_name = table.weight_name;
  const std::vector<double>& rows = indices.known->values;
  if (rows.empty() || indices.dims.empty()) throw InputError("gathers no rows");
  const std::int64_t run = indices.dims.back();
  bool runs = true, repeats = true;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::int64_t row = integer_at(*indices.known, i);
    if (row < 0 || row >= table.dims[0])
      throw InputError("gathers row " + std::to_string(row) + " of a table of " +
                       std::to_string(table.dims[0]));
    runs = runs && rows[i] == rows[0] + static_cast<double>(static_cast<std::int64_t>(i) % run);
    repeats = repeats && rows[i] == rows[0];
  }
  value.rows_run = runs && run > 1;
  if (value.rows_run || repeats) {
    value.rows_of = table.weight;
    value.first_row = integer_at(*indices.known, 0);
  }
  if (element_count(value.dims) > most_known || element_count(table.dims) > most_known)
    throw InputError("gathers more than " + std::to_string(most_known) + " elements");
  OnnxNode gather;
  gather.op = "Gather";
  const KnownPtr from = known_of(table);
  const Known* operands[] = {from.get(), indices.known.get()};
  value.known = std::make_shared<const Known>(std::move((*fold(gather, file_.opset, operands))[0]));
  return value;
}

OnnxTracer::Values OnnxTracer::folded(const OnnxNode& node, Values& inputs) {
  std::vector<KnownPtr> kept;
  std::vector<const Known*> operands;
  for (const OnnxValue& input : inputs) {
    const bool given = input.known != nullptr || input.is_weight();
    kept.push_back(given ? known_of(input) : nullptr);
    operands.push_back(kept.back().get());
  }
  std::optional<std::vector<Known>> results = fold(node, file_.opset, operands);
  if (!results) throw InputError("operation " + node.op + " of constants is not known");
  Values values;
  for (Known& known : *results) values.push_back(known_value(std::move(known)));
  // A cast or a reshape of rows of a weight shows these rows again, unless their width changes.
  const bool keeps = node.op == "Cast" || node.op == "Unsqueeze" || node.op == "Identity" ||
                     node.op == "Squeeze" || node.op == "Reshape";
  if (keeps && !values.empty() && inputs[0].rows_of >= 0 &&
      inputs[0].dims.back() == values[0].dims.back()) {
    values[0].rows_of = inputs[0].rows_of;
    values[0].first_row = inputs[0].first_row;
    values[0].rows_run = inputs[0].rows_run;
    values[0].weight_name = inputs[0].weight_name;
  }
  return values;
}

OnnxTracer::Values OnnxTracer::traced(const OnnxNode& node, Values& inputs) {
  if (std::optional<Values> views = viewed(node, inputs)) return *views;
  if (std::optional<OnnxValue> answer = tested(node, inputs)) return {*answer};
  const std::string& op = node.op;
  constexpr std::string_view of_several[] = {"Add",    "Concat", "Div", "Gather",
                                             "MatMul", "Mul",    "Sub", "Where"};
  if (!inputs[0].is_traced() && std::ranges::find(of_several, op) == std::end(of_several))
    throw InputError("operation " + op + " is known where its first operand depends on the tokens");
  const auto want = [&](std::size_t count) {
    if (inputs.size() < count)
      throw InputError("has " + std::to_string(inputs.size()) + " operands; " + op + " has " +
                       std::to_string(count));
  };
  const auto of_one = [&](OnnxForm form, double number = 0) {
    want(1);
    if (inputs[0].kind != KnownKind::real) throw InputError(op + " of tokens is not known");
    return Values{unary(form, inputs[0], number)};
  };
  if (op == "Neg") return of_one(OnnxForm::negate);
  if (op == "Sqrt") return of_one(OnnxForm::root);
  if (op == "Reciprocal") return of_one(OnnxForm::inverse, 1);
  if (op == "Erf") return of_one(OnnxForm::erf);
  if (op == "Tanh") return of_one(OnnxForm::tanh);
  if (op == "Sigmoid") return of_one(OnnxForm::sigmoid);
  if (op == "Relu") return of_one(OnnxForm::relu);
  want(1);
  if (op == "Concat") return {joined(node, inputs)};
  if (op == "Softmax") return {softmax(node, inputs[0])};
  if (op == "ReduceMean") return {mean(node, inputs)};
  if (op == "LayerNormalization" || op == "RMSNormalization") return {norm(node, inputs)};
  if (op == "Gelu") return {gelu(node, inputs[0])};
  if (op == "Attention") return {attention(node, inputs)};
  if (op == "RotaryEmbedding") return {rotary_embedding(node, inputs)};
  want(2);
  for (std::size_t i = 0; i < 2; ++i)
    if (inputs[i].is_traced() && inputs[i].kind != KnownKind::real && op != "Gather")
      throw InputError(op + " of tokens is not known");
  if (op == "Add") return {add(inputs[0], inputs[1])};
  if (op == "Sub") return {subtract(inputs[0], inputs[1])};
  if (op == "Mul") return {multiply(inputs[0], inputs[1])};
  if (op == "Div") return {divide(inputs[0], inputs[1])};
  if (op == "MatMul") return {matrix_product(inputs[0], inputs[1])};
  if (op == "Gemm") return {gemm(node, inputs)};
  if (op == "Pow") {
    const std::optional<double> exponent = number_of(inputs[1]);
    if (!inputs[0].is_traced() || !exponent)
      throw InputError("a power whose exponent is no constant is not known");
    return {unary(OnnxForm::power, inputs[0], *exponent)};
  }
  if (op == "Gather") {
    const OnnxExpression* tokens =
        inputs[1].is_traced() ? as(inputs[1], OnnxForm::tokens) : nullptr;
    if (tokens == nullptr || !inputs[0].is_weight() || inputs[0].dims.size() != 2 ||
        inputs[0].transposed || node.integer("axis", 0) != 0)
      throw InputError("gathers something else than the rows of a table for the tokens");
    OnnxExpression rows;
    rows.form = OnnxForm::embedding;
    rows.inputs = {inputs[1], inputs[0]};
    rows.dims = inputs[1].dims;
    rows.dims.push_back(inputs[0].dims[1]);
    return {make(std::move(rows))};
  }
  if (op == "Where") {
    want(3);
    return {where(inputs)};
  }
  throw InputError("operation " + op + " of what depends on the tokens is not known");
}

// Returns false for two tests of values that depend on the tokens, and nothing for other
// operations. Models compare the tokens with the number that fills padding, but the sequences of
// a job have none. Exporters look for NaNs in a softmax whose keys may all be hidden, which never
// happens here. One element stands for all tests of NaNs.
std::optional<OnnxValue> OnnxTracer::tested(const OnnxNode& node, const Values& inputs) {
  const bool of_padding = node.op == "Equal" && inputs.size() == 2 &&
                          ((as(inputs[0], OnnxForm::tokens) != nullptr && number_of(inputs[1])) ||
                           (as(inputs[1], OnnxForm::tokens) != nullptr && number_of(inputs[0])));
  const bool of_number = node.op == "IsNaN" && inputs[0].kind == KnownKind::real;
  if (!of_padding && !of_number) return std::nullopt;
  const OnnxDims dims = of_padding ? broadcast(inputs[0].dims, inputs[1].dims) : OnnxDims{};
  const auto count = static_cast<std::size_t>(element_count(dims));
  return known_value({dims, KnownKind::boolean, std::vector<double>(count, 0)});
}

OnnxValue OnnxTracer::make(OnnxExpression expression) {
  expression.node = node_;
  element_count(expression.dims);
  expressions_.push_back(std::move(expression));
  return whole(static_cast<int>(expressions_.size()) - 1);
}

OnnxValue OnnxTracer::whole(int expression) const {
  OnnxValue value;
  value.expression = expression;
  value.dims = expressions_[static_cast<std::size_t>(expression)].dims;
  value.view = whole_view(value.dims);
  return value;
}

const OnnxExpression* OnnxTracer::as(const OnnxValue& value, OnnxForm form) const {
  if (!value.is_traced()) return nullptr;
  const OnnxExpression& expression = at(value);
  if (expression.form != form || !is_in_order(value.view, element_count(expression.dims)))
    return nullptr;
  return &expression;
}

std::optional<double> OnnxTracer::number_of(const OnnxValue& value) {
  if (!value.known || value.known->values.empty()) return std::nullopt;
  const std::vector<double>& values = value.known->values;
  if (element_count(value.dims) != 1) return std::nullopt;
  return values[0];
}

}  // namespace meshwright::architectures
