// Tests passes and lowering with the legal degrees of small models.
#include "models/compiler/lower/lower.h"

#include <map>
#include <string>

#include "models/architectures/model.h"
#include "models/compiler/partition/partition.h"
#include "models/compiler/passes/pass.h"
#include "models/compiler/schedule/schedule.h"
#include "models/compiler/schedule/slot_pools.h"
#include "models/core/error.h"
#include "models/program/graph/op_table.h"
#include "tests/catch.h"
#include "tests/models/plans.h"

using namespace meshwright::tests;

namespace {

int count_ops(const Graph& graph, Op op, Phase phase) {
  int count = 0;
  for (const Node& node : graph.nodes) count += node.op == op && node.phase == phase;
  return count;
}

}  // namespace

TEST_CASE("every legal plan of a small model lowers to a sound memory plan",
          "[models][lower][release]") {
  for (const char* family : {"gpt", "llama", "bert"}) {
    const Model model = small_model(family);
    std::vector<Plan> plans = small_plans(model);
    for (std::size_t i = 0, count = plans.size(); i < count; ++i) {
      plans.push_back(plans[i]);
      plans.back().training.compiler = CompilerLevel::none;
      plans.back().training.attention = AttentionKernel::unfused;
    }
    for (const Plan& plan : plans) {
      INFO(describe(plan) << " " << family);
      const std::vector<Program> stages = lower_small(model, plan);
      REQUIRE(stages.size() == static_cast<std::size_t>(plan.parallelism.pipeline));
      for (const Program& program : stages) {
        verify(program.memory);
        const int chunks = plan.parallelism.virtual_stages;
        // The tasks are the step's begin and end, and for each chunk and micro-batch a forward and
        // a backward task (or the two halves of a backward).
        const int of_pair = schedule_info(plan.parallelism.schedule).splits_backwards ? 3 : 2;
        CHECK(program.tasks.size() ==
              static_cast<std::size_t>(2 + of_pair * chunks * plan.micro_batches()));
      }
    }
  }
}

TEST_CASE("a stage has as many slots as its schedule keeps micro-batches in flight",
          "[models][lower]") {
  const Model model = small_model("gpt");
  Plan plan = small_plan(model, {.pipeline = 4, .micro_batches = 8});
  // In 1F1B with 4 stages, stage s has 4 - s micro-batches in flight.
  const auto stages = lower_small(model, plan);
  for (int stage = 0; stage < 4; ++stage)
    CHECK(stages[static_cast<std::size_t>(stage)].memory.slots[0].slots == 4 - stage);
  plan.parallelism.schedule = ScheduleKind::gpipe;
  for (const Program& program : lower_small(model, plan)) CHECK(program.memory.slots[0].slots == 8);
}

namespace {

// Returns the number of slots of all chunks. Chunks that share slots have the same offset and count
// once.
int slots_of(const Program& program) {
  std::map<std::int64_t, int> by_offset;
  for (const SlotRegion& region : program.memory.slots) by_offset[region.offset] = region.slots;
  int slots = 0;
  for (const auto& [offset, count] : by_offset) slots += count;
  return slots;
}

std::int64_t most_activations(const std::vector<Program>& stages) {
  std::int64_t most = 0;
  for (const Program& program : stages)
    most = std::max(most,
                    program.memory.class_bytes[static_cast<std::size_t>(MemoryClass::activations)]);
  return most;
}

}  // namespace

// Lowering also verifies that streams never wait for each other's messages in a circle.
TEST_CASE(
    "zero_bubble_v goes there and back in as many slots as 1f1b, dualpipe_v in half a one more",
    "[models][lower]") {
  Model model = small_model("gpt");
  model.layers = 12;
  const auto [schedule, more] =
      GENERATE(std::pair{ScheduleKind::zero_bubble_v, 0}, std::pair{ScheduleKind::dualpipe_v, 1});
  for (const int p : {2, 3, 4, 6})
    for (const int m : {1, p - 1, p, 2 * p - 1, 2 * p, 3 * p + 1})
      for (const int active : {0, 1, p, 2 * p - 1}) {
        INFO("p " << p << " m " << m << " active " << active);
        Plan plan = small_plan(model, {.pipeline = p, .micro_batches = m});
        plan.parallelism.schedule = schedule;
        plan.parallelism.virtual_stages = 2;
        plan.parallelism.active_microbatches = active;
        const std::vector<Program> stages = lower_small(model, plan);
        // With two chunks, two slots are as large as one slot of a stage with one chunk.
        for (const Program& program : stages)
          CHECK(slots_of(program) <= 2 * p + more + spare_slots);
        if (active == 1) {
          int most = 0;
          for (const Program& program : stages) most = std::max(most, slots_of(program));
          CHECK(most == 2);
        }
      }
}

