// Reads models from configuration files, and looks things up in their graphs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "models/architectures/model.h"
#include "models/program/graph/graph.h"
#include "tests/catch.h"
#include "tests/message_of.h"

namespace meshwright::tests {

inline const std::string source = MESHWRIGHT_SOURCE_DIR;  // folder that job files are relative to

inline Training training_of(int micro_batch, int sequence_length) {
  Training training;
  training.micro_batch = micro_batch;
  training.sequence_length = sequence_length;
  training.precision = Precision::bf16;
  return training;
}

inline Graph graph_of(const Model& model) { return build_graph(model, training_of(2, 16)); }

// Returns the number of parameters of a model, given its name.
inline std::int64_t count(const std::string& name) {
  return parameter_count(graph_of(load_model(name, source)));
}

// ours() reads a model from this project's JSON, theirs() from a config.json of Hugging Face.
inline Model ours(const std::string& text) {
  return read_model(Fields(parse_json(text, "m"), "m"));
}

inline Model theirs(nlohmann::json config) {
  return read_huggingface(Fields(std::move(config), "config.json"));
}

inline nlohmann::json config_of(const std::string& name) {
  return parse_json(read_file(zoo_folder() + "/" + name + ".json"), name);
}

// Returns the error for the config.json called `name` in which one key has another value.
inline std::string error_with(const std::string& name, const std::string& key,
                              const nlohmann::json& value) {
  nlohmann::json config = config_of(name);
  config[key] = value;
  return message_of([&] { theirs(config); });
}

inline const Parameter& parameter(const Graph& graph, const std::string& name) {
  for (const Parameter& p : graph.parameters)
    if (p.name == name) return p;
  FAIL("no parameter " << name);
  return graph.parameters.front();
}

inline bool has_parameter(const Graph& graph, const std::string& name) {
  for (const Parameter& p : graph.parameters)
    if (p.name == name) return true;
  return false;
}

inline int users(const Graph& graph, int tensor) {
  int count = 0;
  for (const Node& node : graph.nodes)
    for (int id : node.inputs) count += id == tensor;
  return count;
}

inline int nodes_of(const Graph& graph, Op op) {
  int count = 0;
  for (const Node& node : graph.nodes) count += node.op == op;
  return count;
}

}  // namespace meshwright::tests
