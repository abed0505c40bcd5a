// Hugging Face's safetensors: the length of a JSON header (8 bytes, little-endian), the header
// {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}, the data.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "exec/checkpoint/file.h"
#include "models/program/graph/tensor_type.h"

namespace meshwright {

struct StoredTensor {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0, end = 0;  // bytes of the data
};

// A total function of any bytes: InputError `where: what is wrong`.
std::map<std::string, StoredTensor> parse_safetensors_header(std::string_view header,
                                                             std::int64_t data_bytes,
                                                             const std::string& where);

// A model's tensors: a .safetensors file, or a folder with model.safetensors or, in several files,
// model.safetensors.index.json. Every fault is an InputError or RunError that names the file.
class Safetensors {
 public:
  explicit Safetensors(const std::string& path);

  // Returns the stored name of the tensor with this published name. Also accepts names without the
  // first part ("transformer."), and the older spellings of some names. Empty means that there is
  // no such tensor.
  std::string find(const std::string& name) const;
  // Returns a tensor in fp32, read from F32, F16, BF16 or F64, or from few bits with scales stored
  // next to them (scaled_weights.h) under the name of the tensor that they represent. Throws
  // InputError if the shape is wrong.
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
  std::map<std::string, Place> scales_;  // by the name of what they scale
};

// Everything before the data of a file that holds these fp32 tensors one after another, by name.
std::string safetensors_header(const std::map<std::string, Shape>& tensors);

}  // namespace meshwright
