#include "sim/compile/compile.h"

#include <cmath>

#include "sim/framework/framework_memory.h"
#include "sim/predict/target.h"

namespace meshwright::sim {

namespace {

double kept_bytes(const Graph& graph) {
  std::vector<bool> counted(graph.tensors.size(), false);
  double bytes = 0;
  for (const Node& node : graph.nodes) {
    if (node.phase == Phase::forward) continue;
    for (int id : node.inputs) {
      if (graph.tensor(id).alias_of >= 0) id = graph.tensor(id).alias_of;
      const Tensor& tensor = graph.tensor(id);
      if (tensor.role != Role::activation || tensor.producer < 0) continue;
      const Node& maker = graph.nodes[tensor.producer];
      if (maker.phase != Phase::forward || counted[id]) continue;
      counted[id] = true;
      bytes += static_cast<double>(tensor.type.bytes());
    }
  }
  return bytes;
}

KernelWork work_of_step(const Program& program, const CostModel& cost) {
  KernelWork sum;
  for (const Task& task : program.tasks)
    for (const Instruction& instruction : program.bodies[task.body].instructions)
      if (runs(instruction, task)) sum += cost.work(instruction, program);
  return sum;
}

}  // namespace

GraphSize size_of(const Graph& graph, const CostModel& cost) {
  return {cost.work(graph), kept_bytes(graph)};
}

LevelReport compile_at(CompilerLevel level, const Model& model, Plan plan, const Cluster& cluster,
                       const PassObserver& observe) {
  plan.training.compiler = level;
  LevelReport report;
  const CostModel cost(cluster, plan.training);
  GraphSize before = size_of(build_graph(model, plan.training), cost);
  report.compiled = compile(model, plan, target_of(cluster, plan.training),
                            [&](const Pass& pass, const Graph& after, double seconds) {
                              const GraphSize size = size_of(after, cost);
                              report.passes.push_back({pass.name, before, size, seconds});
                              report.compile_s += seconds;
                              before = size;
                              if (observe) observe(pass, after, seconds);
                            });
  report.prediction = predict(report.compiled, cluster,
                              {.framework = framework_use(model, plan.training, cluster)});
  for (const Program& program : report.compiled.stages) {
    const KernelWork step = work_of_step(program, cost);
    if (step.kernels > report.step.kernels) report.step = step;
  }
  plan.training.memory_of = MemoryOf::engine;
  report.largest = largest_micro_batch(model, plan, cluster);
  return report;
}

std::vector<FrameworkBatch> framework_batches(const Model& model, const Plan& plan,
                                              const Cluster& cluster) {
  std::vector<FrameworkBatch> batches;
  if (!cluster.machine.framework) return batches;
  for (const MemoryOf whose : {MemoryOf::pytorch, MemoryOf::xla})
    if (const auto known = with_memory_of(whose, model, plan))
      batches.push_back({whose, largest_framework_batch(model, *known, cluster)});
  return batches;
}

double linear_learning_rate(double rate, double factor) { return rate * factor; }

double square_root_learning_rate(double rate, double factor) { return rate * std::sqrt(factor); }

}  // namespace meshwright::sim
