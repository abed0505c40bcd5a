// Parts of a Runtime that run outside its steps.
#include <string>

#include "exec/core/thread_pool.h"
#include "exec/optimizer/remainders.h"
#include "exec/runtime/collectives.h"
#include "exec/runtime/host_view.h"
#include "exec/runtime/runtime.h"
#include "models/core/error.h"

namespace meshwright::exec {

Runtime::Runtime(const std::vector<Program>& stages, World& world, Backend& backend,
                 const RuntimeOptions& options)
    : rank_(stages, world, backend),
      resolve_(program()),
      events_(program(), resolve_, rank_.streams),
      times_(world.rank(), rank_.streams, options.trace),
      parts_(rank_),
      messages_(rank_, resolve_, events_, times_),
      operations_(rank_, parts_),
      update_(rank_, parts_),
      step_inputs_(program(), memory(),
                   {rank_.training.micro_batch, rank_.own.tensor, mesh().degrees().tensor,
                    rank_.context_rank(), mesh().degrees().context},
                   rank_.training.sequence_length),
      parameters_(stages, mesh(), *rank_.everybody, memory()),
      steps_(capture_of_steps()) {
  ThreadPool pool(options.threads);
  parameters_.initialise(rank_.training.seed, options.layers, pool);
  memory().begin_averages();
  set_loss_scale(first_state(rank_.training));
  set_histories({});
  rank_.everybody->barrier();
  times_.start();
}

Runtime::~Runtime() {
  if (steps_ != nullptr) steps_->drop();
}

// Returns null if steps are not captured. Communication through the host cannot be captured, and a
// very large graph costs more memory than it saves time. Steps with messages between stages are
// captured only if `cuda_graph` is set, because nothing guarantees that parallel branches of a
// graph run concurrently.
StepCapture* Runtime::capture_of_steps() const {
  constexpr std::size_t most_operations = 50000;
  const std::optional<bool> wanted = rank_.training.cuda_graph;
  StepCapture* const capture = rank_.backend.capture();
  if (capture == nullptr || !wanted.value_or(true)) return nullptr;
  std::size_t operations = 0;
  bool talks = false, between_stages = false;
  for (const Task& task : program().tasks)
    for (const Instruction& each : program().bodies[task.body].instructions) {
      operations += 1;
      const bool reads = each.kind == InstructionKind::load_input;
      between_stages = between_stages || each.peer >= 0;
      talks = talks || between_stages || (each.group != GroupKind::none && !reads);
    }
  const bool keeps = operations <= most_operations && (!talks || rank_.world.issues_to_streams()) &&
                     (!between_stages || wanted.has_value());
  return keeps ? capture : nullptr;
}

void Runtime::refresh_working_copies() {
  for (const Bucket& bucket : program().buckets) {
    const Dtype dtype = bucket.own_weights.type.dtype;
    if (bucket.master.type.dtype != Dtype::f32) continue;  // remainders: the copy is exact
    if (!bucket.has_master() || !memory().steps(bucket)) continue;
    const std::int64_t elements = bucket.shard_elements;
    HostView<const float> masters(rank_.backend, memory().address<const float>(bucket.master, 0),
                                  elements);
    HostView<std::byte> working(rank_.backend, memory().address<std::byte>(bucket.own_weights, 0),
                                elements * bytes_of(dtype));
    round_masters(masters.data(), dtype, elements, working.data());
  }
  // Shares the new copies as the step's end does.
  const Task& end = program().tasks.back();
  for (const Instruction& instruction : program().bodies[end.body].instructions)
    if (instruction.bucket >= 0 && (instruction.kind == InstructionKind::all_gather ||
                                    instruction.kind == InstructionKind::broadcast))
      run_collective(rank_, instruction, end);
  rank_.backend.wait();
}

bool Runtime::any(bool own) {
  double flag = own ? 1 : 0;
  try {
    rank_.everybody->all_reduce(&flag, 1, Dtype::f64, true);
  } catch (const RunError& error) {
    throw RunError("after step " + std::to_string(step_) + ": " + error.what());
  }
  return flag > 0;
}

std::vector<std::int64_t> Runtime::gather_of_all(std::int64_t own) {
  std::vector<std::int64_t> all(rank_.world.size());
  rank_.everybody->all_gather(&own, all.data(), sizeof own);
  return all;
}

}  // namespace meshwright::exec
