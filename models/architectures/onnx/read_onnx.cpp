#include "models/architectures/onnx/read_onnx.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "models/architectures/onnx/imported_graph.h"
#include "models/core/error.h"

namespace meshwright::architectures {

namespace {

// The graph is read with a short sequence. If neither the file nor its table of positions limits
// the length, the graph is read again with a longer one, to check that it has as many operations
// then, and because only longer masks may show a window.
constexpr std::int64_t short_sequence = 8, long_sequence = 512;

struct OnnxReading {
  OnnxTrace trace;
  Model model;
  ImportedGraph graph;
};

OnnxReading read_with(const OnnxFile& file, std::int64_t sequence) {
  OnnxReading reading;
  reading.trace = trace_onnx(file, sequence);
  reading.graph = emit_onnx(file, reading.trace, reading.model);
  return reading;
}

// Describes a block for the comparison with others: its operations, which operations of other units
// it reads, and which of its own are read by other units.
struct BlockShape {
  std::vector<std::string> operations;
  std::vector<int> reads;  // operations of other units that the block reads
  // Has the operations of the block that other units read, counted from the first operation of the
  // block.
  std::vector<int> read;
};

BlockShape shape_of(const ImportedGraph& graph, int unit) {
  using OperandKind = ImportedOperation::Operand::Kind;
  BlockShape shape;
  int first = -1;
  std::set<int> reads, read;
  const auto unit_of = [&](int index) {
    return graph.operations[static_cast<std::size_t>(index)].unit;
  };
  const std::string path = graph.units[static_cast<std::size_t>(unit)].path;
  for (int i = 0; i < static_cast<int>(graph.operations.size()); ++i) {
    const ImportedOperation& operation = graph.operations[static_cast<std::size_t>(i)];
    if (operation.unit == unit && first < 0) first = i;
    std::string text =
        std::to_string(static_cast<int>(operation.op)) +
        operation.module.substr(operation.module.starts_with(path) ? path.size() : 0);
    for (const auto& input : operation.inputs) {
      if (input.kind == OperandKind::tokens) {
        text += " tokens";
      } else if (input.kind == OperandKind::parameter) {
        const ImportedParameter& p = graph.parameters[static_cast<std::size_t>(input.index)];
        text += " " + p.name.substr(p.name.starts_with(path) ? path.size() : 0);
        for (int d = 0; d < p.shape.rank; ++d) text += "," + std::to_string(p.shape[d]);
      } else if (operation.unit == unit && unit_of(input.index) == unit) {
        text += " " + std::to_string(input.index - first);
      } else {
        text += " x";
        if (operation.unit == unit)
          reads.insert(input.index);
        else if (unit_of(input.index) == unit)
          read.insert(input.index - first);
      }
    }
    if (operation.unit == unit) shape.operations.push_back(text);
  }
  shape.reads.assign(reads.begin(), reads.end());
  shape.read.assign(read.begin(), read.end());
  return shape;
}

bool have_same_attributes(const ImportedGraph& graph, int a, int b) {
  std::vector<const Attributes*> of[2];
  for (const ImportedOperation& operation : graph.operations)
    for (const int which : {0, 1})
      if (operation.unit == (which == 0 ? a : b)) of[which].push_back(&operation.attributes);
  return std::ranges::equal(of[0], of[1],
                            [](const Attributes* x, const Attributes* y) { return *x == *y; });
}

// Checks that each unit reads only itself and the unit before it. A pipeline stage passes on that
// one output, and the output of an earlier unit would have to be passed on as well. Throws
// NotSupportedYet otherwise.
void check_chain(const ImportedGraph& graph) {
  for (const ImportedOperation& operation : graph.operations)
    for (const auto& input : operation.inputs) {
      if (input.kind != ImportedOperation::Operand::Kind::operation) continue;
      const int from = graph.operations[static_cast<std::size_t>(input.index)].unit;
      if (operation.unit - from > 1)
        throw NotSupportedYet(
            graph.file + ": " + operation.module + " reads what " +
            graph.units[static_cast<std::size_t>(from)].path +
            " made, which is not the module before it; this is not supported yet");
    }
}

// Checks that no two units share a parameter, except for the first and the last unit, which may
// share parameters such as the token table. Stages cannot share others. Throws NotSupportedYet
// otherwise.
void check_sharing(const ImportedGraph& graph) {
  std::map<int, std::set<int>> users;
  for (const ImportedOperation& operation : graph.operations)
    for (const auto& input : operation.inputs)
      if (input.kind == ImportedOperation::Operand::Kind::parameter)
        users[input.index].insert(operation.unit);
  const std::set<int> ends = {0, static_cast<int>(graph.units.size()) - 1};
  for (const auto& [parameter, units] : users)
    if (units.size() > 1 && units != ends)
      throw NotSupportedYet(graph.file + ": " +
                            graph.parameters[static_cast<std::size_t>(parameter)].name +
                            " is used by several modules; this is not supported yet");
}

// Checks that a masked model works on each row by itself after its blocks, because only the
// predicted positions are computed there. Throws InputError otherwise.
void check_masked_head(const ImportedGraph& graph) {
  const auto is_block = [&](const ImportedOperation& operation) {
    return graph.units[static_cast<std::size_t>(operation.unit)].is_block;
  };
  bool blocks_began = false, blocks_ended = false;
  for (const ImportedOperation& operation : graph.operations) {
    blocks_began = blocks_began || is_block(operation);
    blocks_ended = blocks_ended || (blocks_began && !is_block(operation));
    if (!blocks_ended) continue;
    const bool of_rows = operation.op != Op::attention && operation.op != Op::rope &&
                         operation.op != Op::add_position && operation.op != Op::embedding;
    if (is_block(operation) || !of_rows)
      throw InputError(
          graph.file + ": " + operation.module +
          ": a masked model that looks at several tokens after its blocks is not known");
  }
}

void check_attention(const ImportedGraph& graph) {
  for (const ImportedOperation& operation : graph.operations) {
    if (operation.op != Op::attention) continue;
    for (ImportedOperation::Operand input : operation.inputs) {
      using OperandKind = ImportedOperation::Operand::Kind;
      const auto is_of_heads = [&] {
        const Op op = graph.operations[static_cast<std::size_t>(input.index)].op;
        return op == Op::rope || op == Op::head_norm;
      };
      while (input.kind == OperandKind::operation && is_of_heads())
        input = graph.operations[static_cast<std::size_t>(input.index)].inputs[0];
      if (input.kind != OperandKind::operation ||
          graph.operations[static_cast<std::size_t>(input.index)].op != Op::linear)
        throw InputError(graph.file + ": " + operation.module +
                         ": queries, keys and values that no linear layer makes are not known");
    }
  }
}

}  // namespace

std::string unlike_blocks(const ImportedGraph& graph) {
  std::vector<int> blocks;
  for (std::size_t u = 0; u < graph.units.size(); ++u)
    if (graph.units[u].is_block) blocks.push_back(static_cast<int>(u));
  for (std::size_t i = 1; i < blocks.size(); ++i)
    if (blocks[i] != blocks[i - 1] + 1) return "there are others between them";
  const BlockShape first = shape_of(graph, blocks.front());
  for (const int block : blocks) {
    const std::string& path = graph.units[static_cast<std::size_t>(block)].path;
    const BlockShape shape = shape_of(graph, block);
    if (shape.reads.size() != 1 || shape.read.size() != 1)
      return path + " reads or makes more than one tensor";
    if (shape.operations != first.operations || shape.read != first.read ||
        !have_same_attributes(graph, block, blocks.front()))
      return path + " is another than " +
             graph.units[static_cast<std::size_t>(blocks.front())].path;
  }
  return "";
}

namespace {

Model model_of_file(const OnnxFile& file) {
  const std::string& path = file.path;
  OnnxReading reading = read_with(file, short_sequence);
  const std::int64_t positions = reading.model.positions;
  const std::int64_t longer = positions > 0 ? std::min(positions, long_sequence) : long_sequence;
  if (longer > reading.trace.sequence && reading.trace.sequence == short_sequence) {
    OnnxReading again = read_with(file, longer);
    // The mask of a longer sequence may show a window, so the second reading is kept.
    if (again.trace.sequence == longer) {
      if (again.graph.operations.size() != reading.graph.operations.size())
        throw InputError(path + ": is another graph for longer sequences");
      reading = std::move(again);
    }
  }
  Model model = std::move(reading.model);
  check_chain(reading.graph);
  check_sharing(reading.graph);
  if (model.head == Head::mlm) check_masked_head(reading.graph);
  check_attention(reading.graph);
  cut_parameters(reading.graph, model.vocabulary);
  reading.graph.unlike = unlike_blocks(reading.graph);
  model.name = std::filesystem::path(path).stem().string();
  model.imported = std::make_shared<const ImportedGraph>(std::move(reading.graph));
  return model;
}

}  // namespace

Model read_onnx(const std::string& path) { return model_of_file(read_onnx_file(path)); }

OnnxWeights::OnnxWeights(const std::string& path) : file_(read_onnx_file(path)) {
  const Model model = model_of_file(file_);
  for (const ImportedParameter& p : model.imported->parameters) index_[p.name] = p;
}

std::vector<std::string> OnnxWeights::names() const {
  std::vector<std::string> names;
  for (const auto& [name, place] : index_) names.push_back(name);
  return names;
}

std::vector<float> OnnxWeights::read(const std::string& name) const {
  const auto found = index_.find(name);
  if (found == index_.end()) throw InputError(file_.path + ": has no " + name + " any more");
  const bool transposed = found->second.transposed;
  const OnnxTensor& tensor = file_.weights[static_cast<std::size_t>(found->second.weight)];
  const std::vector<double> values = values_of(file_, tensor);
  std::vector<float> result(static_cast<std::size_t>(found->second.shape.elements()));
  const auto rows = static_cast<std::size_t>(tensor.dims[0]);
  const std::size_t columns = transposed ? static_cast<std::size_t>(tensor.dims[1]) : 1;
  for (std::size_t i = 0; i < result.size(); ++i)
    result[transposed ? i % columns * rows + i / columns : i] = static_cast<float>(values[i]);
  return result;
}

}  // namespace meshwright::architectures
