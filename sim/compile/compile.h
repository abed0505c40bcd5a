// Reports what the training compiler does with one plan: the same partition at each compiler level,
// pass by pass.
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

// The size of a graph: one micro-batch through the whole model, on one rank of its tensor group.
struct GraphSize {
  KernelWork work;
  double kept_bytes = 0;  // activations that the forward leaves for the other phases
  bool operator==(const GraphSize&) const = default;
};
GraphSize size_of(const Graph& graph, const CostModel& cost);

struct PassEffect {
  std::string_view name;
  GraphSize before, after;
  double seconds = 0;  // that the pass and the check of its graph took
};

struct FrameworkBatch {
  MemoryOf whose = MemoryOf::pytorch;
  LargestBatch largest;
};
// Returns the largest batch of each framework whose memory use is known for the plan on this
// machine. The framework's attention is unfused.
std::vector<FrameworkBatch> framework_batches(const Model& model, const Plan& plan,
                                              const Cluster& cluster);

struct LevelReport {
  Compiled compiled;
  Prediction prediction;
  KernelWork step;  // of the rank that launches most kernels; its time without waiting
  std::vector<PassEffect> passes;
  double compile_s = 0;  // of all passes
  LargestBatch largest;  // in this engine's memory
};

// Compiles and predicts `plan` at another compiler level. `plan` is resolved, with its stages
// filled in. `observe` sees the graph after each pass.
LevelReport compile_at(CompilerLevel level, const Model& model, Plan plan, const Cluster& cluster,
                       const PassObserver& observe = {});

// Return the learning rate for a batch that is `factor` times as large, in proportion to the factor
// or to its square root.
double linear_learning_rate(double rate, double factor);
double square_root_learning_rate(double rate, double factor);

}  // namespace meshwright::sim
