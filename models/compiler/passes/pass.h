// Graph passes: free functions, run from one ordered list (pipelines.cpp). The graph is verified
// after each pass.
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

namespace meshwright::compiler {

// The compiler levels at which a pass runs. Bit i stands for the i-th CompilerLevel.
enum Levels : unsigned { at_none = 1, at_fused = 2, at_full = 4, at_every_level = 7 };

// The two kinds of passes. A DevicePass also gets facts about the device, for example to estimate
// the cost of kernels.
using PlanPass = Graph (*)(Graph graph, const Plan& plan);
using DevicePass = Graph (*)(Graph graph, const Plan& plan, const DeviceFacts& device);

struct Pass {
  std::string_view name;
  std::string_view why_here;
  std::variant<PlanPass, DevicePass> function;
  unsigned levels = at_every_level;
  // Whether the graph computes the same without the pass, and only takes more time or memory.
  // training.passes_off may name such passes.
  bool optional = false;

  Graph run(Graph graph, const Plan& plan, const DeviceFacts& device = {}) const;
};

// Is called after each pass with the graph that it made. `seconds` is the wall time of the pass and
// of the check of its graph.
using PassObserver = std::function<void(const Pass& pass, const Graph& graph, double seconds)>;

// Returns all passes, of every compiler level, in the order in which they turn a model's forward
// graph into the one that is lowered.
std::span<const Pass> training_passes();

// Returns the passes that run at the training's compiler level and are not switched off. fuse_loss
// is also left out if the plan follows a framework that runs PyTorch's operations. At level `full`,
// eager_loss runs only without fuse_loss.
std::vector<Pass> passes_of(const Training& training);

// Throws InputError, with the JSON pointer of the name, if training.passes_off names anything but
// optional passes.
void check_passes_off(const Training& training);

// Is thrown if a tensor of a step has more than 1e15 bytes. No device could hold it, and the sizes
// of still larger tensors would overflow 63 bits. The planner treats it as a plan that does not
// fit.
class ImmenseTensor : public InputError {
 public:
  using InputError::InputError;
};

// Runs passes_of() on a model's forward graph, and returns the graph that is lowered. Calls
// `observe` after each pass. Throws ImmenseTensor if a graph has a tensor of more than 1e15 bytes.
// A pass may throw InputError.
Graph run_passes(Graph graph, const Plan& plan, const DeviceFacts& device = {},
                 const PassObserver& observe = {});

}  // namespace meshwright::compiler
