// Holds the graph that was read from an ONNX file, in the operations of meshwright (Op), for any
// micro-batch and sequence length. lay_out() makes the graph of a job from it.
//
// How a file becomes such a graph (read_onnx.h), and why:
// - Most values that do not depend on the tokens are computed while the file is read (fold()), and
//   most operations that only move elements become views (view.h). The rest is matched against the
//   table of operations: a decomposed layer norm, gelu, rotary embedding or attention becomes one
//   operation. So the graph has the same operations as that of a model family, and all passes, the
//   planner, the kernels and the lowering work on it. Mapping node by node onto the operations of
//   an eager framework would have been less work, but only the simplest plans could have been made
//   for it.
// - Parameters have the names and shapes that they have in PyTorch, as far as the file tells them.
//   An exporter may transpose the matrix of a linear layer and name it onnx::MatMul_671. Both are
//   undone.
// - Units, the parts that pipeline stages consist of, are found by path. A block is a path up to
//   its first number (`transformer.h.0`). All modules before the blocks are one unit, and after
//   them each module with parameters is one.
// - If all blocks are alike, a graph with more or fewer of them can be laid out, as the planner
//   asks for. A graph with unlike blocks can be simulated and trained, but no plan can be searched
//   for it.
#pragma once

#include <string>
#include <vector>

#include "models/program/graph/graph.h"

namespace meshwright::program {
struct Training;
}

namespace meshwright::architectures {

struct Model;

struct ImportedParameter {
  std::string name;
  Shape shape;
  Cut cut;
  Initial initial = Initial::normal;
  int weight = -1;          // index into OnnxFile::weights, whose first elements are taken
  bool transposed = false;  // the initializer has the two dimensions swapped
};

struct ImportedOperation {
  // Describes an operand: the output of operation `index`, parameter `index`, or the tokens.
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
  Attributes attributes;  // without the values that the job decides
};

struct ImportedGraph {
  std::string file;
  std::vector<ImportedParameter> parameters;
  std::vector<ImportedOperation> operations;  // the last makes the logits
  std::vector<Unit> units;
  std::string unlike;  // why blocks are not alike, in words; "" if they are
};

// Returns the forward graph of one micro-batch of a model whose `imported` is set. build_graph()
// calls it for such models. Throws NotSupportedYet if model.layers is not the file's number of
// blocks and the blocks are not alike.
Graph lay_out(const Model& model, const Training& training);

}  // namespace meshwright::architectures
