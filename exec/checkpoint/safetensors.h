// Reads Hugging Face's safetensors files, and makes their headers. A file holds the length of a
// JSON header (8 bytes, little-endian), the header {"name": {"dtype": "F32", "shape": [2, 3],
// "data_offsets": [0, 24]}, ...}, and the data.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "exec/checkpoint/file.h"
#include "models/program/graph/tensor_type.h"

namespace meshwright::exec {

struct StoredTensor {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0, end = 0;  // offsets in the data, in bytes
};

// Returns the tensors that a header describes, by name. Accepts any bytes. Throws InputError
// `where: what is wrong` if they are not a header whose tensors fill `data_bytes` bytes of data.
std::map<std::string, StoredTensor> parse_safetensors_header(std::string_view header,
                                                             std::int64_t data_bytes,
                                                             const std::string& where);

// A model's tensors, from a .safetensors file or from a folder. The folder holds model.safetensors
// or, if there are several files, model.safetensors.index.json. Functions throw an InputError or
// RunError that names the file.
class Safetensors {
 public:
  explicit Safetensors(const std::string& path);

  // Returns the stored name of the tensor with this published name. The stored name may lack the
  // published one's first part ("transformer."), have the prefix "language_model.", or be another
  // spelling of some names. Empty means that there is no such tensor.
  std::string find(const std::string& name) const;
  // Returns a tensor in fp32. It may be stored as F32, F16, BF16 or F64, or in few bits with scales
  // next to it (scaled_weights.h). Throws InputError if the tensor has another shape or an
  // unsupported type.
  std::vector<float> read(const std::string& stored_name, const Shape& shape) const;
  std::vector<std::string> names() const;

 private:
  struct Source {
    File file;
    std::int64_t data_begin = 0;
  };
  struct Place {
    std::size_t source = 0;
    StoredTensor tensor;
  };
  void open(const std::string& path);
  void join_scales();
  void join_mxfp4(const std::string& blocks);
  std::string bytes_of(const Place& place) const;
  std::vector<float> read_scaled(const std::string& name, const Place& place,
                                 const Place& scales) const;

  std::vector<Source> sources_;
  std::map<std::string, Place> places_;
  std::map<std::string, Place> scales_;  // by the name of the tensor that they scale
};

// Returns everything that precedes the data in a file that holds these fp32 tensors one after
// another, in the order of their names.
std::string safetensors_header(const std::map<std::string, Shape>& tensors);

}  // namespace meshwright::exec
