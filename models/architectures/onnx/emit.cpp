#include <algorithm>
#include <numeric>
#include <set>

#include "models/architectures/onnx/imported_graph.h"
#include "models/architectures/onnx/read_onnx.h"
#include "models/core/error.h"

namespace meshwright::architectures {

namespace {

using Operand = ImportedOperation::Operand;

bool is_published_name(const std::string& name) {
  return name.find('.') != std::string::npos && !name.starts_with("onnx::") &&
         !name.starts_with("/");
}

// Returns the module of a parameter, such as "transformer.h.0.ln_1" for
// "transformer.h.0.ln_1.weight". Returns "" if an exporter made up the name.
std::string module_of_weight(const std::string& name) {
  return is_published_name(name) ? name.substr(0, name.rfind('.')) : "";
}

// Returns the block of a module, such as "transformer.h.0" for "transformer.h.0.attn". Returns ""
// if no part of the path is a number.
std::string block_of(const std::string& path) {
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const std::string_view part = std::string_view(path).substr(begin, end - begin);
    if (!part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos)
      return path.substr(0, end);
    begin = end + 1;
  }
  return "";
}

class OnnxEmitter {
 public:
  OnnxEmitter(const OnnxFile& file, const OnnxTrace& trace, Model& model)
      : file_(file), trace_(trace), model_(model), place_(trace.expressions.size(), -1) {
    graph_.file = file.path;
  }

  ImportedGraph emit() {
    find_head();
    const std::vector<bool> needed = needed_expressions();
    for (std::size_t i = 0; i < trace_.expressions.size(); ++i) {
      const OnnxExpression& e = trace_.expressions[i];
      if (!needed[i] || e.form == OnnxForm::tokens) continue;
      expression_ = static_cast<int>(i);
      emit(e);
    }
    set_sizes();
    return std::move(graph_);
  }

 private:
  [[noreturn]] void fail(const OnnxExpression& e, const std::string& what) const {
    throw InputError(file_.path + ": node " + node(e).name + ": " + what);
  }
  const OnnxNode& node(const OnnxExpression& e) const {
    return file_.nodes[static_cast<std::size_t>(e.node)];
  }
  const OnnxExpression& at(int expression) const {
    return trace_.expressions[static_cast<std::size_t>(expression)];
  }

  void find_head() {
    const OnnxValue& logits = trace_.logits;
    const auto wrong = [&](const std::string& what) {
      return InputError(file_.path + ": the output " + what +
                        "; export a language model (GPT2LMHeadModel, LlamaForCausalLM, ...), whose "
                        "output are the logits of all tokens");
    };
    if (!logits.is_traced()) throw wrong("does not depend on the tokens");
    const OnnxExpression& e = at(logits.expression);
    if (e.form != OnnxForm::linear || !is_in_order(logits.view, element_count(e.dims)) ||
        logits.dims.size() != 3)
      throw wrong("is not [batch, sequence, vocabulary] as a linear layer makes it");
    head_ = logits.expression;
    for (const OnnxExpression& each : trace_.expressions)
      if (each.form == OnnxForm::embedding && table_ < 0) table_ = each.inputs[1].weight;
    if (table_ < 0) throw wrong("does not depend on an embedding of the tokens");
    const OnnxTensor& table = file_.weights[static_cast<std::size_t>(table_)];
    if (logits.dims[2] != table.dims[0])
      throw wrong("has " + std::to_string(logits.dims[2]) + " columns, but the token table has " +
                  std::to_string(table.dims[0]) + " rows");
    model_.vocabulary = table.dims[0];
  }

  std::vector<bool> needed_expressions() const {
    std::vector<bool> needed(trace_.expressions.size(), false);
    std::vector<int> open = {head_};
    while (!open.empty()) {
      const int next = open.back();
      open.pop_back();
      if (needed[static_cast<std::size_t>(next)]) continue;
      needed[static_cast<std::size_t>(next)] = true;
      for (const OnnxValue& input : at(next).inputs)
        if (input.is_traced()) open.push_back(input.expression);
    }
    return needed;
  }

