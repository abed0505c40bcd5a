// Converts between virtual stages and the notations in which frameworks assign layers to stages:
// counts of layers, or a layout with a letter for each unit.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "models/architectures/model.h"
#include "models/compiler/plan/plan.h"
#include "models/core/json.h"

namespace meshwright::architectures {
struct ArchitectureInfo;
}

namespace meshwright::compiler {

struct StageUnits {
  bool embedding = false;
  int layers = 0;
  bool head = false;
  bool operator==(const StageUnits&) const = default;
};

// Returns the virtual stages in order of execution. Returns an empty list if there is only one, or
// if layers are spread evenly, with the embedding on the first stage and the head on the last.
std::vector<StageUnits> stages_of(const Plan& plan, const Model& model);

// layout_text() and read_layout() convert to and from "Ettt|ttt|ttL", as
// megatron.core.transformer.pipeline_parallel_layer_layout reads it: `t*3` and `(tt|)*3` repeat,
// and commas may separate letters. `m` is a layer of multi-token prediction, which is on the stage
// of the head. read_layout() throws InputError without a file name or key if the text is malformed,
// if E is not exactly once in it and on the first stage, if L is not exactly once in it and on the
// last stage, or if an `m` is not on the last stage.
std::string layout_text(const std::vector<StageUnits>& stages, int mtp_layers = 0);
std::vector<StageUnits> read_layout(std::string_view text);

// Returns the units at which stages begin, by their paths, with the number of the stage, as
// parallelism.partition names stages: the embedding, the first layer of each stage, and the head if
// its stage has no layers.
std::map<std::string, int> first_units(const std::vector<StageUnits>& stages,
                                       const ArchitectureInfo& names);

// Returns the value of parallelism.partition: "even", or the first unit of each stage by its path.
// `model_type` is as in a config.json.
json partition_of(const std::vector<StageUnits>& stages, std::string_view model_type);

// Writes the stages of the plan as a partition that the job file and layouts can hold: even, or a
// first unit for each stage. Leaves the plan as it is if its stages are not known yet, or if a
// stage has no unit.
void name_stages(Plan& plan, const Model& model);

}  // namespace meshwright::compiler
