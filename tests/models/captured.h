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

// Adds what one of `degree` ranks of a tensor group runs of a model of captured_json() without
// skips: each block cuts `up` by its outputs and `down` by its inputs, and the ranks exchange its
// input and its output, or with `by_sequence` the rows of the sequence.
inline void add_tensor_degree(nlohmann::json& model, int degree, bool by_sequence) {
  using nlohmann::json;
  json rank = {
      {"degree", degree},         {"sequence_parallel", by_sequence}, {"cuts", json::array()},
      {"summed", json::array()},  {"tensors", model["tensors"]},      {"kinds", model["kinds"]},
      {"segments", json::array()}};
  const auto tensor = [&](const json& like) {
    rank["tensors"].push_back(like);
    return rank["tensors"].size() - 1;
  };
  const auto exchange = [&](const std::string& word, const std::string& module, const json& from,
                            const json& like) {
    const auto made = tensor(like);
    rank["segments"].push_back(
        {{"module", module}, {"collective", word}, {"reads", {from}}, {"makes", {made}}});
    return made;
  };
  for (json segment : model["segments"]) {
    const std::string module = segment["module"];
    if (!module.starts_with("h.")) {
      rank["segments"].push_back(segment);
      continue;
    }
    for (int i = 0; i < 2; ++i) {
      const json parameter = segment["parameters"][static_cast<std::size_t>(i)];
      const auto& shape = model["parameters"][parameter.get<std::size_t>()]["shape"];
      rank["cuts"].push_back(
          {{"parameter", parameter}, {"axis", i}, {"parts", {shape[static_cast<std::size_t>(i)]}}});
    }
    const json input = segment["reads"][0], output = segment["makes"][0];
    const json whole = model["tensors"][input.get<std::size_t>()];
    json share = whole;
    share["bytes"][1] = whole["bytes"][1].get<double>() / degree;
    const auto rows = by_sequence ? exchange("sequence_slice", module, input, share) : 0;
    const auto all = by_sequence ? exchange("sequence_gather", module, rows, whole)
                                 : exchange("tensor_copy", module, input, whole);
    const auto partial = tensor(whole);
    segment["reads"] = {all};
    segment["saves"] = {all};
    segment["makes"] = {partial};
    rank["segments"].push_back(segment);
    // The last exchange makes the tensor that the next segment reads.
    const auto last = by_sequence ? exchange("sequence_scatter", module, partial, share) : partial;
    rank["segments"].push_back({{"module", module},
                                {"collective", by_sequence ? "sequence_gather" : "tensor_reduce"},
                                {"gradient_is_whole", by_sequence},
                                {"reads", {last}},
                                {"makes", {output}}});
  }
  rank["loss"] = model["loss"];
  model["tensor_parallel"].push_back(rank);
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
