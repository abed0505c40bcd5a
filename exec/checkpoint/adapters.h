// Low-rank adapters as peft stores them, `adapter_config.json` and `adapter_model.safetensors`; and
// a model's weights with them added.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "exec/checkpoint/huggingface.h"
#include "models/program/graph/adapters.h"
#include "models/program/graph/graph.h"

namespace meshwright {

// The adapter of a linear layer: W + factor * B A.
struct Adapter {
  std::string module;
  std::string weight, first, second;  // names of W, A and B
  bool weight_in_out = false;
  double factor = 1;
};

// Returns the adapters of a graph to which models/compiler/passes/graph/add_adapters.h has added
// them, in the order of the graph's parameters.
std::vector<Adapter> adapters_of(const Graph& graph, const Lora& lora);

// Returns the modules, by path, whose own parameters are trained in addition to adapters.
std::vector<std::string> trained_whole(const Graph& graph);

// Returns the name that a trained parameter has in peft's file.
std::string peft_name(const std::string& parameter);

// Returns the text of peft's `adapter_config.json` for these adapters. `whole` names the modules
// that are trained whole.
std::string peft_config(const Lora& lora, const std::vector<Adapter>& adapters,
                        const std::vector<std::string>& whole = {});

// Throws InputError if the config in `file` describes other adapters than `lora` does.
void check_peft_config(const std::string& file, const Lora& lora);

// A checkpoint of a run that trains adapters, and what it begins with.
struct AdaptedWeights {
  const Checkpoint& trained;
  const Checkpoint* base = nullptr;        // null: `trained` has all, or the seed says it
  std::map<std::string, Parameter> whole;  // every parameter, on one rank
  std::vector<Adapter> adapters;
  std::uint64_t seed = 0;
  int layers = 1;
  int state = 0;  // of what is trained: 0 the weights, or another

  // `merged` returns a whole parameter, with its layer's adapter added if it has one. `plain`
  // returns it without the adapter.
  std::vector<float> merged(const std::string& name) const;
  std::vector<float> plain(const std::string& name) const;
};

// Does what export_weights() does, with the adapters added to the weights that they belong to.
void export_merged(const AdaptedWeights& from, const std::map<std::string, Shape>& parameters,
                   const std::string& file, const PublishedParts& parts);

}  // namespace meshwright
