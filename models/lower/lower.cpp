#include "models/lower/lower.h"

#include "models/lower/stage_lowering.h"
#include "models/passes/backward.h"

namespace meshwright {

namespace {

// tensor_copy is a view, and an in-place gradient shares the tensor it replaces: what is kept of
// the one is kept of the other.
void keep_views(const Graph& graph, Boundaries& boundaries) {
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (node->op != Op::tensor_copy) continue;
    TensorFlow& view = boundaries.tensors[static_cast<std::size_t>(node->outputs[0])];
    if (view.kept) {
      TensorFlow& base = boundaries.tensors[static_cast<std::size_t>(node->inputs[0])];
      (base.maker == view.maker ? base.kept : base.kept_by_next) = true;
    }
  }
}

}  // namespace

std::vector<Program> lower(const Graph& graph, const Plan& plan) {
  Boundaries boundaries = find_boundaries(graph, plan);
  keep_views(graph, boundaries);
  TensorPlaces places{std::vector<Operand>(graph.tensors.size()),
                      std::vector<Operand>(graph.tensors.size())};
  auto modules = std::make_shared<std::vector<std::string>>();
  for (const Module& module : graph.modules) modules->push_back(module.path);
  std::vector<Program> stages;
  for (int stage = 0; stage < plan.parallelism.pipeline; ++stage) {
    stages.push_back(StageLowering(graph, plan, boundaries, places, stage).run());
    stages.back().modules = modules;
    stages.back().targets_per_step = targets_per_step(graph, plan);
  }
  return stages;
}

StageLowering::StageLowering(const Graph& graph, const Plan& plan, const Boundaries& boundaries,
                             TensorPlaces& places, int stage)
    : graph_(graph),
      plan_(plan),
      boundaries_(boundaries),
      places_(places),
      stage_(stage),
      layout_(plan.parallelism.stage_layout()),
      degrees_(plan.degrees()),
      zero_stage_(plan.shard_group() > 1 ? plan.parallelism.zero_stage : 0),
      splits_(schedule_info(plan.parallelism.schedule).splits_backwards),
      member_of_(graph.parameters.size(), -1),
      reduced_into_(graph.tensors.size(), -1),
      input_buffer_(input_channels, -1),
      first_zeros_(static_cast<std::size_t>(plan.parallelism.virtual_stages)),
      last_reduction_(static_cast<std::size_t>(plan.parallelism.virtual_stages), -1),
      offloaded_(static_cast<std::size_t>(plan.parallelism.virtual_stages)) {
  program_.stage = stage;
  program_.layout = layout_;
  program_.micro_batches = plan.micro_batches();
  for (const Node& node : graph.nodes)
    if (node.op == Op::tensor_reduce)
      reduced_into_[static_cast<std::size_t>(node.inputs[0])] = node.outputs[0];
}

Program StageLowering::run() {
  const int chunks = plan_.parallelism.virtual_stages;
  const bool loads = plan_.parallelism.offload == "activations";
  program_.bodies.resize(static_cast<std::size_t>(end_body() + 1 + (loads ? chunks : 0)));
  buckets_ = make_buckets(graph_, plan_, boundaries_, program_);
  for (std::size_t i = 0; i < program_.parameters.size(); ++i)
    member_of_[static_cast<std::size_t>(
        graph_.tensor(program_.parameters[i].parameter.tensor).parameter)] = static_cast<int>(i);
  bucket_done_.assign(buckets_.size(), {});
  place_buckets();
  if (zero_stage_ >= 2) place_unit_buffers();
  if (plan_.parallelism.offload != "none")
    for (int chunk = 0; chunk < chunks; ++chunk) choose_offloaded(chunk);
  for (int chunk = 0; chunk < chunks; ++chunk) write_forward(chunk);
  for (int chunk = chunks - 1; chunk >= 0; --chunk) {
    write_backward(chunk, Body::Kind::backward);
    if (splits_) write_backward(chunk, Body::Kind::weights);
  }
  if (loads)
    for (int chunk = 0; chunk < chunks; ++chunk) write_load(chunk);
  wait_for_offloaded();
  wait_for_earlier_reductions();
  write_begin();
  write_end();
  write_tasks();
  lay_out_memory();
  for (const BucketPlan& planned : buckets_) program_.buckets.push_back(planned.bucket);
  return std::move(program_);
}

}  // namespace meshwright
