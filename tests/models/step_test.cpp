// Tests the begin and the end of a step: which buffers are cleared, measured, updated and gathered,
// for every optimizer, precision and sharding.
#include <algorithm>
#include <set>
#include <vector>

#include "models/program/graph/op_table.h"
#include "models/program/step_work.h"
#include "tests/catch.h"
#include "tests/models/plans.h"

using namespace meshwright::tests;

namespace {

using Buffers = std::vector<int>;

std::vector<Plan> plans_of(const Model& model) {
  std::vector<Plan> plans;
  for (const OptimizerKind optimizer :
       {OptimizerKind::adamw, OptimizerKind::sgd, OptimizerKind::lamb, OptimizerKind::lion,
        OptimizerKind::muon, OptimizerKind::adafactor})
    for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16})
      for (const int zero : {0, 1, 2, 3})
        for (const int tensor : {1, 2}) {
          if (optimizer == OptimizerKind::muon && zero > 1) continue;
          Plan plan = small_plan(model, {1, tensor, 2, 4, zero});
          plan.training.optimizer = optimizer;
          plan.training.precision = precision;
          plan.training.ema_decay = tensor == 1 ? 0.9 : 0;
          plan.parallelism.shard_whole = optimizer == OptimizerKind::muon && zero == 1;
          plans.push_back(plan);
        }
  return plans;
}

const Body& body_of(const Program& program, Body::Kind kind) {
  return *std::ranges::find(program.bodies, kind, &Body::kind);
}

std::vector<Instruction> computed(const Body& body, Op op) {
  std::vector<Instruction> found;
  for (const Instruction& each : body.instructions)
    if (each.kind == InstructionKind::compute && each.op == op) found.push_back(each);
  return found;
}

Buffers buffers_of(const std::vector<Operand>& operands) {
  Buffers buffers;
  for (const Operand& each : operands) buffers.push_back(each.buffer);
  return buffers;
}

// Returns the first `count` buffers of a list.
Buffers first_of(const std::vector<Operand>& operands, std::size_t count) {
  Buffers buffers = buffers_of(operands);
  REQUIRE(buffers.size() >= count);
  buffers.resize(count);
  return buffers;
}

std::int64_t bytes_of_buffer(const Program& program, int buffer) {
  return program.memory.buffers[buffer].bytes;
}

void check_begin(const Program& program) {
  const std::vector<Instruction> zeros =
      computed(body_of(program, Body::Kind::step_begin), Op::zero);
  REQUIRE(zeros.size() == 1);
  std::set<int> wanted{program.loss_buffer, program.norm_buffer};
  for (const int each : {program.mtp_loss_buffer, program.parameter_norms_buffer,
                         program.factor_sums_buffer, program.choice_counts_buffer})
    if (each >= 0) wanted.insert(each);
  for (const Bucket& bucket : program.buckets)
    if (!bucket.frozen) wanted.insert(bucket.gradients.buffer);
  const Buffers cleared = buffers_of(zeros[0].outputs);
  // Not all gradients are cleared, because the step's first micro-batch overwrites some.
  for (const int each : cleared) CHECK(wanted.contains(each));
  for (const Operand& each : zeros[0].outputs)
    if (each.buffer == program.loss_buffer || each.buffer == program.norm_buffer)
      CHECK(each.type == TensorType{{1}, Dtype::f64});
  for (const int each :
       {program.loss_buffer, program.norm_buffer, program.mtp_loss_buffer,
        program.parameter_norms_buffer, program.factor_sums_buffer, program.choice_counts_buffer})
    if (each >= 0) {
      const auto found = std::ranges::find(zeros[0].outputs, each, &Operand::buffer);
      REQUIRE(found != zeros[0].outputs.end());
      CHECK(found->type.bytes() == bytes_of_buffer(program, each));
      CHECK(found->type.dtype == Dtype::f64);
    }
}

void check_measures(const Program& program, const Body& end, bool scales) {
  const OptimizerKind optimizer = program.settings->training.optimizer;
  const Op op = optimizer == OptimizerKind::lamb   ? Op::lamb_norms
                : optimizer == OptimizerKind::muon ? Op::muon_momentum
                                                   : Op::adafactor_norms;
  for (const Instruction& each : computed(end, op)) {
    REQUIRE(each.bucket >= 0);
    const Bucket& bucket = program.buckets[each.bucket];
    CHECK(each.inputs[0].buffer == bucket.own_gradients.buffer);
    const Buffers inputs = buffers_of(each.inputs);
    CHECK(std::ranges::count(inputs, program.norm_buffer) == 1);
    CHECK(std::ranges::count(inputs, program.loss_scale_state_buffer) == (scales ? 1 : 0));
  }
}

