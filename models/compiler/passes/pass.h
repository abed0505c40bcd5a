// Graph passes: free functions, run from one visible ordered list (pipelines.cpp), the graph
// verified after each.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "models/compiler/plan/plan.h"
#include "models/core/error.h"
#include "models/program/device_facts.h"
#include "models/program/graph/graph.h"

namespace meshwright {

// The compiler levels at which a pass runs: bit i is that of CompilerLevel i.
enum Levels : unsigned { at_none = 1, at_fused = 2, at_full = 4, at_every_level = 7 };

// These are the two kinds of passes. A pass that weighs the device's time is told about the device.
using PlanPass = Graph (*)(Graph graph, const Plan& plan);
using DevicePass = Graph (*)(Graph graph, const Plan& plan, const DeviceFacts& device);

struct Pass {
  std::string_view name;
  std::string_view why_here;
  std::variant<PlanPass, DevicePass> function;
  unsigned levels = at_every_level;
  // Without it the graph means the same, but takes longer or more memory: training.passes_off may
  // name it.
  bool optional = false;

  Graph run(Graph graph, const Plan& plan, const DeviceFacts& device = {}) const;
};

// Called after each pass. `seconds` is the time of the pass and of the check of its graph.
using PassObserver = std::function<void(const Pass& pass, const Graph& graph, double seconds)>;

// Returns the passes of all levels that turn a model's forward graph into what is lowered, in
// order.
std::span<const Pass> training_passes();

// Returns the passes that run at the training's level and are not switched off.
std::vector<Pass> passes_of(const Training& training);

// Throws InputError with the JSON pointer if training.passes_off names anything but optional
// passes.
void check_passes_off(const Training& training);

// A tensor of a step is so large that its bytes could not be counted. No device could hold it, so
// the planner takes it for a plan that does not fit.
class ImmenseTensor : public InputError {
 public:
  using InputError::InputError;
};

// Throws ImmenseTensor where a graph has a tensor of more than 1e15 bytes.
Graph run_passes(Graph graph, const Plan& plan, const DeviceFacts& device = {},
                 const PassObserver& observe = {});

}  // namespace meshwright
