// Fuzzes the reader of ONNX files. A file is rejected with a message that begins with its path, or
// gives a model whose graph obeys the rules of graphs.
#include <algorithm>

#include "models/architectures/model.h"
#include "models/program/graph/graph.h"
#include "tests/fuzz/fuzz.h"

using namespace meshwright::tests;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string path = fuzz::input_file("model.onnx", fuzz::text_of(data, size));
  const auto model = fuzz::read_or_refused(path + ": ", [&] { return load_model(path, "/"); });
  if (!model) return 0;
  Training training;
  training.micro_batch = 1;
  training.sequence_length = model->learned_positions ? std::min(4, model->positions) : 4;
  verify(build_graph(*model, training), "lay_out");
  return 0;
}