// A chunk's slots also hold its own messages, so equal memory is expected only per layer.
TEST_CASE("a layer takes as much memory in zero_bubble_v as in zero_bubble, and in a spare slot",
          "[models][lower]") {
  for (const int p : {2, 4}) {
    const auto activations = [&](ScheduleKind schedule, int units_of_chunk) {
      Model model = small_model("gpt");
      model.layers = 2 * p * units_of_chunk - 2;  // the embedding and the head are units too
      Plan plan = small_plan(model, {.pipeline = p, .micro_batches = 3 * p});
      plan.parallelism.schedule = schedule;
      if (schedule == ScheduleKind::zero_bubble_v) plan.parallelism.virtual_stages = 2;
      return most_activations(lower_small(model, plan));
    };
    const auto of_two_layers = [&](ScheduleKind schedule) {
      return activations(schedule, 3) - activations(schedule, 2);
    };
    const std::int64_t whole = of_two_layers(ScheduleKind::zero_bubble);
    CHECK(of_two_layers(ScheduleKind::zero_bubble_v) * 2 * p == whole * (2 * p + spare_slots));
  }
}

TEST_CASE("tensor parallelism costs two sums forward and two backward per block",
          "[models][passes]") {
  const Model model = small_model("gpt");  // 4 blocks
  Plan plan = small_plan(model, {.tensor = 2});
  const Graph graph = run_passes(build_graph(model, plan.training), plan);
  // The forward pass sums the outputs of attention and of the MLP in each block, and the embedding.
  CHECK(count_ops(graph, Op::tensor_reduce, Phase::forward) == 2 * 4 + 1);
  // The backward pass sums the gradients of the inputs of QKV and of the MLP in each block, and of
  // the head.
  CHECK(count_ops(graph, Op::tensor_reduce, Phase::backward) == 2 * 4 + 1);
  plan.parallelism.sequence_parallel = true;
  const Graph rows = run_passes(build_graph(model, plan.training), plan);
  CHECK(count_ops(rows, Op::sequence_scatter, Phase::forward) == 2 * 4 + 1);
  CHECK(count_ops(rows, Op::sequence_gather, Phase::forward) == 2 * 4 + 1);
  CHECK(count_ops(rows, Op::sequence_gather, Phase::recompute) == 2 * 4 + 1);
  CHECK(count_ops(rows, Op::tensor_reduce, Phase::forward) == 0);
}

TEST_CASE("layout memory scatters every product and gathers the statistics of every norm",
          "[models][passes]") {
  const Model model = small_model("gpt");  // 4 blocks of 4 products and 2 norms
  Plan plan = small_plan(model, {.tensor = 2});
  plan.parallelism.tensor_layout = TensorLayout::memory;
  const Graph graph = run_passes(build_graph(model, plan.training), plan);
  // In addition to the blocks, the head has a matmul, and there are the final norm and the loss's
  // statistics.
  CHECK(count_ops(graph, Op::sequence_scatter, Phase::forward) == 4 * 4 + 1);
  CHECK(count_ops(graph, Op::stats_gather, Phase::forward) == 2 * 4 + 1 + 1);
  CHECK(count_ops(graph, Op::sequence_gather, Phase::backward) == 4 * 4 + 1);
  CHECK(count_ops(graph, Op::tensor_reduce, Phase::backward) == 2 * 4 + 1);
  CHECK(count_ops(graph, Op::tensor_reduce, Phase::forward) == 0);
  // Every parameter is split over the ranks, also embeddings, norms and biases.
  for (const Parameter& parameter : graph.parameters) {
    INFO(parameter.name);
    CHECK(parameter.is_cut);
  }
}

