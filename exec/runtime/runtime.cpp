// Performs a step: walks over the tasks of a Program, and over the instructions of their bodies.
#include "exec/runtime/runtime.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "exec/core/half.h"
#include "exec/optimizer/learning_rate.h"
#include "exec/runtime/collectives.h"
#include "exec/runtime/host_view.h"
#include "exec/runtime/instruction_kinds.h"
#include "exec/runtime/step_metrics.h"
#include "models/core/error.h"

namespace meshwright::exec {

namespace {

// Returns whether the instruction is part of the update. The first such instruction begins the
// update.
bool updates(const Instruction& instruction) {
  return instruction.kind == InstructionKind::optimizer_step || is_of_updater(instruction) ||
         is_compute(instruction, {Op::update_largest});
}

// Returns whether the instruction copies states of a bucket, for its step.
bool moves_states(const Instruction& instruction) {
  return instruction.bucket >= 0 && (instruction.kind == InstructionKind::copy_in ||
                                     instruction.kind == InstructionKind::copy_out);
}

}  // namespace

StepResult Runtime::step(std::int64_t step, std::int64_t position, Loader& loader) {
  const auto begin = std::chrono::steady_clock::now();
  loader_ = &loader;
  position_ = position;
  const LossScaleState before = loss_scale();
  const std::int64_t update = step - before.skipped;
  const double learning_rate = learning_rate_.value_or(learning_rate_at(rank_.training, update));
  step_ = step;
  times_.timeline.entries.clear();
  rank_.use(Stream::compute);
  const double of_mean = static_cast<double>(program().targets_per_step) /
                         static_cast<double>(counted_targets(position, loader));
  update_.begin_step(update, learning_rate, of_mean);
  StepResult result;
  try {
    run_tasks();
    result = look_at_result();
    result.loss *= of_mean;
    result.grad_norm *= of_mean;
  } catch (const NonFinite&) {
    throw;
  } catch (const RunError& error) {
    throw RunError("step " + std::to_string(step) + ": " + error.what());
  }
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  result.grad_norm /= before.scale;
  result.learning_rate = learning_rate;
  result.seconds = wall.count();
  result.loss_scale = before.scale;
  result.skipped = loss_scale().skipped;
  result.was_skipped = result.skipped > before.skipped;
  if (result.was_skipped) result.grad_norm = std::numeric_limits<double>::infinity();
  return result;
}

// Counts the targets of the whole global batch, so that all ranks and micro-batches share one mean.
std::int64_t Runtime::counted_targets(std::int64_t position, Loader& loader) const {
  return loader.counted_targets(position, rank_.training.global_batch)
      .value_or(program().targets_per_step);
}

void Runtime::run_tasks() {
  messages_.begin_step();
  events_.begin_step();
  rank_.use(Stream::compute);
  rank_.backend.begin_step(position_);
  read_ahead();
  if (steps_ != nullptr && trains() && !times_.on())
    issue_captured();
  else
    issue_tasks();
  rank_.backend.wait();
  times_.end_step();
}

void Runtime::issue_tasks() {
  times_.begin_step();
  for (int task = 0; task < std::ssize(program().tasks); ++task) run_task(task);
  messages_.complete_all();
}

// An operation may have to prepare itself when it first runs, so the first step is not captured.
// The second step is.
void Runtime::issue_captured() {
  if (capture_ == Capture::none) {
    capture_ = Capture::ready;
    return issue_tasks();
  }
  if (capture_ == Capture::ready) {
    steps_->begin();
    issue_tasks();
    steps_->end();
    capture_ = Capture::done;
  }
  steps_->replay();
}

void Runtime::read_ahead() {
  if (rank_.backend.shares_memory_with_host()) return;
  for (int t = 0; t < std::ssize(program().tasks); ++t) {
    const Task& task = program().tasks[t];
    const Body& body = program().bodies[task.body];
    for (int i = 0; i < std::ssize(body.instructions); ++i)
      if (body.instructions[i].kind == InstructionKind::load_input &&
          runs(body.instructions[i], task))
        step_inputs_.read_ahead(t, i, first_sequence_of(task), *loader_);
  }
}

void Runtime::run_task(int index) {
  const Task& task = program().tasks[index];
  const Body& body = program().bodies[task.body];
  for (int i = 0; i < std::ssize(body.instructions); ++i) {
    const Instruction& instruction = body.instructions[i];
    if (!runs(instruction, task)) continue;
    const RunId run{index, i};
    messages_.come_to(run);
    // A replay ends before the update, and so does an evaluation.
    if (!trains() && updates(instruction)) return;
    if (!trains() && moves_states(instruction)) continue;
    try {
      messages_.wait_for(index, instruction);
      // Other members of the group may first have to finish a send to this group, so receives are
      // posted before all meet.
      if (instruction.group != GroupKind::none) messages_.receive_ahead();
      issue(run, instruction, task);
      messages_.make_progress();
    } catch (const NonFinite&) {
      throw;
    } catch (const RunError& error) {
      throw RunError(rank_.describe(run) + ": " + error.what());
    }
  }
}

void Runtime::issue(const RunId& run, const Instruction& instruction, const Task& task) {
  if (!concerns(program(), instruction, {rank_.own.rdp, rank_.own.tensor})) return;
  if (is_message(instruction)) return messages_.post(instruction, run);
  rank_.use(instruction.stream);
  events_.await(run.task, instruction);
  const SimTime begin = times_.moment();
  if (search_ != nullptr) search_->before(instruction, task);
  this->run(run, instruction, task);
  events_.record(run.task, run.instruction);
  if (search_ != nullptr) wait_for_stream(rank_.backend);
  if (search_ != nullptr) search_->after(instruction, task);
  times_.note(run, begin);
}

void Runtime::run(const RunId& run, const Instruction& instruction, const Task& task) {
  switch (instruction.kind) {
    case InstructionKind::compute:
      return compute(instruction, task);
    case InstructionKind::load_input:
      return step_inputs_.load(run.task, run.instruction, first_sequence_of(task), *loader_);
    case InstructionKind::all_reduce:
    case InstructionKind::all_gather:
    case InstructionKind::reduce_scatter:
    case InstructionKind::all_to_all:
    case InstructionKind::broadcast:
    case InstructionKind::ring_shift:
    case InstructionKind::reduce:
      return run_collective(rank_, instruction, task);
    case InstructionKind::optimizer_step:
      return update_.run(instruction);
    case InstructionKind::copy_out:
    case InstructionKind::copy_in:  // between device and host memory, because it is offloaded
      return rank_.backend.copy(
          rank_.memory.address(instruction.outputs[0], task.slot, task.window),
          rank_.memory.address(instruction.inputs[0], task.slot, task.window),
          instruction.inputs[0].type.bytes());
    default:
      throw RunError("the engine met an instruction that it cannot run");
  }
}

void Runtime::compute(const Instruction& instruction, const Task& task) {
  if (evaluates_ && evaluation_->leaves_out(instruction, task)) return;
  if (wanted_logits_ != nullptr) look_at_logits(instruction, task);
  if (is_of_updater(instruction)) return update_.run(instruction);
  operations_.run(instruction,
                  evaluates_ ? evaluation_->attributes_of(instruction) : instruction.attributes,
                  task, first_sequence_of(task), position_);
}

// Returns the position of the micro-batch's first sequence since the run's first step. The other
// sequences follow it.
std::int64_t Runtime::first_sequence_of(const Task& task) const {
  if (task.micro_batch_index < 0) return 0;
  const Degrees& degrees = mesh().degrees();
  return first_sequence(position_, rank_.training.global_batch, degrees.data,
                        rank_.own.rdp / degrees.context,
                        std::int64_t{task.micro_batch_index} * rank_.training.micro_batch);
}

// Returns the results of a step, and looks whether they are finite. The norm is the same on all
// ranks, so all of them skip a step, or none does, and they search together for a value that is not
// finite. Until then nothing has changed.
StepResult Runtime::look_at_result() {
  const double loss = memory().scalar(program().loss_buffer);
  const double squared_norm = memory().scalar(program().norm_buffer);
  if (!std::isfinite(loss)) fail_non_finite("loss");
  if (!std::isfinite(squared_norm) && !scales_loss()) fail_non_finite("gradient norm");
  update_.read_loss_scale();
  StepResult result;
  result.loss = loss / static_cast<double>(program().targets_per_step);
  result.grad_norm = std::sqrt(squared_norm);
  result.mtp_loss = mtp_loss(rank_);
  result.expert_load = expert_load(rank_);
  return result;
}

// Replays the step: the same instructions make the same values again.
NonFiniteSearch::Finding Runtime::find_non_finite() {
  messages_.complete_all();
  NonFiniteSearch search(program(), memory(), rank_.world.rank());
  search_ = &search;
  run_tasks();
  search_ = nullptr;
  return search.first_of_all(*rank_.everybody);
}

void Runtime::fail_non_finite(std::string_view what) {
  const NonFiniteSearch::Finding first = find_non_finite();
  throw NonFinite(first.rank,
                  "step " + std::to_string(step_) + ": the " + std::string(what) +
                      " is not finite; stopped before the update (a lower learning rate or "
                      "gradient_clip may help); " +
                      (first.found ? "it began with " + std::string(first.text.data())
                                   : "a replay of the step met finite values only: a fault of the "
                                     "computer?"));
}

// Runs the batch without training on it.
void Runtime::run_untrained(std::int64_t position, Loader& loader) {
  if (!evaluation_) evaluation_.emplace(program());
  // An evaluation must not affect delayed scales, so their maxima are restored after it.
  std::vector<float> largest(2 * program().rounded.size());
  const auto keep_largest = [&](bool puts_back) {
    if (largest.empty()) return;
    HostView<float> view(rank_.backend, memory().buffer<float>(program().largest_buffer),
                         std::ssize(largest));
    if (puts_back)
      std::ranges::copy(largest, view.data());
    else
      std::copy_n(view.data(), largest.size(), largest.begin());
  };
  keep_largest(false);
  Loader* const trained = std::exchange(loader_, &loader);
  const std::int64_t trained_position = std::exchange(position_, position);
  const bool traces = times_.on();
  times_.turn(false);
  evaluates_ = true;
  run_tasks();
  evaluates_ = false;
  times_.turn(traces);
  position_ = trained_position;
  loader_ = trained;
  keep_largest(true);
}

Evaluation Runtime::evaluate(std::int64_t position, Loader& loader) {
  const std::string where = "the evaluation after step " + std::to_string(step_);
  try {
    run_untrained(position, loader);
  } catch (const RunError& error) {
    throw RunError(where + ": " + error.what());
  }
  const Evaluation found{memory().scalar(program().loss_buffer), counted_targets(position, loader)};
  if (!std::isfinite(found.loss)) throw RunError(where + ": the loss is not finite");
  return found;
}

// Copies the wanted row of logits before the loss is computed from them, because their memory may
// be used again afterwards.
void Runtime::look_at_logits(const Instruction& instruction, const Task& task) {
  if (instruction.op != Op::cross_entropy) return;
  const TensorType& type = instruction.inputs[0].type;
  const std::int64_t width = type.shape[-1];
  Operand row = instruction.inputs[0];
  row.type.shape = Shape{width};
  row.offset += wanted_logits_->row * row.type.bytes();
  HostView<const std::byte> view(rank_.backend, memory().address<const std::byte>(row, task.slot),
                                 row.type.bytes());
  wanted_logits_->values.resize(width);
  widen(view.data(), row.type.dtype, width, wanted_logits_->values.data());
}

std::vector<float> Runtime::logits(std::int64_t position, Loader& loader, std::int64_t row) {
  WantedLogits wanted{row, {}};
  wanted_logits_ = &wanted;
  run_untrained(position, loader);
  wanted_logits_ = nullptr;
  return std::move(wanted.values);
}

}  // namespace meshwright::exec