  std::int64_t rows() const { return trace_.batch * trace_.sequence; }
  std::int64_t width_of(const OnnxExpression& e) const { return element_count(e.dims) / rows(); }

  // Returns the operand that holds the value as one row of `width` columns for each token. Fails if
  // the value has another shape or order.
  Operand rows_of(const OnnxExpression& e, const OnnxValue& value, std::int64_t width) {
    const OnnxExpression& from = at(value.expression);
    const std::int64_t elements = element_count(from.dims);
    if (!is_in_order(value.view, elements) || elements != rows() * width)
      fail(e, "reads a tensor that is not one row of " + std::to_string(width) +
                  " numbers for each token");
    if (from.form == OnnxForm::tokens) return {Operand::Kind::tokens, 0};
    return {Operand::Kind::operation, place_[static_cast<std::size_t>(value.expression)]};
  }

  std::string path_of(const OnnxExpression& e) const {
    const bool has_weight = e.inputs.size() > 1 && e.inputs[1].is_weight();
    const std::string by_weight = has_weight ? module_of_weight(e.inputs[1].weight_name) : "";
    const std::string& by_node = node(e).module;
    // A row of a table (position embeddings, say) counts as the table's module, although the node
    // that adds the row stands in another one.
    const bool is_row = e.form == OnnxForm::add_position || e.form == OnnxForm::add_row;
    if (is_row && !by_weight.empty()) return by_weight;
    if (!by_node.empty()) return by_node;
    if (!by_weight.empty()) return by_weight;
    if (expression_ == head_) return "head";
    return graph_.operations.empty() ? "model" : graph_.operations.back().module;
  }

  // Returns the unit of an operation. A new unit begins with the first operation, with the first
  // one of each block, and, after the blocks, with the first one of each module with parameters.
  // Any other operation is in the latest unit.
  int unit_of(const std::string& path, bool has_weight) {
    std::vector<Unit>& units = graph_.units;
    const int last = static_cast<int>(units.size()) - 1;
    const std::string block = block_of(path);
    const auto is_new = [&](const std::string& name) {
      return std::ranges::find(units, name, &Unit::path) == units.end();
    };
    if (units.empty()) {
      units.push_back({block.empty() ? path : block, !block.empty()});
      return 0;
    }
    const bool blocks_began = std::ranges::any_of(units, &Unit::is_block);
    const std::string name = !block.empty() ? block : blocks_began && has_weight ? path : "";
    if (name.empty() || !is_new(name)) return last;
    units.push_back({name, !block.empty()});
    return last + 1;
  }

  // Returns the parameter of a weight, and adds it if it is new. A matrix that several operations
  // use is one parameter. A vector is one for each of them, because exporters store equal vectors
  // once.
  int parameter(const OnnxExpression& e, const OnnxValue& weight, const std::string& path,
                const char* kind, Shape shape, bool transposed, Initial initial) {
    std::string name = weight.weight_name;
    // If the head uses the token table too, exporters may keep the head's name for it.
    const bool of_table = e.form == OnnxForm::embedding && !node(e).module.empty();
    if (!is_published_name(name) || of_table)
      name = (of_table ? node(e).module : path) + "." + kind;
    if (shape.rank >= 2) {
      if (const auto found = matrices_.find(weight.weight); found != matrices_.end()) {
        const ImportedParameter& before =
            graph_.parameters[static_cast<std::size_t>(found->second)];
        if (before.shape != shape || before.transposed != transposed)
          fail(e, "uses " + before.name + " transposed, but another node does not");
        return found->second;
      }
    } else if (names_.contains(name)) {
      name = path + "." + kind;
    }
    const std::string wanted = name;
    for (int number = 2; !names_.insert(name).second; ++number)
      name = wanted + "." + std::to_string(number);
    ImportedParameter made;
    made.name = name;
    made.shape = shape;
    made.initial = initial;
    made.weight = weight.weight;
    made.transposed = transposed;
    graph_.parameters.push_back(std::move(made));
    const int index = static_cast<int>(graph_.parameters.size()) - 1;
    if (shape.rank >= 2) matrices_[weight.weight] = index;
    return index;
  }

