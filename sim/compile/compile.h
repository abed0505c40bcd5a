// Reports what the training compiler does with one plan at one compiler level, pass by pass.
#pragma once

#include <string_view>
#include <vector>

#include "hwprofiles/machine.h"
#include "models/architectures/model.h"
#include "models/compiler/compile.h"
#include "models/compiler/passes/pass.h"
#include "sim/compile/largest_batch.h"
#include "sim/cost/cost.h"
#include "sim/predict/predict.h"

namespace meshwright::sim {

// The size of a graph that runs one micro-batch through the whole model, on one rank of its tensor
// group.
struct GraphSize {
  KernelWork work;
  double kept_bytes = 0;  // bytes of activations that the forward leaves for the other phases
  bool operator==(const GraphSize&) const = default;
};
GraphSize size_of(const Graph& graph, const CostModel& cost);

struct PassEffect {
  std::string_view name;
  GraphSize before, after;
  double seconds = 0;  // seconds of the pass and of the check of its graph
};

struct FrameworkBatch {
  MemoryOf whose = MemoryOf::pytorch;
  LargestBatch largest;
};
// Returns the largest micro-batch of each framework whose memory use is known for the plan on this
// machine. The list may be empty. The framework's attention is unfused.
std::vector<FrameworkBatch> framework_batches(const Model& model, const Plan& plan,
                                              const Cluster& cluster);

struct LevelReport {
  Compiled compiled;
  Prediction prediction;
  // The kernels that a rank runs in a step, on the stage that launches most of them. Their time
  // includes neither communication nor waiting.
  KernelWork step;
  std::vector<PassEffect> passes;
  double compile_s = 0;  // seconds of all passes together
  LargestBatch largest;  // the largest micro-batch in the memory of this engine
};

// Compiles and predicts `plan` at the compiler level `level` instead of its own. `plan` is
// resolved, with its stages filled in. If `observe` is set, it is called with the graph after each
// pass.
LevelReport compile_at(CompilerLevel level, const Model& model, Plan plan, const Cluster& cluster,
                       const PassObserver& observe = {});

// Return the learning rate for a batch that is `factor` times as large, in proportion to the factor
// or to its square root.
double linear_learning_rate(double rate, double factor);
double square_root_learning_rate(double rate, double factor);

}  // namespace meshwright::sim