TEST_CASE("layout speed differs from megatron in the table and the head", "[models][passes]") {
  const Model model = small_model("gpt");
  Plan plan = small_plan(model, {.tensor = 2});
  plan.parallelism.tensor_layout = TensorLayout::speed;
  const Graph graph = run_passes(build_graph(model, plan.training), plan);
  CHECK(count_ops(graph, Op::tensor_reduce, Phase::forward) == 2 * 4);
  CHECK(count_ops(graph, Op::sequence_gather, Phase::forward) == 1);   // of the table's columns
  CHECK(count_ops(graph, Op::sequence_scatter, Phase::forward) == 1);  // of the logits
  CHECK(count_ops(graph, Op::layer_norm, Phase::forward) == 2 * 4 + 1);
}

TEST_CASE("layout memory holds no activation and no parameter twice", "[models][lower]") {
  const Model model = small_model("gpt");
  const auto memory_of = [&](TensorLayout layout, int tensor) {
    Plan plan = small_plan(model, {.tensor = tensor});
    plan.parallelism.tensor_layout = layout;
    return lower_small(model, plan)[0].memory;
  };
  const auto parameters = [](const MemoryPlan& memory) {
    return static_cast<double>(
        memory.class_bytes[static_cast<std::size_t>(MemoryClass::parameters)]);
  };
  const MemoryPlan whole = memory_of(TensorLayout::memory, 1);
  const MemoryPlan columns = memory_of(TensorLayout::memory, 4);
  const MemoryPlan megatron = memory_of(TensorLayout::megatron, 4);
  CHECK(columns.slots[0].stride < megatron.slots[0].stride);
  // A slot is not exactly a quarter as large, because statistics of rows, tokens and targets are on
  // every rank, and buffers are padded.
  CHECK(static_cast<double>(columns.slots[0].stride) <
        0.45 * static_cast<double>(whole.slots[0].stride));
  CHECK(parameters(columns) < parameters(megatron));
  // A vocabulary of 61 tokens is padded to 128 on one rank and to 512 on four.
  const double padding = 32.0 * (512 - 128) * 4;
  CHECK(parameters(columns) < 0.25 * (parameters(whole) + padding) + 64 * 4 * 60);
}

TEST_CASE("with own batches a rank loads its share of the sequences", "[models][lower]") {
  const Model model = small_model("gpt");
  for (TensorLayout layout : {TensorLayout::megatron, TensorLayout::speed, TensorLayout::memory}) {
    Plan plan = small_plan(model, {.tensor = 2});
    plan.parallelism.tensor_layout = layout;
    plan.parallelism.tensor_batch_own = true;
    const auto stages = lower_small(model, plan);
    int loads = 0;
    for (const Instruction& instruction : stages[0].bodies[1].instructions) {
      if (instruction.kind != InstructionKind::load_input) continue;
      ++loads;
      CHECK(instruction.group == GroupKind::tensor);
      CHECK(instruction.outputs[0].type.shape.elements() == 8);  // 2 sequences of 8, on 2 ranks
    }
    CHECK(loads == 2);
    CHECK(stages[0].targets_per_step == plan.training.global_batch * 8);
  }
}

TEST_CASE("recomputation trades kept activations for repeated work", "[models][passes]") {
  const Model model = small_model("gpt");
  std::vector<std::int64_t> kept;
  for (Recompute kind : {Recompute::none, Recompute::selective, Recompute::full}) {
    Plan plan = small_plan(model, {});
    plan.training.attention = AttentionKernel::unfused;
    plan.training.recompute = kind;
    const auto stages = lower_small(model, plan);
    kept.push_back(stages[0].memory.slots[0].stride);
  }
  CHECK(kept[0] > kept[1]);
  CHECK(kept[1] > kept[2]);
  // With a fraction of 0.5, two of the four blocks are recomputed.
  Plan plan = small_plan(model, {});
  plan.training.recompute = Recompute::full;
  plan.training.recompute_fraction = 0.5;
  const Graph graph = run_passes(build_graph(model, plan.training), plan);
  CHECK(count_ops(graph, Op::attention, Phase::recompute) == 2);
}