  Operand vector_of(const OnnxExpression& e, const OnnxValue& weight, const std::string& path,
                    const char* kind, Initial initial) {
    return {Operand::Kind::parameter,
            parameter(e, weight, path, kind, {element_count(weight.dims)}, false, initial)};
  }

  // Returns the parameter of a linear layer's matrix. PyTorch stores it as [out, in], and exporters
  // transpose and rename it. A matrix that is multiplied as [in, out] under its own name is stored
  // so in PyTorch too.
  Operand matrix_of(const OnnxExpression& e, const OnnxValue& weight, const std::string& path,
                    bool as_out_in, Attributes& attributes) {
    const bool own_name = is_published_name(weight.weight_name);
    attributes.weight_in_out = !as_out_in && own_name && !weight.transposed;
    const std::int64_t in = weight.dims[0], out = weight.dims[1];
    const Shape shape = attributes.weight_in_out ? Shape{in, out} : Shape{out, in};
    const bool turn = !attributes.weight_in_out && !weight.transposed;
    return {Operand::Kind::parameter,
            parameter(e, weight, path, "weight", shape, turn, Initial::normal)};
  }

  Operand table_of(const OnnxExpression& e, const OnnxValue& weight, const std::string& path) {
    const std::int64_t width = weight.dims.back();
    return {Operand::Kind::parameter,
            parameter(e, weight, path, "weight", {element_count(weight.dims) / width, width}, false,
                      Initial::normal)};
  }

  // Returns whether the head uses the token table in transposed form. A head with a matrix of its
  // own counts if the elements are equal, because exporters write a tied matrix twice.
  bool is_table_transposed(const OnnxValue& weight) const {
    const OnnxTensor& table = file_.weights[static_cast<std::size_t>(table_)];
    if (weight.weight == table_) return weight.transposed;
    const OnnxTensor& head = file_.weights[static_cast<std::size_t>(weight.weight)];
    return have_equal_elements(file_, table, head, !weight.transposed);
  }

  void emit(const OnnxExpression& e) {
    ImportedOperation operation;
    operation.module = path_of(e);
    bool has_weight = false;
    for (const OnnxValue& input : e.inputs) has_weight = has_weight || input.is_weight();
    operation.unit = unit_of(operation.module, has_weight);
    if (!set_table_operation(e, operation) && !set_row_operation(e, operation) &&
        !set_element_operation(e, operation))
      fail(e,
           "operation " + node(e).op +
               " is not part of a module that is known (attention, rotary positions, layer norm, "
               "rms norm, gelu, silu); " +
               "a " + node(e).op + " of its own is not");
    place_[static_cast<std::size_t>(expression_)] = static_cast<int>(graph_.operations.size());
    graph_.operations.push_back(std::move(operation));
  }

  // Fills in an operation that has a table of rows or a matrix. Returns false for other forms.
  bool set_table_operation(const OnnxExpression& e, ImportedOperation& to) {
    Attributes& a = to.attributes;
    const std::int64_t width = width_of(e);
    switch (e.form) {
      case OnnxForm::embedding:
        if (e.inputs[1].weight != table_) fail(e, "is a second embedding of the tokens");
        to.op = Op::embedding;
        a.vocabulary = model_.vocabulary;
        to.inputs = {rows_of(e, e.inputs[0], 1), table_of(e, e.inputs[1], to.module)};
        return true;
      case OnnxForm::add_position:
      case OnnxForm::add_row: {
        if (e.inputs[1].dims.back() != width) fail(e, "adds rows of another width");
        to.op = e.form == OnnxForm::add_row ? Op::add_row : Op::add_position;
        to.inputs = {rows_of(e, e.inputs[0], width), table_of(e, e.inputs[1], to.module)};
        if (e.form == OnnxForm::add_row) return true;
        a.position_offset = static_cast<int>(e.first);
        const std::int64_t length = element_count(e.inputs[1].dims) / width - e.first;
        model_.learned_positions = true;
        model_.positions = static_cast<int>(
            std::min<std::int64_t>(length, model_.positions > 0 ? model_.positions : 100'000'000));
        return true;
      }
      case OnnxForm::linear: {
        to.op = Op::linear;
        const bool is_head = expression_ == head_;
        const OnnxValue& weight = e.inputs[1];
        to.inputs = {rows_of(e, e.inputs[0], weight.dims[0])};
        model_.tied_embeddings = is_head && is_table_transposed(weight);
        if (model_.tied_embeddings) {
          OnnxValue table;
          table.weight = table_;
          table.weight_name = table_name();
          table.dims = file_.weights[static_cast<std::size_t>(table_)].dims;
          to.inputs.push_back(table_of(e, table, to.module));
        } else {
          to.inputs.push_back(matrix_of(e, weight, to.module, is_head, a));
        }
        if (is_head) a.vocabulary = model_.vocabulary;
        if (e.inputs.size() > 2)
          to.inputs.push_back(vector_of(e, e.inputs[2], to.module, "bias", Initial::zeros));
        return true;
      }
      default:
        return false;
    }
  }

