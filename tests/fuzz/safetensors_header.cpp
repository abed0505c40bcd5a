// Fuzzes the reader of safetensors files. The input is the header, before which its length is put,
// and after which data.
#include <algorithm>
#include <cstring>

#include "exec/checkpoint/safetensors.h"
#include "tests/fuzz/fuzz.h"

using namespace meshwright::tests;

namespace {

constexpr std::int64_t data_bytes = 256;
using Tensors = std::map<std::string, StoredTensor>;

std::optional<Tensors> read(std::string_view header, std::int64_t bytes) {
  return fuzz::read_or_refused("fuzzed: ",
                               [&] { return parse_safetensors_header(header, bytes, "fuzzed"); });
}

// Returns the shapes of all tensors if meshwright could have written them: not empty, in fp32, with
// few enough dimensions. Otherwise returns nothing.
std::optional<std::map<std::string, Shape>> shapes_of(const Tensors& tensors) {
  std::map<std::string, Shape> shapes;
  for (const auto& [name, tensor] : tensors) {
    Shape& shape = shapes[name];
    if (tensor.dtype != "F32" || tensor.shape.size() > shape.dims.size() ||
        tensor.begin == tensor.end)
      return std::nullopt;
    for (std::int64_t size : tensor.shape) shape[shape.rank++] = size;
  }
  return shapes;
}

// Writes a file with this header and reads each tensor of it, which may be rejected for its type or
// shape.
void read_file_of(std::string_view header, const Tensors& tensors) {
  const std::uint64_t length = header.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  bytes.append(header).append(data_bytes, '\x3f');
  const std::string path = fuzz::input_file("model.safetensors", bytes);
  const Safetensors file(path);
  MESHWRIGHT_CHECK(file.names().size() == tensors.size(), "the file has the header's tensors");
  for (const auto& [name, tensor] : tensors) {
    if (tensor.shape.size() > Shape().dims.size()) continue;
    Shape shape;
    for (std::int64_t size : tensor.shape) shape[shape.rank++] = size;
    fuzz::read_or_refused(path + ": ", [&] { return file.read(name, shape); });
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  const auto tensors = read(text, data_bytes);
  if (!tensors) return 0;
  for (const auto& [name, tensor] : *tensors)
    MESHWRIGHT_CHECK(0 <= tensor.begin && tensor.begin <= tensor.end && tensor.end <= data_bytes,
                     "what is read lies in the file");
  read_file_of(text, *tensors);
  const auto shapes = shapes_of(*tensors);
  if (!shapes) return 0;
  const std::string written = safetensors_header(*shapes);
  std::int64_t bytes = 0;
  for (const auto& [name, shape] : *shapes) bytes += shape.elements() * 4;
  const auto again = read(std::string_view(written).substr(8), bytes);
  MESHWRIGHT_CHECK(again && shapes_of(*again) == shapes, "a header written is read as the same");
  return 0;
}
