// Makes small captured models as JSON, in the form that `capture` writes, without PyTorch.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "models/architectures/model.h"
#include "models/compiler/plan/plan.h"
#include "tests/test_folder.h"

namespace meshwright::tests {

// Returns a model of an embedding table, `blocks` blocks of two segments each, and a head whose
// weight is the table. A sample has width / 8 tokens. If `skips`, the last block also reads the
// output of the embedding.
inline nlohmann::json captured_json(int blocks, bool skips = false, int width = 64) {
  using nlohmann::json;
  const int tokens = width / 8, words = 100;
  const double activation = 4 * tokens * width;
  json model = {{"captured", 1},
                {"name", "small"},
                {"precision", "fp32"},
                {"micro_batch", 2},
                {"tokens_per_sample", tokens},
                {"inputs", json::array()},
                {"parameters", json::array()},
                {"tensors", json::array()},
                {"segments", json::array()}};
  for (const char* name : {"ids", "labels"})
    model["inputs"].push_back(
        {{"name", name}, {"dtype", "int64"}, {"shape", {2, tokens}}, {"batch_axis", 0}});
  const auto parameter = [&](const std::string& name, const json& shape) {
    model["parameters"].push_back({{"name", name}, {"shape", shape}, {"dtype", "float32"}});
    return model["parameters"].size() - 1;
  };
  const auto tensor = [&](const json& bytes) {
    model["tensors"].push_back({{"bytes", bytes}, {"gradient", true}});
    return model["tensors"].size() - 1;
  };
  const auto product = [&](double n, double k) {
    return json{{"kind", "gemm"},
                {"m", {0, tokens}},
                {"n", n},
                {"k", k},
                {"flops", {0, 2 * tokens * n * k}},
                {"bytes", {4 * n * k, 4 * tokens * (n + k)}}};
  };
  const json moves = {{"kind", "memory"}, {"bytes", {0, 2 * activation}}};
  model["kinds"] = {{{"forward", {moves}}, {"backward", {moves}}},
                    {{"random", true},
                     {"saved", {0, 3 * activation}},
                     {"workspace", {{"forward", {0, activation}}, {"backward", {64, activation}}}},
                     {"forward", {product(4 * width, width), moves, product(width, 4 * width)}},
                     {"backward",
                      {product(width, 4 * width), product(width, 4 * width),
                       product(4 * width, width), product(4 * width, width), moves}},
                     {"compiled",
                      {{"saved", {0, activation}},
                       {"forward", {product(4 * width, width), product(width, 4 * width)}},
                       {"backward", {product(width, 4 * width), product(4 * width, width)}}}}},
                    {{"saved", {0, 4 * tokens * words}},
                     {"forward", {product(words, width)}},
                     {"backward", {product(width, words), product(words, width)}}}};
  const auto table = parameter("embed.weight", {words, width});
  auto last = tensor({0, activation});
  const auto first = last;
  model["segments"].push_back({{"module", "embed"},
                               {"kind", 0},
                               {"inputs", {0}},
                               {"parameters", {table}},
                               {"makes", {last}}});
  for (int block = 0; block < blocks; ++block)
    for (const char* part : {"attention", "mlp"}) {
      const std::string module = "h." + std::to_string(block) + "." + part;
      const auto up = parameter(module + ".up", {4 * width, width});
      const auto down = parameter(module + ".down", {width, 4 * width});
      const auto made = tensor({0, activation});
      json reads = {last};
      if (skips && block + 1 == blocks && last != first) reads.push_back(first);
      model["segments"].push_back({{"module", module},
                                   {"kind", 1},
                                   {"reads", reads},
                                   {"saves", {last}},
                                   {"parameters", {up, down}},
                                   {"makes", {made}}});
      last = made;
    }
  const auto loss = tensor(4);
  model["segments"].push_back({{"module", "head"},
                               {"kind", 2},
                               {"inputs", {1}},
                               {"reads", {last}},
                               {"saves", {last}},
                               {"parameters", {table}},
                               {"makes", {loss}}});
  model["loss"] = loss;
  return model;
}

// Returns the model that is read from a file with this content.
inline Model read_captured_json(const nlohmann::json& content) {
  const TestFolder folder;
  return load_model(folder.file("own.model.json", content.dump()), "");
}

// Returns a plan for such a model in fp32, with 16 sequences for each replica.
inline Plan captured_plan(int pipeline, int data, int zero) {
  Plan plan;
  plan.parallelism.pipeline = pipeline;
  plan.parallelism.data = data;
  plan.parallelism.zero_stage = zero;
  plan.training.precision = Precision::fp32;
  plan.training.sequence_length = 8;
  plan.training.micro_batch = 2;
  plan.training.global_batch = 16 * data;
  return plan;
}

}  // namespace meshwright::tests