TEST_CASE("groups of blocks keep one input each and are repeated together", "[models][passes]") {
  const Model model = small_model("gpt");  // 4 blocks
  Plan plan = small_plan(model, {});
  const auto kept = [&](Recompute kind, int group) {
    plan.training.recompute = kind;
    plan.training.recompute_group = group;
    const auto stages = lower_small(model, plan);
    verify(stages);
    return stages[0].memory.slots[0].stride;
  };
  // The input of a block takes micro_batch 2 x sequence 8 x hidden 32 x 4 bytes.
  const std::int64_t input = 2 * 8 * 32 * 4, each = kept(Recompute::full, 1);
  CHECK(kept(Recompute::group, 1) == each);
  CHECK(kept(Recompute::group, 2) == each - 2 * input);  // saves the inputs of blocks 0 and 2
  CHECK(kept(Recompute::group, 3) == each - 2 * input);  // saves the inputs of blocks 0 and 3
  CHECK(kept(Recompute::group, 4) == each - 3 * input);
  CHECK(kept(Recompute::contiguous, 1) == each - 3 * input);
  const Graph graph = run_passes(build_graph(model, plan.training), plan);
  CHECK(count_ops(graph, Op::attention, Phase::recompute) == 4);
}

TEST_CASE("groups of blocks end where a stage ends", "[models][passes]") {
  const Model model = small_model("gpt");
  for (const SmallDegrees degrees :
       {SmallDegrees{2, 1, 1}, SmallDegrees{4, 1, 1}, SmallDegrees{2, 2, 1},
        SmallDegrees{2, 1, 2, 4, 3}, SmallDegrees{2, 1, 1, 4, 0, 2}})
    for (const auto& [kind, group] :
         {std::pair{Recompute::contiguous, 1}, std::pair{Recompute::group, 3}}) {
      Plan plan = small_plan(model, degrees);
      plan.training.recompute = kind;
      plan.training.recompute_group = group;
      plan.parallelism.sequence_parallel = degrees.tensor > 1;
      INFO(describe(plan));
      verify(lower_small(model, plan));
    }
  // With one block on a stage, there is nothing to group.
  Plan plan = small_plan(model, {.pipeline = 4});
  plan.stage_of_unit = {0, 0, 1, 2, 3, 3, 3};  // embedding, four blocks, norm, head
  plan.training.recompute = Recompute::full;
  const auto each = lower_small(model, plan);
  plan.training.recompute = Recompute::contiguous;
  const auto together = lower_small(model, plan);
  for (std::size_t stage = 0; stage < 4; ++stage)
    CHECK(together[stage].memory.slots[0].stride == each[stage].memory.slots[0].stride);
}

TEST_CASE("modules are recomputed by name", "[models][passes]") {
  const Model model = small_model("gpt");
  const auto graph_with = [&](std::vector<std::string> modules) {
    Plan plan = small_plan(model, {});
    plan.training.recompute_modules = std::move(modules);
    verify(lower_small(model, plan));
    return run_passes(build_graph(model, plan.training), plan);
  };
  const Graph mlps = graph_with({"transformer.h.*.mlp"});
  CHECK(count_ops(mlps, Op::gelu, Phase::recompute) == 4);
  CHECK(count_ops(mlps, Op::linear, Phase::recompute) == 2 * 4);
  CHECK(count_ops(mlps, Op::attention, Phase::recompute) == 0);
  CHECK(count_ops(mlps, Op::add, Phase::recompute) == 0);
  const Graph two = graph_with({"transformer.h.1", "transformer.h.1.mlp", "transformer.h.3.attn"});
  CHECK(count_ops(two, Op::gelu, Phase::recompute) == 1);
  CHECK(count_ops(two, Op::attention, Phase::recompute) == 2);
  CHECK(count_ops(graph_with({"transformer.h"}), Op::attention, Phase::recompute) == 4);
  CHECK_THROWS_WITH(graph_with({"transformer.h.*.mlp", "transformer.h.1.mpl"}),
                    "/training/recompute_modules/1: 'transformer.h.1.mpl' names no module of a "
                    "block; did you mean 'transformer.h.1.mlp'?");
  CHECK_THROWS_AS(graph_with({"transformer.wte"}), InputError);
}

