// The models that the scenarios of the quick start name.
#include <nlohmann/json.hpp>

#include "models/core/fields.h"
#include "models/importers/model.h"
#include "tests/catch.h"

using namespace meshwright;

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
  // A block: 12 h^2 weights and 13 h biases and norms; six of them, the byte and position tables,
  // the last norm: 6 (12*256*256 + 13*256) + 256*256 + 128*256 + 2*256.
  const Model model =
      read_model(read_json_file(scenarios + "/quickstart-train.json").object("model"));
  CHECK(parameters(model, 128) == 4837376);
}
