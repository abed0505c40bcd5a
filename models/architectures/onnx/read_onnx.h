// A model that an ONNX file describes: the forward graph of a transformer as torch.onnx and optimum
// export it, operator sets 13 to 18.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "models/architectures/model.h"
#include "models/architectures/onnx/file.h"
#include "models/architectures/onnx/trace.h"
#include "models/program/graph/tensor_type.h"

namespace meshwright {

// `imported` is the graph; the numbers are those of its blocks. All faults are InputErrors that
// begin with the path, and name the node where there is one.
Model read_onnx(const std::string& path);

// The file's weights under the names that the model's parameters have.
class OnnxWeights {
 public:
  explicit OnnxWeights(const std::string& path);
  std::vector<std::string> names() const;
  bool has(const std::string& name) const { return index_.contains(name); }
  // As the parameter lies in the model: a matrix that the exporter transposed is put back.
  std::vector<float> read(const std::string& name) const;

 private:
  OnnxFile file_;
  std::map<std::string, std::pair<int, bool>> index_;
};

// From expressions to operations; numbers of the model's blocks go to `model`.
ImportedGraph emit_onnx(const OnnxFile& file, const OnnxTrace& trace, Model& model);

// Which parameters tensor parallelism cuts, and how: queries, keys, values and the first products
// of an MLP by their outputs, what follows attention and an activation by its inputs, tables and
// the head by the vocabulary. The latter write into the residual stream.
void cut_parameters(ImportedGraph& graph, std::int64_t vocabulary);

// In words why blocks are not alike; "" where they are.
std::string unlike_blocks(const ImportedGraph& graph);

}  // namespace meshwright
