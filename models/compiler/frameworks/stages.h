// Which layers lie on which virtual stage, as frameworks say it: counts, or a layout with a letter
// for each unit.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "models/architectures/model.h"
#include "models/compiler/plan/plan.h"

namespace meshwright {

struct StageUnits {
  bool embedding = false;
  int layers = 0;
  bool head = false;
  bool operator==(const StageUnits&) const = default;
};

// The virtual stages in order of execution. Layers that lie even, the embedding on the first stage
// and the head on the last: nothing.
std::vector<StageUnits> stages_of(const Plan& plan, const Model& model);

// "Ettt|ttt|ttL" and back, as megatron.core.transformer.pipeline_parallel_layer_layout reads it:
// `x*3` and `(tt|)*3` repeat, commas may stand between; `m` is a layer of multi-token prediction,
// which goes with the head. Wrong: InputError without a place.
std::string layout_text(const std::vector<StageUnits>& stages, int mtp_layers = 0);
std::vector<StageUnits> read_layout(std::string_view text);

// The stage of the first unit of each stage, by its path, as parallelism.partition names them.
struct ArchitectureInfo;
std::map<std::string, int> first_units(const std::vector<StageUnits>& stages,
                                       const ArchitectureInfo& names);

// The value of parallelism.partition: "even", or the first unit of each stage by its path.
// `model_type` as in a config.json.
nlohmann::json partition_of(const std::vector<StageUnits>& stages, std::string_view model_type);

// The stages that were found, said as a partition that the job file and layouts can hold.
void name_stages(Plan& plan, const Model& model);

}  // namespace meshwright
