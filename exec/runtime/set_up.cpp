// The parts of a Runtime that run once, before its first step.
#include <algorithm>
#include <set>
#include <string>

#include "exec/runtime/runtime.h"
#include "models/core/error.h"
#include "models/program/factors.h"
#include "models/program/graph/op_table.h"

namespace meshwright {

namespace {

const Program& program_of(const std::vector<Program>& stages, const Coordinates& coordinates) {
  return stages[static_cast<std::size_t>(coordinates.pipeline)];
}

template <typename Visit>
void for_each_instruction(const Program& program, const Visit& visit) {
  for (const Body& body : program.bodies)
    for (const Instruction& instruction : body.instructions) visit(instruction);
}

}  // namespace

Runtime::Runtime(const std::vector<Program>& stages, World& world, Backend& backend,
                 const RuntimeOptions& options)
    : stages_(stages),
      training_(stages.front().settings->training),
      mesh_(stages.front().settings->mesh()),
      world_(world),
      backend_(backend),
      streams_(backend.streams()),
      options_(options),
      own_(mesh_.coordinates(world.rank())),
      program_(program_of(stages, own_)),
      scratch_(reserve_scratch()),
      memory_(program_, mesh_, world, backend),
      resolve_(program_),
      events_(program_, resolve_, streams_),
      pool_(options.threads),
      updater_(backend.make_updater(training_)),
      step_inputs_(program_, memory_,
                   {training_.micro_batch, own_.tensor, mesh_.degrees().tensor, context_rank(),
                    mesh_.degrees().context},
                   training_.sequence_length),
      steps_(capture_of_steps()) {
  MESHWRIGHT_CHECK(mesh_.ranks() == world.size(), "the job has as many ranks as there are");
  make_groups();
  make_segments();
  list_messages();
  parameters_ = std::make_unique<Parameters>(stages_, mesh_, *everybody_, memory_);
  parameters_->initialise(training_.seed, options_.layers, pool_);
  memory_.begin_averages();
  set_loss_scale(first_state(training_));
  set_histories({});
  everybody_->barrier();
  start_ = std::chrono::steady_clock::now();
}

Runtime::~Runtime() {
  if (steps_ != nullptr) steps_->drop();
}

void Runtime::check_supported_here() const {
  const Dtype storage = storage_of(training_.precision);
  if (training_.precision == Precision::nvfp4 && !backend_.computes_in(training_.precision))
    throw InputError("/training/precision: nvfp4 runs on the CPU engine only so far, not on " +
                     std::string(backend_.name()) + "; use bf16 or fp8");
  if (!backend_.computes_in(training_.precision))
    throw InputError("/training/precision: " + std::string(name_of(training_.precision)) +
                     " is an arithmetic of GPU tensor cores that this device (" +
                     std::string(backend_.name()) + ") does not have; use fp32, fp16, bf16 or fp8");
  for_each_instruction(program_, [&](const Instruction& instruction) {
    const bool by_optimizer =
        instruction.op == Op::update_loss_scale || instruction.op == Op::lamb_norms ||
        instruction.op == Op::muon_momentum || instruction.op == Op::update_choice_biases ||
        instruction.op == Op::adafactor_sums || instruction.op == Op::adafactor_norms;
    if (instruction.kind != InstructionKind::compute || by_optimizer) return;
    const bool quantized =
        !instruction.inputs.empty() && is_quantized(instruction.inputs[0].type.dtype);
    if (!backend_.supports(instruction.op, quantized ? instruction.inputs[0].type.dtype : storage))
      throw NotSupportedYet(
          "the backend " + std::string(backend_.name()) + " cannot compute the operation " +
          std::string(info(instruction.op).name) + (quantized ? " in 8 or 4 bits yet" : " yet"));
  });
}

// Returns null if steps are not captured. Communication through the host cannot be captured, and a
// very large graph costs more memory than it saves time. Steps with messages between stages are
// captured only if `cuda_graph` is set, because nothing guarantees that parallel branches of a
// graph run concurrently.
StepCapture* Runtime::capture_of_steps() const {
  constexpr std::size_t most_operations = 50000;
  const std::optional<bool> wanted = training_.cuda_graph;
  if (backend_.capture() == nullptr || !wanted.value_or(true)) return nullptr;
  std::size_t operations = 0;
  bool talks = false, between_stages = false;
  for (const Task& task : program_.tasks)
    for (const Instruction& each :
         program_.bodies[static_cast<std::size_t>(task.body)].instructions) {
      operations += 1;
      const bool reads = each.kind == InstructionKind::load_input;
      between_stages = between_stages || each.peer >= 0;
      talks = talks || between_stages || (each.group != GroupKind::none && !reads);
    }
  const bool keeps = operations <= most_operations && (!talks || world_.issues_to_streams()) &&
                     (!between_stages || wanted.has_value());
  return keeps ? backend_.capture() : nullptr;
}

// Makes the groups that the instructions of any stage need. Every rank goes through the kinds in
// the same order, whether it is in such a group or not.
void Runtime::make_groups() {
  everybody_ =
      world_.on_host().group(GroupKind::world, mesh_.group(GroupKind::world, world_.rank()));
  std::set<GroupKind> kinds;
  bool back = false;
  for (const Program& program : stages_)
    for_each_instruction(program, [&](const Instruction& instruction) {
      if (instruction.group != GroupKind::none) kinds.insert(instruction.group);
      if (instruction.peer >= 0) kinds.insert(GroupKind::pipeline);
      channels_ = std::max(channels_, instruction.channel + 1);
      back = back || is_back(instruction.stream);
    });
  for (GroupKind kind : kinds) {
    const std::vector<int> ranks = mesh_.group(kind, world_.rank());
    if (!ranks.empty()) groups_[kind] = world_.group(kind, ranks);
  }
  if (kinds.contains(GroupKind::pipeline)) messages_[0].stages = &group(GroupKind::pipeline);
  if (!back) return;
  stages_back_ = world_.group(GroupKind::pipeline, mesh_.group(GroupKind::pipeline, world_.rank()));
  messages_[1].stages = stages_back_.get();
}

// Returns whether this rank counts its part of the bucket in the norm. If the norm is summed over
// all ranks, one of those with the same part counts it.
bool Runtime::counts_in_norm(const Bucket& bucket) const {
  if (mesh_.degrees().expert == 1) return true;
  return mesh_.index_in(bucket.sharded ? bucket.replica() : bucket.rdp(), world_.rank()) == 0;
}

void Runtime::make_segments() {
  int key = 0;
  for (const Bucket& bucket : program_.buckets) {
    first_key_.push_back(key);
    key += std::max(1, static_cast<int>(bucket.pieces.size()));
  }
  for (const Bucket& bucket : program_.buckets) {
    const bool one_of_tensor = bucket.owner.tensor >= 0;
    const std::int64_t begin = memory_.own_begin(bucket), end = begin + bucket.shard_elements;
    std::vector<Segment>& segments = segments_.emplace_back();
    std::vector<Run>& counted = counted_.emplace_back();
    if (!memory_.steps(bucket) || bucket.frozen) continue;
    const bool first_copy = counts_in_norm(bucket);
    for (int index : bucket.parameters) {
      const StageParameter& member = program_.parameters[static_cast<std::size_t>(index)];
      const Parameter& parameter = member.parameter;
      const std::int64_t first = std::max(member.offset, begin);
      const std::int64_t last = std::min(member.offset + parameter.shape.elements(), end);
      if (first >= last) continue;
      const bool first_replica = parameter.is_cut || one_of_tensor || own_.tensor == 0;
      OptimizerSegment elements{first - begin, last - first, parameter.decay};
      elements.counted = first_replica;  // replicas count once
      if (bucket.matrices) elements.matrix = whole_matrix_of(bucket, parameter);
      if (training_.moments_at_random) {
        elements.rounding = rounding_of(parameter);
        elements.first = first - member.offset;
      }
      if (training_.optimizer == OptimizerKind::adafactor) {
        elements.adafactor = adafactor_parameter(member);
        elements.first = first - member.offset;
        if (bucket.factored) {
          elements.factors =
              static_cast<float*>(memory_.buffer(program_.factors_buffer)) + member.first_factor;
          elements.factor_sums = static_cast<double*>(memory_.buffer(program_.factor_sums_buffer)) +
                                 member.first_factor;
        }
      }
      segments.push_back({elements, index});
      if (!first_replica || !first_copy || member.copy_of_tied) continue;
      if (counted.empty() || counted.back().begin + counted.back().count != elements.begin)
        counted.push_back({elements.begin, 0});
      counted.back().count += elements.count;
    }
  }
}

const WholeMatrix* Runtime::whole_matrix_of(const Bucket& bucket, const Parameter& parameter) {
  WholeMatrix& made = matrices_.emplace_back();
  const bool gathered = bucket.updates.buffer != bucket.update.buffer;
  const Shape& shape = gathered ? parameter.padded_shape : parameter.shape;
  made.rows = shape[-2];
  made.columns = shape[-1];
  made.count = shape.elements() / (made.rows * made.columns);
  if (gathered) {
    made.cut_dim = parameter.cut.dim;
    made.segments = parameter.cut.segments;
    made.parts = mesh_.degrees().tensor;
    made.part = own_.tensor;
  }
  return &made;
}

const AdafactorParameter* Runtime::adafactor_parameter(const StageParameter& member) {
  const Parameter& parameter = member.parameter;
  AdafactorParameter& made = adafactor_parameters_.emplace_back();
  made.elements = parameter.global_shape.elements();
  if (member.first_factor < 0) return &made;
  const Shape whole = factored_shape(parameter);
  made.rows = whole[0], made.columns = whole[1];
  made.width = parameter.shape[1];
  made.places = places_of(parameter, part_of(parameter, mesh_, own_));
  return &made;
}

const RandomRounding* Runtime::rounding_of(const Parameter& parameter) {
  return &roundings_.emplace_back(rounding_key(training_.seed, parameter.name),
                                  places_of(parameter, part_of(parameter, mesh_, own_)));
}

// Reserves scratch memory before the arena is made, because operations that get ready on the device
// may need memory for a while.
Runtime::Scratch Runtime::reserve_scratch() {
  check_supported_here();
  scratch_bytes_ =
      scratch_memory(program_, [&](const OpCall& call) { return backend_.workspace_bytes(call); });
  return {scratch_bytes_ > 0 ? backend_.allocate(scratch_bytes_) : nullptr, {&backend_}};
}

// Reserves lists for all messages of a step, because the number in flight at once depends on which
// rank is faster.
void Runtime::list_messages() {
  std::array<std::size_t, std::size(message_streams)> count{};
  for (std::size_t t = 0; t < program_.tasks.size(); ++t) {
    const Task& task = program_.tasks[t];
    const Body& body = program_.bodies[static_cast<std::size_t>(task.body)];
    for (std::size_t i = 0; i < body.instructions.size(); ++i) {
      const Instruction& instruction = body.instructions[i];
      if (instruction.peer < 0) continue;
      count[is_back(instruction.stream) ? 1 : 0] += 1;
      if (instruction.kind == InstructionKind::recv && runs(instruction, task))
        messages(instruction.stream)
            .to_receive.push_back({static_cast<int>(t), static_cast<int>(i)});
    }
  }
  for (std::size_t i = 0; i < count.size(); ++i) {
    messages_[i].sends.reserve(count[i]);
    messages_[i].receives.reserve(count[i]);
  }
}

}  // namespace meshwright
