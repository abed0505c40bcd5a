// Tests the models of the scenarios of the quick start and of the checks on a GPU.
#include <nlohmann/json.hpp>

#include "models/architectures/model.h"
#include "models/core/fields.h"
#include "models/program/graph/graph.h"
#include "tests/catch.h"

using namespace meshwright::tests;

namespace {

const std::string scenarios = std::string(MESHWRIGHT_SOURCE_DIR) + "/scenarios";

std::int64_t parameters(const Model& model, int sequence_length) {
  Training training;
  training.global_batch = 1;
  training.sequence_length = sequence_length;
  return parameter_count(build_graph(model, training));
}

}  // namespace

TEST_CASE("the quick start plans Llama-2 7B", "[models][scenarios]") {
  const Model model = load_model("models/llama-2-7b/config.json", scenarios);
  CHECK(parameters(model, 4096) == 6738415616);  // as published
}

TEST_CASE("the quick start trains a model of about five million parameters",
          "[models][scenarios]") {
  // A block has 12 h^2 weights and 13 h biases and norms. With six blocks, the tables of bytes and
  // of positions and the last norm, there are 6 (12*256*256 + 13*256) + 256*256 + 128*256 + 2*256
  // parameters.
  const Model model =
      read_model(read_json_file(scenarios + "/quickstart-train.json").object("model"));
  CHECK(parameters(model, 128) == 4837376);
}

TEST_CASE("the checks on a GPU train GPT-2 124M and XL, and a Llama of 1.1 billion parameters",
          "[models][scenarios]") {
  const auto parameters_of = [](const std::string& name, int sequence_length) {
    auto file = read_json_file(scenarios + "/" + name + ".json");
    return parameters(load_model(file.required<std::string>("model"), scenarios), sequence_length);
  };
  CHECK(parameters_of("gpu-gpt2", 1024) == 124439808);      // as published
  CHECK(parameters_of("gpu-gpt2-xl", 1024) == 1557611200);  // as published
  // A block has 2*2048*2048 parameters for queries and output, 2*256*2048 for keys and values,
  // 3*5632*2048 in its gated MLP, and two norms. There are 22 blocks, two tables of 32000*2048, and
  // the last norm.
  CHECK(parameters_of("gpu-llama-1b", 4096) == 1100048384);
}
