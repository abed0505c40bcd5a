// Reads a model from an ONNX file: the forward graph of a transformer as torch.onnx and optimum
// export it, with operator sets 13 to 25.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/architectures/model.h"
#include "models/architectures/onnx/file.h"
#include "models/architectures/onnx/imported_graph.h"
#include "models/architectures/onnx/trace.h"
#include "models/program/graph/tensor_type.h"

namespace meshwright::architectures {

// Returns the model of a file. Its `imported` holds the graph, and its sizes are those of the
// graph's blocks. Throws InputError or NotSupportedYet with a message that begins with the path.
Model read_onnx(const std::string& path);

// Gives the weights of a file under the names of the model's parameters.
class OnnxWeights {
 public:
  explicit OnnxWeights(const std::string& path);
  std::vector<std::string> names() const;
  bool has(const std::string& name) const { return index_.contains(name); }
  // Returns the elements of a parameter in the order in which the model stores them. A matrix that
  // the exporter transposed is transposed back. Throws InputError if the file has no such
  // parameter.
  std::vector<float> read(const std::string& name) const;

 private:
  OnnxFile file_;
  std::map<std::string, ImportedParameter> index_;
};

// Turns the expressions of a trace into a graph of operations, and writes the sizes of its blocks
// to `model`.
ImportedGraph emit_onnx(const OnnxFile& file, const OnnxTrace& trace, Model& model);

// Sets which parameters tensor parallelism splits, and how. Queries, keys, values and the first
// matrices of an MLP are split by outputs. The matrices after attention and after an MLP's
// activation are split by inputs, and are initialized as matrices that write into the residual
// stream. The token table and the head are split by the vocabulary. An MLP is not split if other
// operations make or read its inner tensors.
void cut_parameters(ImportedGraph& graph, std::int64_t vocabulary);

// Returns in words why the blocks are not alike, or "" if they are. The graph has to have a block.
std::string unlike_blocks(const ImportedGraph& graph);

}  // namespace meshwright::architectures