  std::string table_name() const {
    for (const OnnxExpression& e : trace_.expressions)
      if (e.form == OnnxForm::embedding) return e.inputs[1].weight_name;
    return "";
  }

  // Fills in an operation that works on whole rows or on the heads in them. Returns false for other
  // forms.
  bool set_row_operation(const OnnxExpression& e, ImportedOperation& to) {
    Attributes& a = to.attributes;
    const std::int64_t width = width_of(e);
    switch (e.form) {
      case OnnxForm::layer_norm:
      case OnnxForm::rms_norm:
      case OnnxForm::add_bias:
      case OnnxForm::scale_columns: {
        const bool is_norm = e.form == OnnxForm::layer_norm || e.form == OnnxForm::rms_norm;
        to.op = e.form == OnnxForm::layer_norm ? Op::layer_norm
                : e.form == OnnxForm::rms_norm ? Op::rms_norm
                : e.form == OnnxForm::add_bias ? Op::add_bias
                                               : Op::scale_columns;
        if (is_norm) a.epsilon = e.number;
        if (is_norm && !(e.number >= 0 && e.number < 1))
          fail(e, "adds " + std::to_string(e.number) + " to a variance; use 0 to 1");
        const std::int64_t of_head = element_count(e.inputs[1].dims);
        if (e.form == OnnxForm::rms_norm && of_head < width && e.dims.back() == of_head)
          to.op = Op::head_norm;
        else if (of_head != width)
          fail(e, "works on rows of another width than its weight has");
        to.inputs = {rows_of(e, e.inputs[0], width)};
        const bool is_bias = e.form == OnnxForm::add_bias;
        a.one_plus_weight = e.one_plus;
        to.inputs.push_back(vector_of(e, e.inputs[1], to.module, is_bias ? "bias" : "weight",
                                      is_bias || e.one_plus ? Initial::zeros : Initial::ones));
        if (e.inputs.size() > 2)
          to.inputs.push_back(vector_of(e, e.inputs[2], to.module, "bias", Initial::zeros));
        return true;
      }
      case OnnxForm::rope:
        if (e.is_part) fail(e, "rotary positions of a part of a matrix are not known");
        to.op = Op::rope;
        a.heads = e.heads;
        a.kv_heads = e.kv_heads > 0 ? e.kv_heads : e.heads;
        a.head_dim = e.head_dim;
        a.rotary_dim = e.rotary_dim;
        a.packing = static_cast<Packing>(e.packing);
        a.rotary_base = e.rotary_base;
        to.inputs = {rows_of(e, e.inputs[0], width)};
        return true;
      case OnnxForm::attention: {
        to.op = Op::attention;
        a.heads = e.heads;
        a.kv_heads = e.kv_heads;
        a.head_dim = e.head_dim;
        a.causal = e.causal;
        a.window = e.window;
        a.scaled_scores = e.scaled;
        a.packing = static_cast<Packing>(e.packing);
        for (const OnnxValue& input : e.inputs)
          to.inputs.push_back(rows_of(e, input, width_of(at(input.expression))));
        return true;
      }
      default:
        return false;
    }
  }