TEST_CASE("selective recomputation repeats what has a score matrix only", "[models][passes]") {
  const Model model = small_model("gpt");
  Plan plan = small_plan(model, {});
  plan.training.recompute = Recompute::selective;
  for (const auto& [kernel, repeated] :
       {std::pair{AttentionKernel::unfused, 4}, std::pair{AttentionKernel::flash2, 0}}) {
    plan.training.attention = kernel;
    const Graph graph = run_passes(build_graph(model, plan.training), plan);
    CHECK(count_ops(graph, Op::attention, Phase::recompute) == repeated);
  }
}

TEST_CASE("level none runs what an eager framework runs", "[models][passes]") {
  Plan plan = small_plan(small_model("gpt"), {});  // 4 blocks
  plan.training.attention = AttentionKernel::unfused;
  plan.training.compiler = CompilerLevel::none;
  const auto graph_of = [&](const char* family) {
    return run_passes(build_graph(small_model(family), plan.training), plan);
  };
  const Graph gpt = graph_of("gpt");
  for (const Op whole : {Op::gelu, Op::attention, Op::cross_entropy, Op::gelu_grad,
                         Op::attention_grad, Op::cross_entropy_grad})
    CHECK(count_ops(gpt, whole, Phase::forward) + count_ops(gpt, whole, Phase::backward) == 0);
  // Each block scales four times: by GELU's 0.5, 0.044715 and sqrt(2/pi), and the attention scores.
  CHECK(count_ops(gpt, Op::scale, Phase::forward) == 4 * 4);
  CHECK(count_ops(gpt, Op::tanh, Phase::forward) == 4);
  CHECK(count_ops(gpt, Op::multiply, Phase::backward) == 2 * 4);
  CHECK(count_ops(gpt, Op::softmax_grad, Phase::backward) == 4);
  CHECK(count_ops(gpt, Op::log_softmax_grad, Phase::backward) == 1);
  const Graph llama = graph_of("llama");
  CHECK(count_ops(llama, Op::times_sine, Phase::forward) == 2 * 4);  // of queries and of keys
  CHECK(count_ops(llama, Op::inverse_root, Phase::forward) == 2 * 4 + 1);
  CHECK(count_ops(llama, Op::silu_grad, Phase::backward) == 4);
  CHECK(model_flops(llama) == [&] {
    plan.training.compiler = CompilerLevel::fused;
    return model_flops(graph_of("llama"));
  }());
  plan.training.compiler = CompilerLevel::none;
  plan.training.recompute = Recompute::selective;
  const Graph selective = graph_of("gpt");  // q, k and v are kept, and what is made of the values
  CHECK(count_ops(selective, Op::scores, Phase::recompute) == 4);
  CHECK(count_ops(selective, Op::scale, Phase::recompute) == 4);
  CHECK(count_ops(selective, Op::softmax, Phase::recompute) == 4);
  for (const Op kept : {Op::split_heads, Op::weigh_values, Op::join_heads, Op::cube})
    CHECK(count_ops(selective, kept, Phase::recompute) == 0);
  plan.training.attention = AttentionKernel::flash2;
  CHECK(count_ops(graph_of("gpt"), Op::attention, Phase::forward) == 4);  // one library kernel each
}

