// Writes small ONNX files byte by byte. A message of protocol buffers is a list of fields, each
// with a number, a kind (0: an integer, 2: bytes) and a value (protobuf.dev, "Encoding").
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace meshwright::tests {

inline std::string wire_number(std::uint64_t number) {
  std::string bytes;
  for (; number >= 128; number >>= 7) bytes += static_cast<char>((number & 127) | 128);
  return bytes + static_cast<char>(number);
}
inline std::string wire_field(int field, std::uint64_t number) {
  return wire_number(static_cast<std::uint64_t>(field) << 3) + wire_number(number);
}
inline std::string wire_field(int field, const std::string& bytes) {
  return wire_number(static_cast<std::uint64_t>(field) << 3 | 2) + wire_number(bytes.size()) +
         bytes;
}

// Builds the bytes of a ModelProto. Each function adds one message to `graph`, and file() returns
// the whole file.
struct OnnxWriter {
  std::string graph;

  void node(const std::string& op, const std::string& name, const std::vector<std::string>& inputs,
            const std::vector<std::string>& outputs) {
    std::string bytes;
    for (const std::string& input : inputs) bytes += wire_field(1, input);
    for (const std::string& output : outputs) bytes += wire_field(2, output);
    graph += wire_field(1, bytes + wire_field(3, name) + wire_field(4, op));
  }
  void weight(const std::string& name, const std::vector<std::uint64_t>& dims,
              const std::string& more = {}) {
    std::string bytes;
    std::uint64_t count = 4;
    for (const std::uint64_t dim : dims) bytes += wire_field(1, dim), count *= dim;
    bytes += wire_field(2, 1) + wire_field(8, name);
    graph += wire_field(5, bytes + (more.empty() ? wire_field(9, std::string(count, '\0')) : more));
  }
  // Adds an input of int64, with a name for each dimension.
  void input(const std::string& name, const std::vector<std::string>& dims) {
    std::string shape;
    for (const std::string& dim : dims) shape += wire_field(1, wire_field(2, dim));
    const std::string type = wire_field(1, wire_field(1, 7) + wire_field(2, shape));
    graph += wire_field(11, wire_field(1, name) + wire_field(2, type));
  }
  void output(const std::string& name) { graph += wire_field(12, wire_field(1, name)); }
  std::string file(int opset = 17) const {
    return wire_field(1, 8) + wire_field(7, graph) +
           wire_field(8, wire_field(2, static_cast<std::uint64_t>(opset)));
  }
};

// Returns the beginning of a graph, from input_ids through a table `t` [5,4]. The caller adds what
// comes after it.
inline OnnxWriter begun_onnx() {
  OnnxWriter writer;
  writer.input("input_ids", {"batch", "sequence"});
  writer.output("logits");
  writer.weight("t.weight", {5, 4});
  writer.weight("head.weight", {4, 5});
  writer.node("Gather", "/t/Gather", {"t.weight", "input_ids"}, {"x"});
  return writer;
}

}  // namespace meshwright::tests
