// Low-rank adapters (LoRA) in the form in which peft stores them, `adapter_config.json` and
// `adapter_model.safetensors`, and the export of a model's weights with the adapters added.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "exec/checkpoint/huggingface.h"
#include "models/program/graph/adapters.h"
#include "models/program/graph/graph.h"

namespace meshwright::exec {

// An adapter of the linear layer `module`, whose weight becomes W + factor * B A. W and the product
// are [out, in]. If `weight_in_out` is set, both are stored transposed, as [in, out]. A is [rank,
// in] and B is [out, rank].
struct Adapter {
  std::string module;
  std::string weight, first, second;  // names of W, A and B
  bool weight_in_out = false;
  double factor = 1;
};

// Returns the adapters of a graph to which models/compiler/passes/graph/add_adapters.h has added
// them, in the order of the graph's parameters.
std::vector<Adapter> adapters_of(const Graph& graph, const Lora& lora);

// Returns the paths of the modules whose own parameters are trained in addition to the adapters.
std::vector<std::string> trained_whole(const Graph& graph);

// Returns the name that a trained parameter has in peft's file.
std::string peft_name(const std::string& parameter);

// Returns the text of peft's `adapter_config.json` for these adapters. `whole` names the modules
// that are trained whole.
std::string peft_config(const Lora& lora, const std::vector<Adapter>& adapters,
                        const std::vector<std::string>& whole = {});

// Throws InputError if the peft config in `file` has another rank or alpha than `lora`, or asks for
// something that is not supported (DoRA, trained biases, modules with different ranks, ...). Does
// not compare the target modules.
void check_peft_config(const std::string& file, const Lora& lora);

// The weights of a run that trains adapters: a checkpoint with the trained parameters, and the
// source of the frozen ones, which is `base`, `trained` itself or the seed.
struct AdaptedWeights {
  const Checkpoint& trained;
  const Checkpoint* base = nullptr;  // null: frozen weights are in `trained` or follow from `seed`
  std::map<std::string, Parameter> whole;  // every parameter, on one rank
  std::vector<Adapter> adapters;
  std::uint64_t seed = 0;
  int layers = 1;
  int state = 0;  // index of the state to read of trained parameters; 0: the weights

  // `merged` returns a whole parameter, with the adapter added if the parameter is the weight of an
  // adapted layer. `plain` returns it without the adapter.
  std::vector<float> merged(const std::string& name) const;
  std::vector<float> plain(const std::string& name) const;
};

// Writes the weights to `file` as export_weights() does, with each adapter added to the weight that
// it belongs to.
void export_merged(const AdaptedWeights& from, const std::map<std::string, Shape>& parameters,
                   const std::string& file, const PublishedParts& parts);

}  // namespace meshwright::exec
