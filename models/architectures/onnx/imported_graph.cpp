#include "models/architectures/onnx/imported_graph.h"

#include <algorithm>
#include <map>

#include "models/architectures/model.h"
#include "models/core/error.h"

namespace meshwright::architectures {

namespace {

using ImportedOperand = ImportedOperation::Operand;

class ImportedLayout {
 public:
  ImportedLayout(const Model& model, const Training& training)
      : model_(model),
        from_(*model.imported),
        training_(training),
        dtype_(storage_of(training.precision)),
        made_(from_.operations.size(), -1) {
    graph_.vocabulary = model.vocabulary;
    graph_.micro_batch = training.micro_batch;
    graph_.sequence_length = training.sequence_length;
    graph_.precision = training.precision;
    graph_.compiler = training.compiler;
    for (std::size_t u = 0; u < from_.units.size(); ++u)
      if (from_.units[u].is_block) blocks_.push_back(static_cast<int>(u));
  }

  Graph lay_out() {
    const int given = static_cast<int>(blocks_.size());
    if (model_.layers != given && !from_.unlike.empty())
      throw NotSupportedYet(from_.file +
                            ": plans cannot be searched for a model whose blocks are " +
                            "not alike yet (" + from_.unlike + "); give all degrees");
    graph_.tokens = input({std::int64_t{training_.micro_batch} * training_.sequence_length});
    int block = 0;
    for (int unit = 0; unit < static_cast<int>(from_.units.size()); ++unit) {
      if (!from_.units[static_cast<std::size_t>(unit)].is_block) {
        add_unit(unit, -1);
        continue;
      }
      // If model_.layers is larger than the file's number of blocks, the last block is repeated.
      const int until = unit == blocks_.back() ? model_.layers : block + 1;
      for (; block < std::min(until, model_.layers); ++block) add_unit(unit, block);
    }
    return std::move(graph_);
  }

 private:
  int input(Shape shape) { return graph_.add_tensor({shape, Dtype::i32}, Role::input); }

  // Adds a unit of the file to the graph. `block` is the number of the block, -1 for other units.
  // If the file has no block of this number, the unit is copied under a new name.
  void add_unit(int unit, int block) {
    const std::string& path = from_.units[static_cast<std::size_t>(unit)].path;
    old_path_ = path + ".";
    const bool is_copy = block >= static_cast<int>(blocks_.size());
    new_path_ =
        is_copy ? path.substr(0, path.rfind('.') + 1) + std::to_string(block) + "." : old_path_;
    is_block_ = block >= 0;
    unit_ = graph_.add_unit(new_path_.substr(0, new_path_.size() - 1), block >= 0);
    modules_.clear();
    file_unit_ = unit;
    for (std::size_t i = 0; i < from_.operations.size(); ++i)
      if (from_.operations[i].unit == unit) add_operation(static_cast<int>(i));
    carried_ = last_;
  }

  std::string renamed(const std::string& name) const {
    if (old_path_ == new_path_) return name;
    if (name + "." == old_path_) return new_path_.substr(0, new_path_.size() - 1);
    return name.starts_with(old_path_) ? new_path_ + name.substr(old_path_.size()) : name;
  }

  int module(const std::string& path) {
    const auto [found, is_new] = modules_.try_emplace(path, 0);
    if (is_new) found->second = graph_.add_module(path, unit_);
    return found->second;
  }

  void add_operation(int index) {
    const ImportedOperation& operation = from_.operations[static_cast<std::size_t>(index)];
    Attributes a = operation.attributes;
    a.micro_batch = training_.micro_batch;
    a.sequence_length = training_.sequence_length;
    if (operation.op == Op::attention) a.attention = training_.attention;
    TensorIds inputs;
    for (const ImportedOperand& operand : operation.inputs) inputs.push_back(tensor_of(operand));
    const int path = module(renamed(operation.module));
    last_ = made_[static_cast<std::size_t>(index)] =
        graph_.output(graph_.add(operation.op, path, inputs, a));
    if (index + 1 < static_cast<int>(from_.operations.size())) return;
    a.vocabulary = model_.vocabulary;
    graph_.targets = input({graph_.tensor(last_).type.shape[0]});
    graph_.loss = graph_.output(graph_.add(Op::cross_entropy, path, {last_, graph_.targets}, a));
  }

  int tensor_of(const ImportedOperand& operand) {
    if (operand.kind == ImportedOperand::Kind::tokens) return graph_.tokens;
    if (operand.kind == ImportedOperand::Kind::parameter) return parameter(operand.index);
    const int unit = from_.operations[static_cast<std::size_t>(operand.index)].unit;
    const bool of_block = from_.units[static_cast<std::size_t>(unit)].is_block;
    // If all blocks are alike, a block reads only the output of the unit before it.
    int tensor = made_[static_cast<std::size_t>(operand.index)];
    if (from_.unlike.empty() && unit != file_unit_ && (of_block || is_block_)) tensor = carried_;
    const bool leaves_blocks = of_block && !is_block_;
    return leaves_blocks && model_.head == Head::mlm ? chosen(tensor) : tensor;
  }

  // Selects the positions that a masked model's head predicts. The operations after the blocks work
  // on each row by itself (which check_masked_head() of read_onnx.cpp checks), so they need no
  // other rows.
  int chosen(int x) {
    if (chosen_ >= 0) return chosen_;
    const int given = training_.predicted_positions;
    const int count = given > 0 ? given : std::max(1, training_.sequence_length * 15 / 100);
    graph_.positions = input({training_.micro_batch, count});
    Attributes a;
    a.micro_batch = training_.micro_batch;
    a.sequence_length = training_.sequence_length;
    const int path = module(graph_.units.back().path);
    return chosen_ =
               graph_.output(graph_.add(Op::select_positions, path, {x, graph_.positions}, a));
  }

  int parameter(int index) {
    const ImportedParameter& from = from_.parameters[static_cast<std::size_t>(index)];
    const std::string name = renamed(from.name);
    const auto [found, is_new] = parameters_.try_emplace(name, -1);
    if (!is_new) return found->second;
    Parameter p;
    p.name = name;
    p.global_shape = p.padded_shape = p.shape = from.shape;
    p.dtype = dtype_;
    p.cut = from.cut;
    p.initial = from.initial;
    p.decay = from.shape.rank >= 2;
    return found->second = graph_.add_parameter(std::move(p));
  }

  const Model& model_;
  const ImportedGraph& from_;
  const Training& training_;
  Dtype dtype_;
  Graph graph_;
  std::vector<int> made_;    // the tensor of each operation; -1: none yet
  std::vector<int> blocks_;  // the units of the file that are blocks
  std::map<std::string, int> modules_, parameters_;
  std::string old_path_, new_path_;  // of the current unit, in the file and in the graph, with "."
  int unit_ = 0, file_unit_ = 0, last_ = -1, carried_ = -1, chosen_ = -1;
  bool is_block_ = false;
};

}  // namespace

Graph lay_out(const Model& model, const Training& training) {
  return ImportedLayout(model, training).lay_out();
}

}  // namespace meshwright::architectures
