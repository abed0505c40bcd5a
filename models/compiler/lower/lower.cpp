#include "models/compiler/lower/lower.h"

#include "models/compiler/lower/bucket_buffers.h"
#include "models/compiler/lower/draft.h"
#include "models/compiler/lower/first_sums.h"
#include "models/compiler/lower/forward_backward.h"
#include "models/compiler/lower/memory.h"
#include "models/compiler/lower/moment_blocks.h"
#include "models/compiler/lower/relay.h"
#include "models/compiler/lower/rounded_weights.h"
#include "models/compiler/lower/shared_slots.h"
#include "models/compiler/lower/slot_lifetimes.h"
#include "models/compiler/lower/step.h"
#include "models/compiler/lower/tasks.h"
#include "models/compiler/passes/graph/backward.h"
#include "models/compiler/schedule/schedule.h"

namespace meshwright::compiler {

namespace {

StageDraft begin_stage(const Graph& graph, const Plan& plan, const DeviceFacts& device,
                       const Boundaries& boundaries, TensorPlaces& places, int stage) {
  const Parallelism& parallelism = plan.parallelism;
  StageDraft draft{.graph = graph,
                   .plan = plan,
                   .device = device,
                   .boundaries = boundaries,
                   .places = places,
                   .degrees = plan.degrees(),
                   .zero_stage = plan.shard_group() > 1 ? parallelism.zero_stage : 0,
                   .reduces_each = plan.reduces_each_micro_batch(),
                   .splits_backwards = schedule_info(parallelism.schedule).splits_backwards,
                   .program = {},
                   .buckets = {},
                   .member_of = {},
                   .units = {},
                   .offloads = {},
                   .slot_bytes = {},
                   .pools = {},
                   .of_step = {},
                   .first_count = {}};
  draft.program.stage = stage;
  draft.program.layout = parallelism.stage_layout();
  draft.program.micro_batches = plan.micro_batches();
  return draft;
}

void fill_buckets(StageDraft& draft) {
  draft.buckets = make_buckets(draft.graph, draft.plan, draft.boundaries, draft.program);
  draft.member_of.assign(draft.graph.parameters.size(), -1);
  int member = 0;
  for (const StageParameter& each : draft.program.parameters)
    draft.member_of[draft.graph.tensor(each.parameter.tensor).parameter] = member++;
}

// Runs the steps of lowering in order.
Program lower_stage(StageDraft draft) {
  const int chunks = draft.chunks();
  const bool loads = offloads_tasks(draft.plan);
  draft.program.bodies.resize(draft.end_body() + 1 + (loads ? chunks : 0));

  // The bodies of all chunks use the results of these steps, so they come before any body.
  fill_buckets(draft);
  place_buckets(draft);
  place_rounded_weights(draft);
  place_unit_buffers(draft);  // after fill_buckets(), because a unit is as large as its buckets
  choose_offloaded(draft);

  // Forward bodies come first, because a backward body reads tensors that its forward body has
  // placed.
  for (int chunk = 0; chunk < chunks; ++chunk) write_forward(draft, chunk);
  for (int chunk = chunks - 1; chunk >= 0; --chunk) {
    write_backward(draft, chunk);
    if (draft.splits_backwards) write_weights(draft, chunk);
  }
  if (loads)  // after the forwards, because a load waits for the copies to the host
    for (int chunk = 0; chunk < chunks; ++chunk) write_load(draft, chunk);

  // These steps come after all bodies of chunks, because they make bodies wait for instructions of
  // each other, by their indices.
  wait_for_offloaded(draft);
  wait_for_earlier_reductions(draft);

  write_begin(draft);
  write_end(draft);  // after the backwards: it waits for their reductions, and finishes them

  // These steps come after all bodies, because they need the final sizes of all buffers, and the
  // number of slots that tasks use.
  find_slot_lifetimes(draft);
  lay_out_slots(draft);
  choose_shared_slots(draft);
  write_tasks(draft);
  lay_out_memory(draft);
  wait_for_shared_slots(draft);  // needs the slots of the tasks
  for (const BucketPlan& planned : draft.buckets) draft.program.buckets.push_back(planned.bucket);
  if (!draft.plan.training.clears_gradients)
    overwrite_first_sums(draft.program);  // needs the buckets and the order of tasks
  return std::move(draft.program);
}

JobSettings settings_of(const Plan& plan) {
  return {plan.training, plan.degrees(), plan.parallelism.placement, plan.parallelism.zero_stage};
}

}  // namespace

std::vector<Program> lower(const Graph& partitioned, const Plan& plan, const DeviceFacts& device) {
  const std::optional<Graph> relayed = relay(partitioned, plan);
  const Graph& graph = relayed ? *relayed : partitioned;
  check_blocks(graph, plan);
  const Boundaries boundaries = find_boundaries(graph, plan);
  TensorPlaces places{
      std::vector<Operand>(graph.tensors.size()), std::vector<Operand>(graph.tensors.size()), {}};
  auto modules = std::make_shared<std::vector<std::string>>();
  for (const Module& module : graph.modules) modules->push_back(module.path);
  const auto settings = std::make_shared<const JobSettings>(settings_of(plan));
  std::vector<Program> stages;
  for (int stage = 0; stage < plan.parallelism.pipeline; ++stage) {
    stages.push_back(lower_stage(begin_stage(graph, plan, device, boundaries, places, stage)));
    stages.back().settings = settings;
    stages.back().modules = modules;
    stages.back().targets_per_step = targets_per_step(graph, plan);
  }
  return stages;
}

}  // namespace meshwright::compiler