TEST_CASE("the framework's optimizer has planned scratch memory", "[models][lower]") {
  const Model model = small_model("gpt");
  Plan plan = small_plan(model, {});
  const auto scratch = [&](OptimizerKind kind, CompilerLevel level) {
    plan.training.optimizer = kind;
    plan.training.compiler = level;
    const std::vector<Program> stages = lower_small(model, plan);
    std::int64_t most = 0;
    for (const Buffer& buffer : stages[0].memory.buffers)
      if (buffer.name == "optimizer_scratch") most = std::max(most, buffer.bytes);
    return most;
  };
  // The largest parameter is the token table: 61 tokens padded to 128, hidden size 32, in fp32.
  CHECK(scratch(OptimizerKind::adamw, CompilerLevel::none) == 128 * 32 * 4);
  CHECK(scratch(OptimizerKind::adam, CompilerLevel::none) == 2 * 128 * 32 * 4);
  CHECK(scratch(OptimizerKind::sgd, CompilerLevel::none) == 0);
  CHECK(scratch(OptimizerKind::adamw, CompilerLevel::fused) == 0);
}

TEST_CASE("sharding divides the optimizer's memory, then the gradients', then the parameters'",
          "[models][lower]") {
  const Model model = small_model("llama");
  std::array<std::array<std::int64_t, 3>, 4> bytes{};
  for (int zero = 0; zero <= 3; ++zero) {
    const Plan plan = small_plan(model, {.data = 4, .zero_stage = zero});
    const MemoryPlan memory = lower_small(model, plan)[0].memory;
    const auto of = [&](MemoryClass cls) {
      return memory.class_bytes[static_cast<std::size_t>(cls)];
    };
    bytes[static_cast<std::size_t>(zero)] = {
        of(MemoryClass::parameters), of(MemoryClass::gradients), of(MemoryClass::optimizer)};
  }
  const auto near = [](std::int64_t part, std::int64_t whole, double share) {
    return static_cast<double>(part) == Approx(share * static_cast<double>(whole)).epsilon(0.05);
  };
  CHECK(near(bytes[1][2], bytes[0][2], 0.25));
  CHECK(near(bytes[1][1], bytes[0][1], 1.0));
  CHECK(near(bytes[2][1], bytes[0][1], 0.25));
  CHECK(near(bytes[2][0], bytes[0][0], 1.0));
  CHECK(near(bytes[3][0], bytes[0][0], 0.25));
}

TEST_CASE("a snapshot holds each state once over the ranks that have it", "[models][lower]") {
  const Model model = small_model("gpt");
  const auto bytes = [&](SmallDegrees degrees, MemoryClass cls, bool snapshot = true) {
    Plan plan = small_plan(model, degrees);
    plan.snapshot = snapshot;
    std::int64_t sum = 0;
    for (const Program& stage : lower_small(model, plan))
      sum += stage.memory.class_bytes[static_cast<std::size_t>(cls)];
    return static_cast<double>(sum);
  };
  CHECK(bytes({}, MemoryClass::snapshot, false) == 0);
  // A snapshot has fp32 weights and two moments. The memory class `optimizer` has only the moments.
  const double whole = bytes({}, MemoryClass::optimizer) * 3 / 2;
  CHECK(bytes({}, MemoryClass::snapshot) == Approx(whole).epsilon(0.01));
  for (int zero = 0; zero <= 3; ++zero)
    CHECK(bytes({.data = 4, .zero_stage = zero}, MemoryClass::snapshot) ==
          Approx(whole / 4).epsilon(0.05));
  // The second copy of a tied embedding is not saved.
  CHECK(bytes({.pipeline = 2}, MemoryClass::snapshot) == Approx(whole).epsilon(0.01));
}

TEST_CASE("where ranks compute on GPUs snapshots lie in host memory", "[models][lower]") {
  const Model model = small_model("gpt");
  for (const bool owners : {false, true}) {
    Plan plan = small_plan(model, {.data = 4, .zero_stage = 1});
    plan.parallelism.shard_whole = owners;
    plan.snapshot = true;
    const MemoryPlan beside = lower_small(model, plan)[0].memory;
    const std::vector<Program> stages = lower_small(model, plan, {.snapshot_on_host = true});
    verify(stages);
    const MemoryPlan& memory = stages[0].memory;
    const auto snapshot = static_cast<std::size_t>(MemoryClass::snapshot);
    CHECK(beside.snapshot_bytes == 0);
    CHECK(beside.class_bytes[snapshot] > 0);
    CHECK(memory.class_bytes[snapshot] == 0);
    CHECK(memory.host_bytes == memory.snapshot_bytes);
    // The bytes are those of the rank with the largest snapshot, as for memory on the device.
    CHECK(memory.snapshot_bytes == beside.class_bytes[snapshot]);
    CHECK(memory.arena_bytes == beside.arena_bytes - memory.snapshot_bytes);
    for (const Bucket& bucket : stages[0].buckets) {
      REQUIRE(bucket.snapshot.buffer >= 0);
      const int id = bucket.snapshot.buffer;
      CHECK(memory.address(id, 0) + bucket.snapshot.type.bytes() <= memory.snapshot_bytes);
    }
  }
}