  bool set_element_operation(const OnnxExpression& e, ImportedOperation& to) {
    switch (e.form) {
      case OnnxForm::gelu:
        to.op = Op::gelu;
        to.attributes.gelu_tanh = e.is_tanh;
        break;
      case OnnxForm::relu:
        to.op = Op::relu;
        break;
      case OnnxForm::tanh:
        to.op = Op::tanh;
        break;
      case OnnxForm::silu:
        to.op = Op::silu;
        break;
      case OnnxForm::swiglu:
        to.op = Op::swiglu;
        break;
      case OnnxForm::add:
        to.op = Op::add;
        break;
      case OnnxForm::multiply:
        to.op = Op::multiply;
        break;
      case OnnxForm::scale:
        to.op = Op::scale;
        to.attributes.factor = e.number;
        break;
      case OnnxForm::add_constant:
        to.op = Op::add_constant;
        to.attributes.factor = e.number;
        break;
      default:
        return false;
    }
    for (const OnnxValue& input : e.inputs) to.inputs.push_back(rows_of(e, input, width_of(e)));
    return true;
  }

  // Sets the sizes that rules about plans need: `head_dim` of the first attention, the greatest
  // common divisors of all head counts, and that of the widths of all activations in blocks.
  void set_sizes() {
    const auto fits = [&](std::int64_t number) {
      return static_cast<int>(std::min<std::int64_t>(number, 1 << 24));
    };
    const OnnxExpression* attention = nullptr;
    bool causal = false;
    for (std::size_t i = 0; i < trace_.expressions.size(); ++i) {
      const OnnxExpression& e = trace_.expressions[i];
      if (place_[i] < 0) continue;
      if (e.form == OnnxForm::attention) {
        if (attention == nullptr) attention = &e;
        model_.heads = std::gcd(model_.heads, e.heads);
        model_.kv_heads = std::gcd(model_.kv_heads, e.kv_heads);
        if (attention != &e && e.causal != causal) fail(e, "is causal, but other attention is not");
        causal = e.causal;
      }
      if (e.form == OnnxForm::embedding) model_.hidden = fits(width_of(e));
      const bool in_block = graph_
                                .units[static_cast<std::size_t>(
                                    graph_.operations[static_cast<std::size_t>(place_[i])].unit)]
                                .is_block;
      const bool activates = e.form == OnnxForm::gelu || e.form == OnnxForm::swiglu ||
                             e.form == OnnxForm::relu || e.form == OnnxForm::silu;
      if (in_block && activates) model_.ffn = std::gcd(model_.ffn, fits(width_of(e)));
    }
    for (const Unit& unit : graph_.units) model_.layers += unit.is_block ? 1 : 0;
    if (attention == nullptr || model_.layers == 0)
      throw InputError(file_.path +
                       ": has no blocks with attention; the names of its nodes or weights number "
                       "them (transformer.h.0), as torch.onnx writes them");
    model_.head_dim = attention->head_dim;
    if (model_.ffn == 0) model_.ffn = 4 * model_.hidden;
    model_.family = causal ? Family::gpt : Family::bert;
    model_.head = causal ? Head::lm : Head::mlm;
  }

  const OnnxFile& file_;
  const OnnxTrace& trace_;
  Model& model_;
  ImportedGraph graph_;
  std::vector<int> place_;       // number of the operation of each expression; -1: none
  std::map<int, int> matrices_;  // parameter of each weight that is a matrix
  std::set<std::string> names_;
  int head_ = -1, table_ = -1, expression_ = -1;
};

}  // namespace

ImportedGraph emit_onnx(const OnnxFile& file, const OnnxTrace& trace, Model& model) {
  model.learned_positions = false;
  model.activation = Activation::gelu_tanh;  // has no meaning here; older checkpoints describe it
  model.biases = model.attention_bias = true;
  model.positions = model.layers = model.ffn = 0;
  return OnnxEmitter(file, trace, model).emit();
}

}  // namespace meshwright::architectures
