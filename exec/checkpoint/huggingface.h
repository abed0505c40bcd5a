// Imports Hugging Face's safetensors as a checkpoint, and exports a checkpoint as safetensors.
// Experts, and parameters that are parts of one published matrix, are found under their published
// names.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "exec/checkpoint/load.h"
#include "exec/checkpoint/safetensors.h"
#include "models/program/graph/published.h"

namespace meshwright::exec {

using PublishedParts = std::map<std::string, PublishedPart>;  // by parameter's name

using MadeParameters = std::map<std::string, std::function<std::vector<float>()>>;
using TakeWeights =
    std::function<void(const std::string& name, const Shape& shape, std::vector<float> values)>;

// Calls `take` with the values of each of `parameters`, in the order of their names. `parts` has an
// entry for each parameter that is a part of a published tensor. `others` makes the values of
// parameters that are not read from `from`. Returns the names of the tensors in `from` that were
// not needed. Throws InputError if `from` lacks a parameter that `others` does not make.
std::vector<std::string> read_weights(const Safetensors& from,
                                      const std::map<std::string, Shape>& parameters,
                                      const PublishedParts& parts, const MadeParameters& others,
                                      const TakeWeights& take);

// Writes a checkpoint of weights only, at the step of `about`, which is 0, into `folder`. Returns
// the names of the tensors in `from` that were not needed. Throws InputError as read_weights()
// does, and RunError if the checkpoint cannot be written.
std::vector<std::string> import_weights(const Safetensors& from,
                                        const std::map<std::string, Shape>& parameters,
                                        const Manifest& about, const std::string& folder,
                                        const PublishedParts& parts = {},
                                        const MadeParameters& others = {});

// Writes the weights, or the checkpoint's state with index `state`, in fp32 to one safetensors
// file. Tensors are in the order of their published names, as in files of transformers.
void export_weights(const Checkpoint& from, const std::map<std::string, Shape>& parameters,
                    const std::string& file, const PublishedParts& parts = {}, int state = 0);

// Writes weights from any source, in fp32, to one safetensors file. For each run of a parameter,
// `read` must write the elements [run.global, run.global + run.count) to `to`.
using WeightReader =
    std::function<void(const std::string& parameter, const ParameterRun& run, float* to)>;
void export_weights(const WeightReader& read, const std::map<std::string, Shape>& parameters,
                    const std::string& file, const PublishedParts& parts);

}  // namespace meshwright::exec