TEST_CASE("fp16 scales the loss, and lamb sums norms over whoever shares a parameter",
          "[models][lower]") {
  const Model model = small_model("gpt");
  Plan plan = small_plan(model, {.tensor = 2, .data = 2, .zero_stage = 1});
  const auto counts = [&] {
    std::map<std::string, int> found;
    const std::vector<Program> stages = lower_small(model, plan);
    for (const Body& body : stages[0].bodies)
      for (const Instruction& i : body.instructions) {
        if (i.kind == InstructionKind::compute) ++found[std::string(info(i.op).name)];
        if (i.kind == InstructionKind::compute && info(i.op).takes_loss_scale)
          found["operands of the loss's gradient"] = static_cast<int>(i.inputs.size());
        if (i.kind == InstructionKind::all_reduce && body.kind == Body::Kind::step_end)
          ++found["sums over " + std::string(name_of(i.group))];
      }
    return found;
  };
  auto fp32 = counts();
  CHECK(fp32["update_loss_scale"] == 0);
  CHECK(fp32["operands of the loss's gradient"] == 3);
  CHECK(fp32["sums over tensor"] == 0);
  CHECK(fp32["sums over shard"] == 0);
  plan.training.precision = Precision::fp16;
  plan.training.optimizer = OptimizerKind::lamb;
  auto scaled = counts();
  CHECK(scaled["update_loss_scale"] == 1);
  CHECK(scaled["operands of the loss's gradient"] == 4);
  CHECK(scaled["lamb_norms"] == static_cast<int>(lower_small(model, plan)[0].buckets.size()));
  CHECK(scaled["sums over tensor"] == 1);
  CHECK(scaled["sums over shard"] == 1);
}

TEST_CASE("a tied embedding on two stages is two copies with a reduction of their own",
          "[models][lower]") {
  const Model model = small_model("gpt");
  const Plan plan = small_plan(model, {.pipeline = 2});
  const auto stages = lower_small(model, plan);
  int copies = 0, reductions = 0;
  for (const Program& program : stages) {
    for (const StageParameter& member : program.parameters) copies += member.copy_of_tied;
    for (const Instruction& instruction : program.bodies.back().instructions)
      reductions += instruction.group == GroupKind::embedding;
  }
  CHECK(copies == 1);
  CHECK(reductions == 2);
}

TEST_CASE("parameters shared by inner stages are on all stages, and their gradients are summed",
          "[models][lower]") {
  const Model model = small_model("seq2seq");  // encoder, decoder and head share one table
  Plan plan = small_plan(model, {.pipeline = 4, .micro_batches = 4});
  plan.stage_of_unit = {0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 3};  // the decoder begins on stage 2
  int copies = 0, owners = 0;
  for (const Program& program : lower_small(model, plan)) {
    int reductions = 0;
    for (const StageParameter& member : program.parameters)
      if (member.parameter.name == "model.shared.weight")
        (member.copy_of_tied ? copies : owners) += 1;
    for (const Instruction& instruction : program.bodies.back().instructions) {
      CHECK(instruction.group != GroupKind::embedding);
      reductions += instruction.group == GroupKind::pipeline && instruction.bucket >= 0;
    }
    CHECK(reductions == 1);
  }
  CHECK(owners == 1);
  CHECK(copies == 3);
}

