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
// graph's blocks. Throws an InputError for every fault, or NotSupportedYet. The message begins with
// the path, and names the node if there is one.
Model read_onnx(const std::string& path);

// The file's weights under the names that the model's parameters have.
class OnnxWeights {
 public:
  explicit OnnxWeights(const std::string& path);
  std::vector<std::string> names() const;
  bool has(const std::string& name) const { return index_.contains(name); }
  // Returns the elements of a parameter in the order that the model stores them in. A matrix that
  // the exporter transposed is transposed back.
  std::vector<float> read(const std::string& name) const;

 private:
  OnnxFile file_;
  std::map<std::string, ImportedParameter> index_;
};

// Returns the graph of a trace: turns its expressions into operations. Writes the sizes of the
// blocks to `model`.
ImportedGraph emit_onnx(const OnnxFile& file, const OnnxTrace& trace, Model& model);

// Sets which parameters tensor parallelism splits, and how. Queries, keys, values and the first
// matmuls of an MLP are split by outputs. The matmuls after attention and after an activation are
// split by inputs, and are initialized as matrices that write into the residual stream. The token
// table and the head are split by the vocabulary.
void cut_parameters(ImportedGraph& graph, std::int64_t vocabulary);

// Returns in words why the blocks are not alike, or "" if they are.
std::string unlike_blocks(const ImportedGraph& graph);

}  // namespace meshwright::architectures
