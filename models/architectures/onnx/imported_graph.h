// A graph that was read from an ONNX file, in our operations, for any micro-batch and length of
// sequences: what build_graph() lays out for a job.
//
// How a file becomes one (read_onnx.h), and why so:
// - What is known without tokens and weights is computed with a small batch (fold), what only moves
//   elements is a view (view.h), and what is left is matched against our table of operations: a
//   decomposed layer norm, gelu, rotary positions or attention becomes one operation of ours. So
//   the graph is of the same operations as that of a model family, and everything that passes,
//   planner, kernels and lowering know about them holds. Mapping node by node onto the operations
//   of an eager framework would have been less work, but no plan but the simplest could have been
//   made for it.
// - Parameters have the names and shapes that the file's module has in PyTorch: the exporter
//   transposes matrices of linear layers and names them onnx::MatMul_671; they are put back.
// - Units are found by path: up to its first number (`transformer.h.0`) a block, all before the
//   blocks one unit, after them one for each module.
// - Where all blocks are alike, a graph with more or fewer of them can be laid out, as the planner
//   asks for; a graph with other blocks can be simulated and trained, not searched.
#pragma once

#include <string>
#include <vector>

#include "models/program/graph/graph.h"

namespace meshwright {

struct Model;
struct Training;

struct ImportedParameter {
  std::string name;
  Shape shape;
  Cut cut;
  Initial initial = Initial::normal;
  int weight = -1;          // the file's initializer
  bool transposed = false;  // which has the two dimensions the other way round
};

struct ImportedOperation {
  // An operand: the output of an operation, a parameter, or the tokens.
  struct Operand {
    enum class Kind : std::uint8_t { operation, parameter, tokens };
    Kind kind = Kind::operation;
    int index = 0;
    bool operator==(const Operand&) const = default;
  };
  Op op = Op::add;
  std::string module;
  int unit = 0;
  std::vector<Operand> inputs;
  Attributes attributes;  // without what the job decides
};

struct ImportedGraph {
  std::string file;
  std::vector<ImportedParameter> parameters;
  std::vector<ImportedOperation> operations;  // the last makes the logits
  std::vector<Unit> units;
  std::string unlike;  // why blocks are not alike, in words; "": they are
};

// As build_graph(); model.imported is given. Another number of layers than the file has, where its
// blocks are not alike: NotSupportedYet.
Graph lay_out(const Model& model, const Training& training);

}  // namespace meshwright