TEST_CASE("stages without blocks reduce what blocks share with the same owners",
          "[models][lower]") {
  Model model = load_model(MESHWRIGHT_SOURCE_DIR "/tests/golden/transformers/albert", "/");
  model.layers = 2;
  Plan plan = small_plan(model, {.pipeline = 4, .data = 2, .zero_stage = 1});
  plan.training.lora = Lora{4, 8, 0, {"all-linear"}};
  plan.parallelism.shard_whole = true;
  plan.stage_of_unit = {0, 1, 2, 3};  // adapters are on the two in the middle
  std::vector<std::vector<std::pair<int, std::int64_t>>> reduced;
  for (const Program& program : lower_small(model, plan)) {
    reduced.emplace_back();
    for (const Instruction& instruction : program.bodies.back().instructions)
      if (instruction.group == GroupKind::pipeline && instruction.bucket >= 0) {
        const Bucket& bucket = program.buckets[static_cast<std::size_t>(instruction.bucket)];
        reduced.back().emplace_back(bucket.owner.rdp, bucket.elements);
      }
    CHECK(reduced.back() == reduced.front());
  }
  CHECK_FALSE(reduced.front().empty());
}

TEST_CASE("the encoder's output goes from stage to stage of the decoder", "[models][lower]") {
  const Model model = small_model("seq2seq");
  Plan plan = small_plan(model, {.pipeline = 4, .micro_batches = 4});
  plan.stage_of_unit = {0, 0, 0, 0, 0, 1, 1, 2, 2, 3, 3};
  const std::vector<Program> stages = lower_small(model, plan);
  const auto messages = [&](std::size_t stage, InstructionKind kind) {
    int found = 0;
    for (const Body& body : stages[stage].bodies)
      if (body.kind == Body::Kind::forward)
        for (const Instruction& instruction : body.instructions) found += instruction.kind == kind;
    return found;
  };
  CHECK(messages(0, InstructionKind::send) == 1);  // the encoder's output
  CHECK(messages(1, InstructionKind::recv) == 1);
  CHECK(messages(1, InstructionKind::send) == 2);  // the outputs of the encoder and of the stage
  CHECK(messages(2, InstructionKind::recv) == 2);
  CHECK(messages(2, InstructionKind::send) == 2);
  CHECK(messages(3, InstructionKind::recv) == 2);
  int gradients = 0;
  for (const Body& body : stages[2].bodies)
    if (body.kind == Body::Kind::backward)
      for (const Instruction& instruction : body.instructions)
        gradients += instruction.kind == InstructionKind::send;
  CHECK(gradients == 2);  // of the stage's input, and one sum for the encoder's output
}

TEST_CASE("buffers of any size begin where the one before has ended, aligned", "[models][lower]") {
  for (std::int64_t bytes = 1; bytes <= 2 * arena_alignment + 1; ++bytes) {
    std::vector<Buffer> buffers(2);
    for (Buffer& each : buffers) each.bytes = bytes, each.last = 1;
    std::vector<Buffer*> places{&buffers[0], &buffers[1]};
    const std::int64_t size = pack(places);
    INFO(bytes);
    CHECK(buffers[1].offset >= bytes);
    CHECK(buffers[1].offset < bytes + arena_alignment);
    CHECK(buffers[1].offset % arena_alignment == 0);
    CHECK(size >= buffers[1].offset + bytes);
  }
}

TEST_CASE("buffers of one place take gaps so that the rest still fits", "[models][lower]") {
  // Four buffers are placed one after the other. Two of them, of 4 and 2 units, end, and buffers of
  // 2 and 4 units follow. If the first of these takes the lowest gap, the second has none. If each
  // takes the tightest gap, both fit.
  const auto buffer = [](std::int64_t units, int first, int last) {
    Buffer made;
    made.bytes = units * arena_alignment;
    made.first = first;
    made.last = last;
    return made;
  };
  std::vector<Buffer> buffers = {buffer(4, 0, 0), buffer(1, 0, 9), buffer(2, 0, 0),
                                 buffer(1, 0, 9), buffer(2, 1, 9), buffer(4, 2, 9)};
  std::vector<Buffer*> places;
  for (Buffer& each : buffers) places.push_back(&each);
  CHECK(pack(places) == 8 * arena_alignment);
  CHECK(buffers[4].offset == 5 * arena_alignment);
  CHECK(buffers[5].offset == 0);
}
