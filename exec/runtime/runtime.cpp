#include "exec/runtime/runtime.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "exec/optimizer/learning_rate.h"
#include "models/core/error.h"
#include "models/core/index.h"
#include "models/program/describe.h"

namespace meshwright {

namespace {

bool is_compute(const Instruction& instruction, std::initializer_list<Op> ops) {
  return instruction.kind == InstructionKind::compute &&
         std::find(ops.begin(), ops.end(), instruction.op) != ops.end();
}

bool is_of_updater(const Instruction& instruction) {
  return is_compute(instruction,
                    {Op::update_loss_scale, Op::lamb_norms, Op::muon_momentum, Op::adafactor_sums,
                     Op::adafactor_norms, Op::update_choice_biases});
}

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

bool is_message(const Instruction& instruction) {
  return instruction.kind == InstructionKind::send || instruction.kind == InstructionKind::recv;
}

}  // namespace

StepResult Runtime::step(std::int64_t step, std::int64_t position, Loader& loader) {
  const auto begin = std::chrono::steady_clock::now();
  loader_ = &loader;
  position_ = position;
  const LossScaleState before = scale_;
  const std::int64_t update = step - before.skipped;
  const double learning_rate = learning_rate_at(training_, update);
  step_ = step;
  timeline_.entries.clear();
  use(Stream::compute);
  const double of_mean = static_cast<double>(program_.targets_per_step) /
                         static_cast<double>(counted_targets(position, loader));
  updater_->begin_step(update, learning_rate, of_mean);
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
  result.skipped = scale_.skipped;
  result.was_skipped = result.skipped > before.skipped;
  if (result.was_skipped) result.grad_norm = std::numeric_limits<double>::infinity();
  return result;
}

// Counts the targets of the whole global batch, so that all ranks and micro-batches share one mean.
std::int64_t Runtime::counted_targets(std::int64_t position, Loader& loader) const {
  return loader.counted_targets(position, training_.global_batch)
      .value_or(program_.targets_per_step);
}

void Runtime::run_tasks() {
  decided_ = false;
  now_ = {0, 0};
  for (Messages& each : messages_) each.posted = 0;
  events_.begin_step();
  use(Stream::compute);
  backend_.begin_step(position_);
  read_ahead();
  if (steps_ != nullptr && search_ == nullptr && !evaluates_ && !options_.trace)
    issue_captured();
  else
    issue_tasks();
  backend_.wait();
  if (options_.trace) settle_times();
}

void Runtime::use(Stream stream) {
  if (streams_ != nullptr) streams_->use(static_cast<int>(stream));
}

void Runtime::issue_tasks() {
  if (options_.trace) begin_times();
  for (std::size_t task = 0; task < program_.tasks.size(); ++task) run_task(static_cast<int>(task));
  complete_all();
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
  if (backend_.shares_memory_with_host()) return;
  for (std::size_t t = 0; t < program_.tasks.size(); ++t) {
    const Task& task = program_.tasks[t];
    const Body& body = program_.bodies[at(task.body)];
    for (std::size_t i = 0; i < body.instructions.size(); ++i)
      if (body.instructions[i].kind == InstructionKind::load_input &&
          runs(body.instructions[i], task))
        step_inputs_.read_ahead(static_cast<int>(t), static_cast<int>(i), first_sequence_of(task),
                                *loader_);
  }
}

void Runtime::run_task(int task) {
  const Task& now_running = program_.tasks[at(task)];
  const Body& body = program_.bodies[at(now_running.body)];
  for (std::size_t i = 0; i < body.instructions.size(); ++i) {
    const Instruction& instruction = body.instructions[i];
    if (!runs(instruction, now_running)) continue;
    now_ = {task, static_cast<int>(i)};
    // A replay ends before the update, and so does an evaluation.
    if ((search_ != nullptr || evaluates_) && updates(instruction)) return;
    if ((search_ != nullptr || evaluates_) && moves_states(instruction)) continue;
    try {
      wait_for(task, instruction);
      // Other members of the group may first have to finish a send to this group, so receives are
      // posted before all meet.
      if (instruction.group != GroupKind::none) receive_ahead();
      execute(task, instruction, static_cast<int>(i));
      make_progress();
    } catch (const NonFinite&) {
      throw;
    } catch (const RunError& error) {
      throw RunError(describe_run({task, static_cast<int>(i)}) + ": " + error.what());
    }
  }
}

std::string Runtime::describe_run(const RunId& run) const {
  const Task& task = program_.tasks[at(run.task)];
  return describe(program_, task, program_.bodies[at(task.body)].instructions[at(run.instruction)]);
}

// Replays the step: the same instructions make the same values again.
NonFiniteSearch::Finding Runtime::find_non_finite() {
  complete_all();
  NonFiniteSearch search(program_, memory_, world_.rank());
  search_ = &search;
  run_tasks();
  search_ = nullptr;
  return search.first_of_all(*everybody_);
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

void Runtime::execute(int task, const Instruction& instruction, int index) {
  const Task& running = program_.tasks[at(task)];
  if (!concerns(program_, instruction, {own_.rdp, own_.tensor})) return;
  if (is_message(instruction)) return message(instruction, {task, index});
  use(instruction.stream);
  events_.await(task, instruction);
  const SimTime begin = options_.trace ? moment() : 0;
  if (search_ != nullptr) search_->before(instruction, running);
  switch (instruction.kind) {
    case InstructionKind::compute:
      if (!is_left_out(instruction, running)) compute(instruction, running);
      break;
    case InstructionKind::load_input:
      step_inputs_.load(task, index, first_sequence_of(running), *loader_);
      break;
    case InstructionKind::all_reduce:
    case InstructionKind::all_gather:
    case InstructionKind::reduce_scatter:
    case InstructionKind::all_to_all:
    case InstructionKind::broadcast:
    case InstructionKind::ring_shift:
    case InstructionKind::reduce:
      collective(instruction, running);
      break;
    case InstructionKind::optimizer_step:
      update(instruction);
      break;
    case InstructionKind::copy_out:
    case InstructionKind::copy_in:
      copy(instruction, running);
      break;
    default:
      throw RunError("the engine met an instruction that it cannot run");
  }
  events_.record(task, index);
  if (search_ != nullptr) wait_for_stream(backend_);
  if (search_ != nullptr) search_->after(instruction, running);
  if (options_.trace) note(task, index, begin);
}

void Runtime::compute(const Instruction& instruction, const Task& task) {
  if (instruction.op == Op::sum_of_squares) return sum_of_squares(instruction, task);
  if (instruction.bucket >= 0 && is_compute(instruction, {Op::amax, Op::quantize}))
    return look_at_parameters(instruction, task);
  if (is_of_updater(instruction)) return update(instruction);
  input_types_.clear(), output_types_.clear(), inputs_.clear(), outputs_.clear();
  for (const Operand& operand : instruction.inputs) {
    input_types_.push_back(operand.type);
    inputs_.push_back(memory_.address(operand, task.slot, task.window));
  }
  for (const Operand& operand : instruction.outputs) {
    output_types_.push_back(operand.type);
    outputs_.push_back(memory_.address(operand, task.slot, task.window));
  }
  OpContext context{own_.tensor, mesh_.degrees().tensor, scratch_.get()};
  context.context_rank = context_rank();
  context.first_sequence = first_sequence_of(task);
  context.step_position = position_;
  backend_.run({instruction.op, attributes_of(instruction), input_types_, output_types_,
                overwrites_in(instruction, task)},
               {inputs_, outputs_}, context);
}

// Sums the squares of this rank's part of the bucket: only elements that belong to a parameter, and
// each once over all ranks. It runs as few operations as there are gaps, because each takes a GPU
// longer to start than to do.
void Runtime::sum_of_squares(const Instruction& instruction, const Task& task) {
  const Dtype dtype = instruction.inputs[0].type.dtype;
  const auto* gradients =
      static_cast<const std::byte*>(memory_.address(instruction.inputs[0], task.slot));
  const TensorType sum_type = instruction.outputs[0].type;
  void* sum = memory_.address(instruction.outputs[0], task.slot);
  for (const Run& run : counted_[at(instruction.bucket)]) {
    const TensorType type{Shape{run.count}, dtype};
    const void* data = gradients + run.begin * bytes_of(dtype);
    backend_.run({Op::sum_of_squares, instruction.attributes, {&type, 1}, {&sum_type, 1}},
                 {{&data, 1}, {&sum, 1}}, {own_.tensor, mesh_.degrees().tensor, scratch_.get()});
  }
}

// Computes, for each parameter of a bucket, its largest magnitude (amax), or its bits and scale
// (quantize). Only elements in this rank's own part count, and there may be none.
void Runtime::look_at_parameters(const Instruction& instruction, const Task& task) {
  const Bucket& bucket = program_.buckets[at(instruction.bucket)];
  const std::int64_t begin = memory_.own_begin(bucket), end = begin + bucket.shard_elements;
  const bool rounds = instruction.op == Op::quantize;
  const auto address = [&](const Operand& operand, std::int64_t element) {
    return static_cast<std::byte*>(memory_.address(operand, task.slot)) +
           element * bytes_of(operand.type.dtype);
  };
  for (std::size_t i = 0; i < bucket.parameters.size(); ++i) {
    const StageParameter& member = program_.parameters[at(bucket.parameters[i])];
    const std::int64_t last = member.offset + member.parameter.shape.elements();
    const std::int64_t from = std::clamp(member.offset, begin, end);
    const std::int64_t count = std::max<std::int64_t>(0, std::min(last, end) - from);
    const auto value = static_cast<std::int64_t>(i);
    constexpr std::int64_t width = 16;  // of what kernels take at once; parts are multiples of it
    const Shape part{count / width, width};
    const TensorType one{Shape{1}, Dtype::f32};
    const std::array<TensorType, 2> in = {TensorType{part, instruction.inputs[0].type.dtype}, one};
    const std::array<const void*, 2> inputs = {
        address(instruction.inputs[0], from - begin),
        rounds ? address(instruction.inputs[1], value) : nullptr};
    std::array<TensorType, 2> out = {one};
    std::array<void*, 2> outputs = {address(instruction.outputs[0], rounds ? from - begin : value)};
    if (rounds) {
      out = {TensorType{part, instruction.attributes.made}, TensorType{Shape{1, 1}, Dtype::f32}};
      outputs[1] = address(instruction.outputs[1], value);
    }
    const std::size_t operands = rounds ? 2 : 1;
    backend_.run(
        {instruction.op, instruction.attributes, {in.data(), operands}, {out.data(), operands}},
        {{inputs.data(), operands}, {outputs.data(), operands}},
        {own_.tensor, mesh_.degrees().tensor, scratch_.get()});
  }
}

// Runs an all-gather or a reduce-scatter whose parts are several operands at equal distances. It
// works in place: this rank's part is copied there before the gather, or from there after the sum.
// Returns false for any other collective.
bool Runtime::collective_apart(const Instruction& instruction, const Task& task) {
  const bool gathers = instruction.kind == InstructionKind::all_gather;
  if (!gathers && instruction.kind != InstructionKind::reduce_scatter) return false;
  const std::vector<Operand>& parts = gathers ? instruction.outputs : instruction.inputs;
  if (parts.size() < 2) return false;
  Communicator& members = group(instruction.group);
  const TensorType& part = parts[0].type;
  const auto address = [&](const Operand& operand) {
    return static_cast<char*>(memory_.address(operand, task.slot, task.window));
  };
  char* first = address(parts[0]);
  const std::int64_t distance = address(parts[1]) - first;
  char* own = first + members.rank() * distance;
  if (gathers) {
    backend_.copy(own, address(instruction.inputs[0]), part.bytes());
    members.gather_apart(first, part.bytes(), distance);
  } else {
    members.reduce_apart(first, part.shape.elements(), part.dtype, distance);
    backend_.copy(address(instruction.outputs[0]), own, part.bytes());
  }
  return true;
}

void Runtime::collective(const Instruction& instruction, const Task& task) {
  if (collective_apart(instruction, task)) return;
  Communicator& members = group(instruction.group);
  const TensorType& in = instruction.inputs[0].type;
  const Operand& result = instruction.outputs[0];
  const void* from = memory_.address(instruction.inputs[0], task.slot, task.window);
  void* to = memory_.address(result, task.slot, task.window);
  switch (instruction.kind) {
    case InstructionKind::all_reduce:
      MESHWRIGHT_CHECK(from == to, "an all-reduce works in place");
      return members.all_reduce(to, in.shape.elements(), in.dtype, instruction.maximum);
    case InstructionKind::all_gather:
      return members.all_gather(from, to, in.bytes(), instruction.flat);
    case InstructionKind::reduce_scatter:
      return members.reduce_scatter(
          from, to, in.shape.elements() / members.size(), in.dtype,
          instruction.accumulate && overwrites_in(instruction, task) == 0);
    case InstructionKind::all_to_all:
      return members.all_to_all(from, to, in.bytes() / members.size());
    case InstructionKind::ring_shift:
      return shift_around(members, from, to, in.bytes());
    case InstructionKind::reduce:
      return members.reduce(to, in.shape.elements(), in.dtype, instruction.root);
    default:
      return members.broadcast(to, in.bytes(), instruction.root);
  }
}

// Copies an operand between device and host memory, because it is offloaded.
void Runtime::copy(const Instruction& instruction, const Task& task) {
  const void* from = memory_.address(instruction.inputs[0], task.slot, task.window);
  void* to = memory_.address(instruction.outputs[0], task.slot, task.window);
  backend_.copy(to, from, instruction.inputs[0].type.bytes());
}

void Runtime::message(const Instruction& instruction, const RunId& run) {
  const bool is_send = instruction.kind == InstructionKind::send;
  Messages& own = messages(instruction.stream);
  if (!is_send && own.posted > 0 && run <= own.to_receive[own.posted - 1]) return;
  use(instruction.stream);
  events_.await(run.task, instruction);
  const Task& running = program_.tasks[at(run.task)];
  const int tag = tag_of(instruction, running);
  const Operand& operand = is_send ? instruction.inputs[0] : instruction.outputs[0];
  void* data = memory_.address(operand, running.slot, running.window);
  const std::int64_t bytes = operand.type.bytes();
  const SimTime begin = options_.trace ? moment() : 0;
  const Request request = is_send ? own.stages->isend(data, bytes, instruction.peer, tag)
                                  : own.stages->irecv(data, bytes, instruction.peer, tag);
  const std::size_t entry = options_.trace ? note(run.task, run.instruction, begin) : 0;
  pending(instruction.stream).push_back({run, request, entry});
  own.posted += is_send ? 0 : 1;
  events_.record(run.task, run.instruction);
}

// Posts the receives that are next on their stream and wait for nothing, before the list comes to
// them. Does nothing if calls only issue to a device's streams, because such calls return before
// other ranks have come.
void Runtime::receive_ahead() {
  if (world_.issues_to_streams()) return;
  for (Messages& each : messages_) receive_ahead(each);
}

void Runtime::receive_ahead(Messages& messages) {
  while (messages.posted < messages.to_receive.size()) {
    const RunId run = messages.to_receive[messages.posted];
    const Instruction& instruction =
        program_.bodies[at(program_.tasks[at(run.task)].body)].instructions[at(run.instruction)];
    if (!std::ranges::all_of(instruction.waits,
                             [&](const Wait& wait) { return is_over(resolve_(run.task, wait)); }))
      return;
    message(instruction, run);
  }
}

bool Runtime::is_over(const RunId& run) {
  if (run.task < 0) return true;
  const Instruction& instruction =
      program_.bodies[at(program_.tasks[at(run.task)].body)].instructions[at(run.instruction)];
  if (run >= now_) return false;
  if (!is_message(instruction)) return true;
  const Fifo<Pending>& under_way = pending(instruction.stream);
  return under_way.empty() || under_way.front().run > run;
}

// Returns the tag of a message. Both sides compute the same tag, and all messages that two ranks
// can have in flight have different ones. A tag is made of the sending virtual stage, the
// direction, the micro-batch and the channel.
int Runtime::tag_of(const Instruction& instruction, const Task& task) const {
  const int here = program_.layout.virtual_stage(program_.stage, task.chunk);
  const int there = peer_virtual_stage(program_, instruction);
  const bool is_send = instruction.kind == InstructionKind::send;
  const std::int64_t sender = is_send ? here : there, receiver = is_send ? there : here;
  std::int64_t tag = sender * 2 + (sender < receiver);
  tag = tag * program_.micro_batches + task.micro_batch_index;
  tag = tag * channels_ + instruction.channel;
  // A tag comes again only after far more micro-batches than are ever in flight.
  return static_cast<int>(tag % (std::int64_t{max_tag} + 1));
}

// Returns the position of the micro-batch's first sequence since the run's first step. The other
// sequences follow it.
std::int64_t Runtime::first_sequence_of(const Task& task) const {
  if (task.micro_batch_index < 0) return 0;
  return first_sequence(position_, training_.global_batch, mesh_.degrees().data,
                        own_.rdp / mesh_.degrees().context,
                        std::int64_t{task.micro_batch_index} * training_.micro_batch);
}

void Runtime::wait_for(int task, const Instruction& instruction) {
  const auto is_idle = [](const Messages& each) {
    return each.sends.empty() && each.receives.empty();
  };
  if (std::ranges::all_of(messages_, is_idle)) return;
  for (const Wait& wait : instruction.waits) {
    const RunId run = resolve_(task, wait);
    if (run.task < 0) continue;
    const Body& body = program_.bodies[at(program_.tasks[at(run.task)].body)];
    const Instruction& awaited = body.instructions[at(run.instruction)];
    if (is_message(awaited)) complete_until(awaited.stream, run);
  }
}

// Completes the messages of a stream up to `run`. A stream's instructions end in order, so whoever
// waits for one waits for those before it too.
void Runtime::complete_until(Stream stream, const RunId& run) {
  Fifo<Pending>& under_way = pending(stream);
  while (!under_way.empty() && under_way.front().run <= run) {
    const Pending first = under_way.front();
    try {
      complete(*messages(stream).stages, first);
    } catch (const RunError& error) {
      throw RunError(describe_run(first.run) + ": " + error.what());
    }
    finish(first);
    under_way.pop_front();
  }
}

void Runtime::complete_all() {
  const RunId everything{static_cast<int>(program_.tasks.size()), 0};
  for (const MessageStreams& each : message_streams) {
    complete_until(each.send, everything);
    complete_until(each.recv, everything);
  }
}

void Runtime::complete(Communicator& stages, const Pending& pending) {
  if (stages.test(pending.request)) return;
  receive_ahead();
  stages.wait(pending.request);
}

void Runtime::make_progress() {
  for (Messages& each : messages_)
    for (Fifo<Pending>* queue : {&each.sends, &each.receives})
      while (!queue->empty() && each.stages->test(queue->front().request)) {
        finish(queue->front());
        queue->pop_front();
      }
}

void Runtime::finish(const Pending& pending) {
  if (options_.trace && pending.request != 0) timeline_.entries[pending.entry].end = moment();
}

std::size_t Runtime::note(int task, int index, SimTime begin) {
  timeline_.entries.push_back({world_.rank(), task, index, begin, moment()});
  return timeline_.entries.size() - 1;
}

// Returns the current time, or on a device with streams the number of a stamp, which settle_times()
// replaces by a time.
SimTime Runtime::moment() { return streams_ == nullptr ? now() : SimTime{streams_->stamp()}; }

void Runtime::begin_times() {
  if (streams_ == nullptr) return;
  streams_->begin_stamps();
  stamps_begin_ = now();
}

void Runtime::settle_times() {
  if (streams_ == nullptr) return;
  const auto time_of = [&](SimTime stamp) {
    return stamps_begin_ + to_sim_time(Seconds{streams_->stamped(static_cast<int>(stamp))});
  };
  for (TimelineEntry& entry : timeline_.entries) {
    entry.begin = time_of(entry.begin);
    entry.end = time_of(entry.end);
  }
}

SimTime Runtime::now() const {
  const std::chrono::duration<double> since = std::chrono::steady_clock::now() - start_;
  return to_sim_time(Seconds{since.count()});
}

bool Runtime::any(bool own) {
  double flag = own ? 1 : 0;
  try {
    everybody_->all_reduce(&flag, 1, Dtype::f64, true);
  } catch (const RunError& error) {
    throw RunError("after step " + std::to_string(step_) + ": " + error.what());
  }
  return flag > 0;
}

std::vector<std::int64_t> Runtime::gather_of_all(std::int64_t own) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(world_.size()));
  everybody_->all_gather(&own, all.data(), sizeof own);
  return all;
}

}  // namespace meshwright
