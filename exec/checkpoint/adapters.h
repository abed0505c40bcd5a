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

// Those of a graph that has them (models/compiler/passes/graph/add_adapters.h), in its order.
std::vector<Adapter> adapters_of(const Graph& graph, const Lora& lora);

// Modules that are trained whole beside adapters: all that is trained and no adapter, by path.
std::vector<std::string> trained_whole(const Graph& graph);

// The name of a trained parameter in peft's file.
std::string peft_name(const std::string& parameter);

// What peft reads of them; `whole`: of the modules that are trained whole.
std::string peft_config(const Lora& lora, const std::vector<Adapter>& adapters,
                        const std::vector<std::string>& whole = {});

// Refuses an adapter that another config made: InputError.
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

  // All of a parameter; of a layer that has an adapter, with that.
  std::vector<float> merged(const std::string& name) const;
  std::vector<float> plain(const std::string& name) const;
};

// As export_weights(), with adapters added to the weights they belong to.
void export_merged(const AdaptedWeights& from, const std::map<std::string, Shape>& parameters,
                   const std::string& file, const PublishedParts& parts);

}  // namespace meshwright