void check_end(const Program& program, const Training& training) {
  const Body& end = body_of(program, Body::Kind::step_end);
  const bool scales = training.precision == Precision::fp16;
  for (const Instruction& each : end.instructions)
    if (each.kind == InstructionKind::compute)
      CHECK(static_cast<int>(each.phase) == static_cast<int>(Phase::backward));
  const std::vector<Instruction> squares = computed(end, Op::sum_of_squares);
  std::vector<Instruction> steps;
  std::ranges::copy_if(end.instructions, std::back_inserter(steps), [](const Instruction& each) {
    return each.kind == InstructionKind::optimizer_step;
  });
  REQUIRE(squares.size() == program.buckets.size());
  REQUIRE(steps.size() == program.buckets.size());
  for (std::size_t b = 0; b < program.buckets.size(); ++b) {
    const Bucket& bucket = program.buckets[b];
    CHECK(squares[b].bucket == static_cast<int>(b));
    CHECK(buffers_of(squares[b].inputs) == Buffers{bucket.own_gradients.buffer});
    CHECK(buffers_of(squares[b].outputs) == Buffers{program.norm_buffer});
    CHECK(steps[b].bucket == static_cast<int>(b));
    CHECK(steps[b].piece == -1);
    Buffers inputs{bucket.own_gradients.buffer, program.norm_buffer};
    if (scales) inputs.push_back(program.loss_scale_state_buffer);
    if (program.parameter_norms_buffer >= 0) inputs.push_back(program.parameter_norms_buffer);
    if (bucket.factored) inputs.push_back(program.factor_sums_buffer);
    if (bucket.matrices) inputs.push_back(bucket.updates.buffer);
    CHECK(buffers_of(steps[b].inputs) == inputs);
    Buffers outputs{bucket.own_weights.buffer, bucket.master.buffer};
    for (const Operand& moment : {bucket.first_moment, bucket.second_moment})
      if (moment.buffer >= 0) outputs.push_back(moment.buffer);
    if (bucket.average.buffer >= 0) outputs.push_back(bucket.average.buffer);
    if (bucket.matrices) outputs.push_back(bucket.update.buffer);
    CHECK(first_of(steps[b].outputs, outputs.size()) == outputs);
    CHECK(steps[b].outputs.size() <= outputs.size() + 1);  // scratch memory may be one more
  }
  const std::vector<Instruction> scaled = computed(end, Op::update_loss_scale);
  REQUIRE(scaled.size() == (scales ? 1 : 0));
  if (scales) {
    CHECK(buffers_of(scaled[0].inputs) == Buffers{program.norm_buffer});
    CHECK(buffers_of(scaled[0].outputs) ==
          Buffers{program.loss_scale_state_buffer, program.loss_scale_buffer});
  }
  check_measures(program, end, scales);
  // Flat shards of weights are gathered after their bucket's step.
  const int zero = program.settings->zero_stage;
  int gathered = 0;
  for (const Instruction& each : end.instructions) {
    if (each.kind != InstructionKind::all_gather || each.bucket < 0) continue;
    const Bucket& bucket = program.buckets[each.bucket];
    if (each.outputs[0].buffer != bucket.weights.buffer) continue;
    ++gathered;
    CHECK(each.inputs[0] == bucket.own_weights);
    CHECK(each.outputs[0] == bucket.weights);
  }
  const auto sharded = std::ranges::count_if(program.buckets, &Bucket::sharded);
  if (zero <= 2) CHECK(gathered == sharded);
}

// Checks the scratch memory in which muon makes a matrix orthogonal: two copies of the largest
// matrix, and two square matrices of its shorter side.
void check_scratch_of_muon(const Program& program) {
  for (const Instruction& each : body_of(program, Body::Kind::step_end).instructions) {
    if (each.kind != InstructionKind::optimizer_step) continue;
    const Bucket& bucket = program.buckets[each.bucket];
    if (!bucket.matrices) continue;
    std::int64_t most = 0;
    for (const int index : bucket.parameters) {
      const Parameter& p = program.parameters[index].parameter;
      const std::int64_t rows = p.padded_shape[-2], columns = p.padded_shape[-1];
      most =
          std::max(most, 2 * (rows * columns + std::min(rows, columns) * std::min(rows, columns)));
    }
    CHECK(each.outputs.back().type.shape.elements() == most);
  }
}

}  // namespace

TEST_CASE("a step clears what it adds to, measures what it steps, and steps every bucket once",
          "[models][lower]") {
  for (const char* family : {"gpt", "llama"}) {
    const Model model = small_model(family);
    for (const Plan& plan : plans_of(model)) {
      INFO(family << ": " << describe(plan));
      const std::vector<Program> stages = lower_small(model, plan);
      const Program& program = stages.front();
      check_begin(program);
      check_end(program, plan.training);
      if (plan.training.optimizer == OptimizerKind::muon) check_scratch_of_muon(program);
    }
  }
}

