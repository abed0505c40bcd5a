// Checkpoints from Hugging Face's safetensors, and back; of experts and of matrices that are
// published as one under their published names.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "exec/checkpoint/load.h"
#include "exec/checkpoint/safetensors.h"
#include "models/program/graph/published.h"

namespace meshwright {

using PublishedParts = std::map<std::string, PublishedPart>;  // of the parameters that are parts

// Writes the checkpoint of step 0 into `folder`: weights only. A parameter that is not there is an
// InputError. Returns the names that were not needed. `others`: parameters that are made instead.
using MadeParameters = std::map<std::string, std::function<std::vector<float>()>>;
std::vector<std::string> import_weights(const Safetensors& from,
                                        const std::map<std::string, Shape>& parameters,
                                        const Manifest& about, const std::string& folder,
                                        const PublishedParts& parts = {},
                                        const MadeParameters& others = {});

// Writes the weights, or another state, fp32, as one file in the order of names, as transformers
// does.
void export_weights(const Checkpoint& from, const std::map<std::string, Shape>& parameters,
                    const std::string& file, const PublishedParts& parts = {}, int state = 0);

// Does the same for weights that `read` returns: it writes elements run.global ... of a parameter.
using WeightReader =
    std::function<void(const std::string& parameter, const ParameterRun& run, float* to)>;
void export_weights(const WeightReader& read, const std::map<std::string, Shape>& parameters,
                    const std::string& file, const PublishedParts& parts);

}  // namespace meshwright