// For an element, a step moves the fp32 states, which are mostly read and written, gradients of `g`
// bytes, a master of 4 bytes that is read and written, and a weight of 2 bytes.
TEST_CASE("a step of each optimizer moves the bytes of its states", "[models][lower]") {
  struct Case {
    OptimizerKind optimizer;
    double states, gradients;  // bytes moved for states, and how often gradients are read
  };
  for (const Case& each : {Case{OptimizerKind::adamw, 16, 1}, Case{OptimizerKind::adam, 16, 1},
                           Case{OptimizerKind::sgd, 8, 1}, Case{OptimizerKind::lion, 8, 1},
                           Case{OptimizerKind::lamb, 8, 0}, Case{OptimizerKind::muon, 16, 1},
                           Case{OptimizerKind::adafactor, 4, 1}})
    for (const double decay : {0.0, 0.9}) {
      const Model model = small_model("gpt");
      Plan plan = small_plan(model, {.data = 2});
      plan.training.optimizer = each.optimizer;
      plan.training.precision = Precision::bf16;
      plan.training.ema_decay = decay;
      const Program program = lower_small(model, plan).front();
      INFO(describe(plan));
      for (const Instruction& step : body_of(program, Body::Kind::step_end).instructions) {
        if (step.kind != InstructionKind::optimizer_step) continue;
        const Bucket& bucket = program.buckets[step.bucket];
        std::vector<Kernel> kernels;
        append_step_kernels(program, step, kernels);
        const double g = static_cast<double>(bytes_of(bucket.gradients.type.dtype));
        // For muon's matrices, only the update is read, which was made from gradients and moments
        // before. Adafactor's matrices have no moments.
        double states = each.states + each.gradients * g;
        if (bucket.matrices) states = 4;
        if (bucket.factored) states = g;
        const double bytes = states + 2 * 4 + 2 + (decay > 0 ? 8 : 0);
        CHECK(kernels.back().bytes == Approx(bytes * static_cast<double>(bucket.shard_elements)));
        if (!bucket.matrices) CHECK(kernels.size() == 1);
      }
    }
}

// Newton-Schulz has five steps. Each multiplies three times for a matrix X of [m,n] with m <= n: X
// X^T, its square, and a sum of both with X.
TEST_CASE("muon makes each matrix orthogonal in fifteen products", "[models][lower]") {
  const Model model = small_model("llama");
  Plan plan = small_plan(model, {.data = 2});
  plan.training.optimizer = OptimizerKind::muon;
  const Program program = lower_small(model, plan).front();
  int matrices = 0;
  for (const Instruction& step : body_of(program, Body::Kind::step_end).instructions) {
    if (step.kind != InstructionKind::optimizer_step) continue;
    const Bucket& bucket = program.buckets[step.bucket];
    if (!bucket.matrices) continue;
    std::vector<Kernel> kernels;
    append_step_kernels(program, step, kernels);
    double flops = 0, bytes = 0, wanted_flops = 0, wanted_bytes = 0;
    std::size_t products = 0;
    for (const Kernel& each : kernels) {
      flops += each.flops;
      products += each.kind == Kernel::Kind::gemm;
      bytes += each.bytes;
      CHECK(each.flops == 2.0 * static_cast<double>(each.m * each.n * each.k));
    }
    for (const int index : bucket.parameters) {
      const Shape& shape = program.parameters[index].parameter.shape;
      const double m = static_cast<double>(std::min(shape[0], shape[1]));
      const double n = static_cast<double>(std::max(shape[0], shape[1]));
      wanted_flops += 5 * 2 * (m * m * n + m * m * m + m * m * n);
      // Gathering, measuring, scaling and writing back move 2 + 1 + 2 + 2 times the matrix. A
      // Newton-Schulz step moves the operands of its matmuls, 3 square matrices and 3 times the
      // matrix to add.
      const double products_of_step = (2 * m * n + m * m) + 3 * m * m + (m * m + 2 * m * n);
      wanted_bytes += 4 * (7 * m * n + 5 * (products_of_step + 3 * m * m + 3 * m * n));
      ++matrices;
    }
    CHECK(products == 15 * bucket.parameters.size());
    CHECK(flops == Approx(wanted_flops));
    CHECK(bytes - kernels.back().bytes == Approx(wanted_bytes));
  }
  CHECK(matrices == 4 * 7);  // q, k, v, o, gate, up and down of four blocks
}

TEST_CASE("routers' biases are moved in the weights and masters of their buckets",
          "[models][lower]") {
  const Model model =
      load_model(MESHWRIGHT_SOURCE_DIR "/tests/golden/transformers/deepseek_v3", ".");
  for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16}) {
    Plan plan = small_plan(model, {.data = 2, .zero_stage = 1});
    plan.training.router_bias_update_rate = 0.001;
    plan.training.precision = precision;
    const Program program = lower_small(model, plan).front();
    REQUIRE(program.choice_counts_buffer >= 0);
    check_begin(program);
    const std::vector<Instruction> updates =
        computed(body_of(program, Body::Kind::step_end), Op::update_choice_biases);
    CHECK(!updates.empty());
    for (const Instruction& each : updates) {
      const Bucket& bucket = program.buckets[each.bucket];
      Buffers inputs{program.choice_counts_buffer, program.norm_buffer};
      if (precision == Precision::fp16) inputs.push_back(program.loss_scale_state_buffer);
      CHECK(buffers_of(each.inputs) == inputs);
      REQUIRE(each.outputs.size() == 2);
      CHECK(each.outputs[0] == bucket.own_weights);
      CHECK(each.outputs[1] == bucket.master);
      CHECK(static_cast<int>(each.phase) == static_cast<int>(Phase::backward));
    }
  }
}
