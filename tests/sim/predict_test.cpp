#include "sim/predict/predict.h"

#include <cmath>

#include "models/program/graph/op_table.h"
#include "sim/cost/cost.h"
#include "tests/catch.h"
#include "tests/sim/plans.h"

using namespace meshwright::tests;

namespace {

Plan plan_of(int pipeline, int tensor, int data) {
  Plan plan;
  plan.training.micro_batch = 2;
  plan.training.global_batch = 16 * data;
  plan.training.sequence_length = 128;
  plan.training.precision = Precision::fp16;
  plan.parallelism.pipeline = pipeline;
  plan.parallelism.tensor = tensor;
  plan.parallelism.data = data;
  return plan;
}

}  // namespace

TEST_CASE("the fields of a prediction agree with each other", "[predict]") {
  const Cluster cluster{load_machine("p4d.24xlarge"), 1, 8, {}, {}};
  const Compiled compiled = compiled_for(small_model(), plan_of(2, 2, 2), cluster);
  CHECK(compiled.plan.stage_of_unit.size() == compiled.graph.units.size());
  Timeline timeline;
  const Prediction p = predict(compiled, cluster, {.timeline = &timeline});
  CHECK(p.sequences_per_s == Approx(32 / p.step_time_s));
  CHECK(p.tokens_per_s == Approx(32 * 128 / p.step_time_s));
  CHECK(p.mfu == Approx(p.model_flops_per_s_per_gpu / 312e12));
  CHECK(p.mfu > 0);
  CHECK(p.mfu < 0.83);
  CHECK(p.bubble_fraction > 0);
  CHECK(p.bubble_fraction < 1);
  CHECK(p.exposed_communication_s > 0);
  CHECK(p.exposed_communication_s < p.step_time_s);
  REQUIRE(p.usd_per_hour);
  CHECK(*p.usd_per_million_tokens == Approx(*p.usd_per_hour / 3600 * 1e6 / p.tokens_per_s));
  CHECK(p.instructions == std::ssize(timeline.entries));
}

TEST_CASE("model FLOPs do not depend on the degrees", "[predict]") {
  // The blocks have 6 * 12 h^2 weights, and the head h * 1024 (the vocabulary is padded to a
  // multiple of 128 * tensor). Each weight takes 6 FLOPs per token, attention 12 h s per token and
  // layer.
  const double h = 256, s = 128, layers = 6, tokens = 32 * 128;
  const double expected = tokens * (6 * (layers * 12 * h * h + h * 1024) + layers * 12 * h * s);
  const Cluster cluster{load_machine("p4d.24xlarge"), 1, 8, {}, {}};
  for (const auto& [p, t] : {std::pair{1, 4}, {2, 2}, {4, 1}}) {
    const Plan plan = plan_of(p, t, 8 / (p * t));
    const Prediction got = predict(compiled_for(small_model(), plan, cluster), cluster);
    const double data = plan.parallelism.data / 2.0;
    CHECK(got.model_flops_per_s_per_gpu * 8 * got.step_time_s ==
          Approx(expected * data).epsilon(0.01));
  }
}

TEST_CASE("model FLOPs do not depend on what the compiler fuses", "[predict]") {
  const Cluster cluster{load_machine("p4d.24xlarge"), 1, 8, {}, {}};
  for (const char* name : {"gpt2", "llama-2-7b", "bert-base", "qwen3-0.6b", "gemma-2b",
                           "gemma-2-2b", "opt-1.3b", "minitron-4b-base"}) {
    const Model model = load_model(name, ".");
    double expected = 0;
    for (const CompilerLevel level :
         {CompilerLevel::none, CompilerLevel::fused, CompilerLevel::full}) {
      Plan plan = plan_of(1, 1, 8);
      plan.training.sequence_length = 128;
      plan.training.compiler = level;
      if (model.head == Head::mlm) plan.training.predicted_positions = 20;
      const double flops = model_flops(compiled_for(model, plan, cluster).graph);
      if (expected == 0) expected = flops;
      CAPTURE(name, static_cast<int>(level));
      CHECK(flops > 0);
      CHECK(flops == Approx(expected));
    }
  }
}

TEST_CASE("decoders after Llama do the same work cut and whole", "[predict]") {
  const Cluster cluster{load_machine("p4d.24xlarge"), 1, 8, {}, {}};
  for (const char* name :
       {"qwen2.5-0.5b", "qwen3-0.6b", "phi-3-mini-4k-instruct", "gemma-7b", "gemma-2-2b",
        "olmo-2-1124-7b", "starcoder2-7b", "stablelm-2-1_6b", "minitron-4b-base", "opt-1.3b",
        "falcon-40b", "c4ai-command-r-v01", "internlm2-7b", "mistral-7b-v0.1", "llama-3.2-1b"}) {
    CAPTURE(name);
    const Model model = load_model(name, ".");
    const auto work = [&](int pipeline, int tensor) {
      Plan plan = plan_of(pipeline, tensor, 8 / (pipeline * tensor));
      plan.training.sequence_length = 256;
      const Prediction got = predict(compiled_for(model, plan, cluster), cluster);
      CHECK(got.step_time_s > 0);
      return got.model_flops_per_s_per_gpu * 8 * got.step_time_s / plan.parallelism.data;
    };
    const double whole = work(1, 1);
    CHECK(work(2, 2) == Approx(whole).epsilon(0.01));
    CHECK(work(4, 2) == Approx(whole).epsilon(0.01));
  }
}

TEST_CASE("memory is the arena and what libraries take", "[predict]") {
  const Cluster cluster{load_machine("p3.16xlarge"), 1, 8, {}, {}};
  const Compiled compiled = compiled_for(small_model(), plan_of(4, 1, 2), cluster);
  const Prediction p = predict(compiled, cluster);
  REQUIRE(p.memory.size() == 4);
  std::int64_t peak = 0;
  for (const StageMemory& stage : p.memory) {
    std::int64_t sum = 0;
    for (const std::int64_t bytes : stage.class_bytes) sum += bytes;
    CHECK(sum == compiled.stages[static_cast<std::size_t>(stage.stage)].memory.arena_bytes);
    CHECK(stage.library_bytes == 450'000'000 + 300'000'000 + 64'000'000);  // of the profile
    CHECK(stage.peak_bytes == sum + stage.library_bytes);
    peak = std::max(peak, stage.peak_bytes);
  }
  CHECK(p.peak_memory_bytes == peak);
  CHECK(p.memory_limit_bytes == 15.75 * 1024 * 1024 * 1024);  // that CUDA reports of 16
  CHECK(p.fits);
}

TEST_CASE("the engine's operations have scratch memory on a GPU", "[predict]") {
  Cluster cluster{load_machine("p4d.24xlarge"), 1, 1, {}, {}};
  Plan plan = plan_of(1, 1, 1);
  plan.training.compiler = CompilerLevel::none;
  plan.training.passes_off = {"eager_loss"};  // whose copies frameworks make too
  const auto memory = [&] {
    const Compiled compiled = compiled_for(small_model(), plan, cluster);
    return stage_memory(compiled.stages, cluster)[0];
  };
  CHECK(memory().scratch_bytes == 0);  // what frameworks take is in the profile
  cluster.machine.calibration = Calibration::this_machine;
  const StageMemory own = memory();
  // The gradients of a norm's weight and bias need scratch memory for 2 * 128 rows of 256 columns,
  // summed in chunks of 8 rows.
  CHECK(own.scratch_bytes == 2 * (2 * 128 / 8) * 256 * 4);
  CHECK(own.peak_bytes == own.arena_bytes + own.scratch_bytes + own.library_bytes);
}

TEST_CASE("mixed precision holds gradients in 16 and in 32 bits, but where products sum",
          "[predict]") {
  const Cluster cluster{load_machine("p4d.24xlarge"), 1, 8, {}, {}};
  const auto per_parameter = [&](Dtype reduce, bool fuse, int zero) {
    Plan plan = plan_of(1, 1, 8);
    plan.training.gradient_reduce = reduce;
    plan.training.fuse_gradient_accumulation = fuse;
    plan.parallelism.zero_stage = zero;
    const Compiled compiled = compiled_for(small_model(), plan, cluster);
    std::int64_t elements = 0;
    for (const Bucket& bucket : compiled.stages[0].buckets) elements += bucket.elements;
    return static_cast<double>(stage_memory(compiled.stages, cluster)[0]
                                   .class_bytes[static_cast<std::size_t>(MemoryClass::gradients)]) /
           static_cast<double>(elements);
  };
  CHECK(per_parameter(Dtype::f32, true, 0) == Approx(4).epsilon(1e-3));
  CHECK(per_parameter(Dtype::f32, false, 0) == Approx(2 + 4).epsilon(1e-3));
  CHECK(per_parameter(Dtype::f16, true, 0) == Approx(2 + 4).epsilon(1e-3));
  CHECK(per_parameter(Dtype::f16, true, 1) == Approx(2 + 4.0 / 8).epsilon(1e-3));
  CHECK(per_parameter(Dtype::f32, false, 2) == Approx(4.0 / 8).epsilon(1e-3));
  CHECK(per_parameter(Dtype::f16, true, 2) == Approx(4.0 / 8).epsilon(1e-3));
}

TEST_CASE("a GPU that was measured with the engine is free of the frameworks' second gradients",
          "[predict]") {
  Cluster cluster{load_machine("p4d.24xlarge"), 1, 8, {}, {}};
  Plan plan = plan_of(1, 1, 8);
  plan.training.gradient_reduce = Dtype::f32;
  plan.training.fuse_gradient_accumulation = false;
  const auto gradients = [&] {
    const Compiled compiled = compiled_for(small_model(), plan, cluster);
    return stage_memory(compiled.stages, cluster)[0]
        .class_bytes[static_cast<std::size_t>(MemoryClass::gradients)];
  };
  const std::int64_t of_frameworks = gradients();
  cluster.machine.calibration = Calibration::this_machine;
  // Gradients take 4 bytes per parameter instead of 2 + 4.
  CHECK(static_cast<double>(gradients()) ==
        Approx(static_cast<double>(of_frameworks) * 4 / 6).epsilon(1e-3));
}

TEST_CASE("what the optimizer keeps of each parameter is what the job says", "[predict]") {
  const Cluster cluster{load_machine("p4d.24xlarge"), 1, 8, {}, {}};
  const auto per_parameter = [&](MasterWeights masters, Dtype moments, MemoryClass cls,
                                 double ema_decay = 0) {
    Plan plan = plan_of(1, 1, 8);
    plan.training.precision = Precision::bf16;
    plan.training.gradient_reduce = Dtype::bf16;
    plan.training.master_weights = masters;
    plan.training.moments = moments;
    plan.training.ema_decay = ema_decay;
    const Compiled compiled = compiled_for(small_model(), plan, cluster);
    std::int64_t elements = 0;
    for (const Bucket& bucket : compiled.stages[0].buckets) elements += bucket.elements;
    return static_cast<double>(stage_memory(compiled.stages, cluster)[0]
                                   .class_bytes[static_cast<std::size_t>(cls)]) /
           static_cast<double>(elements);
  };
  using enum MasterWeights;
  constexpr MemoryClass states = MemoryClass::optimizer, gradients = MemoryClass::gradients;
  CHECK(per_parameter(fp32, Dtype::f32, states) == Approx(4 + 8).epsilon(1e-3));
  CHECK(per_parameter(remainders, Dtype::f32, states) == Approx(2 + 8).epsilon(1e-3));
  CHECK(per_parameter(none, Dtype::f32, states) == Approx(8).epsilon(1e-3));
  CHECK(per_parameter(none, Dtype::bf16, states) == Approx(4).epsilon(1e-3));
  // A block of 256 elements has a scale of 4 bytes.
  CHECK(per_parameter(none, Dtype::block8, states) == Approx(2 * (1 + 4.0 / 256)).epsilon(1e-3));
  CHECK(per_parameter(fp32, Dtype::f32, states, 0.999) == Approx(4 + 8 + 4).epsilon(1e-3));
  // Only optimizers with fp32 masters need a copy of the gradients in fp32.
  CHECK(per_parameter(fp32, Dtype::f32, gradients) == Approx(2 + 4).epsilon(1e-3));
  CHECK(per_parameter(remainders, Dtype::f32, gradients) == Approx(2).epsilon(1e-3));
  CHECK(per_parameter(none, Dtype::bf16, gradients) == Approx(2).epsilon(1e-3));
}

TEST_CASE("FSDP shards the masters alone; the engine also what it gathers", "[predict]") {
  Cluster cluster{load_machine("p4d.24xlarge"), 1, 8, {}, {}};
  Plan plan = plan_of(1, 1, 8);
  plan.parallelism.zero_stage = 3;
  const Compiled compiled = compiled_for(small_model(), plan, cluster);
  std::int64_t of_shards = 0;
  for (const Bucket& bucket : compiled.stages[0].buckets) of_shards += bucket.shard_elements;
  const auto weights = [&] {
    return stage_memory(compiled.stages, cluster)[0]
        .class_bytes[static_cast<std::size_t>(MemoryClass::parameters)];
  };
  const std::int64_t of_frameworks = weights();
  cluster.machine.calibration = Calibration::this_machine;
  CHECK(weights() - of_frameworks == 2 * of_shards);
}

TEST_CASE("frameworks keep weights of 8 bits alone; the engine beside those of 16", "[predict]") {
  Cluster cluster{load_machine("p5.48xlarge"), 1, 8, {}, {}};
  Plan plan = plan_of(1, 1, 8);
  plan.training.precision = Precision::fp8;
  const Compiled compiled = compiled_for(small_model(), plan, cluster);
  const auto weights = [&] {
    return stage_memory(compiled.stages, cluster)[0]
        .class_bytes[static_cast<std::size_t>(MemoryClass::parameters)];
  };
  const std::int64_t of_frameworks = weights();
  cluster.machine.calibration = Calibration::this_machine;
  // The difference is 2 bytes for each weight of a block: those of queries, keys and values, of the
  // output layer, and of both layers of the MLP.
  CHECK(weights() - of_frameworks == std::int64_t{6} * 2 * (4 + 2 * 4) * 256 * 256);
}

TEST_CASE("layers in bf16 take the time and the memory that they take in bf16", "[predict]") {
  const Cluster cluster{load_machine("p5.48xlarge"), 1, 8, {}, {}};
  Model model = small_model();
  model.hidden = 2048;
  model.head_dim = 512;
  model.ffn = 8192;
  const auto predicted = [&](Precision precision, int first, int last) {
    Plan plan = plan_of(1, 1, 8);
    plan.training.micro_batch = 32;  // of 128 tokens: products long enough to gain by 8 bits
    plan.training.global_batch = 32 * 8;
    plan.training.precision = precision;
    plan.training.first_layers_in_bf16 = first;
    plan.training.last_layers_in_bf16 = last;
    return predict(compiled_for(model, plan, cluster), cluster);
  };
  const Prediction wide = predicted(Precision::bf16, 0, 0);
  for (const Precision precision : {Precision::fp8, Precision::nvfp4}) {
    const Prediction all = predicted(precision, 2, 4), none = predicted(precision, 0, 0);
    CHECK(all.step_time == wide.step_time);
    CHECK(all.peak_memory_bytes == wide.peak_memory_bytes);
    CHECK(none.step_time != wide.step_time);
  }
  // All blocks are equal, so each one in bf16 adds the same time. Blocks at the ends may save a
  // little, because their rounding is part of another kernel.
  const auto seconds = [&](int first, int last) {
    return predicted(Precision::fp8, first, last).step_time_s;
  };
  const double of_block = (wide.step_time_s - seconds(0, 0)) / 6;
  CHECK(of_block > 0);
  for (int blocks = 1; blocks < 6; ++blocks) {
    CHECK(seconds(blocks, 0) == Approx(seconds(0, 0) + blocks * of_block).epsilon(1e-3));
    CHECK(seconds(0, blocks) == Approx(seconds(0, 0) + blocks * of_block).epsilon(1e-3));
  }
}

// Transformer Engine keeps weights in 16 bits in addition to both directions of the weights in 4
// bits.
TEST_CASE("frameworks keep weights of 4 bits beside those of 16", "[predict]") {
  Cluster cluster{load_machine("p6-b200.48xlarge"), 1, 8, {}, {}};
  Plan plan = plan_of(1, 1, 8);
  plan.training.precision = Precision::nvfp4;
  const Compiled compiled = compiled_for(small_model(), plan, cluster);
  const auto weights = [&] {
    return stage_memory(compiled.stages, cluster)[0]
        .class_bytes[static_cast<std::size_t>(MemoryClass::parameters)];
  };
  const std::int64_t of_frameworks = weights();
  cluster.machine.calibration = Calibration::this_machine;
  CHECK(weights() == of_frameworks);
}

TEST_CASE("a loss in pieces takes PyTorch's copies of the logits in fp32", "[predict]") {
  const Cluster cluster{load_machine("p4d.24xlarge"), 1, 8, {}, {}};
  const auto scratch = [&](int tensor, std::vector<std::string> passes_off) {
    Plan plan = plan_of(1, tensor, 8 / tensor);
    plan.training.compiler = CompilerLevel::full;
    plan.training.passes_off = std::move(passes_off);
    return stage_memory(compiled_for(small_model(), plan, cluster).stages, cluster)[0]
        .scratch_bytes;
  };
  const std::int64_t of_logits = std::int64_t{2} * 128 * 1024 * 4;  // the vocabulary is padded
  CHECK(scratch(1, {}) == 0);
  CHECK(scratch(1, {"eager_loss", "fuse_loss"}) == 0);
  CHECK(scratch(2, {"eager_loss", "fuse_loss"}) == 0);
  // In addition to log-softmax and its gradient, which the arena has, frameworks hold one copy of
  // the logits. If a tensor group shares the logits, they hold all four.
  CHECK(scratch(1, {"fuse_loss"}) == of_logits);
  CHECK(scratch(2, {"fuse_loss"}) == 4 * of_logits / 2);
}

TEST_CASE("a model that is too large does not fit and is predicted all the same", "[predict]") {
  const Cluster cluster{load_machine("p3.16xlarge"), 1, 8, {}, {}};
  Plan plan = plan_of(1, 1, 8);
  const Prediction p = predict(compiled_for(load_model("gpt2-xl", "."), plan, cluster), cluster);
  CHECK_FALSE(p.fits);  // 1.5e9 parameters * 18 bytes > 16 GiB
  CHECK(p.step_time_s > 0);
  plan.parallelism.zero_stage = 3;
  CHECK(predict(compiled_for(load_model("gpt2-xl", "."), plan, cluster), cluster).fits);
}

TEST_CASE("a faster host, a larger batch and fewer recomputations show", "[predict]") {
  Cluster cluster{load_machine("p4d.24xlarge"), 1, 8, {}, {}};
  const auto step = [&](const Plan& plan) {
    return predict(compiled_for(small_model(), plan, cluster), cluster).step_time_s;
  };
  const Plan plan = plan_of(1, 2, 4);
  const double base = step(plan);
  Plan recomputed = plan;
  recomputed.training.recompute = Recompute::full;
  CHECK(step(recomputed) > base);
  cluster.host_launch_us = 0;
  CHECK(step(plan) < base);
}

TEST_CASE("compute lasts as long as that of the slowest of the ranks that meet", "[predict]") {
  Cluster cluster{load_machine("dgx-a100-80gb"), 2, 8, {}, 0.0};
  KernelConstants& kernels = cluster.machine.gpu.kernels;
  kernels.exposed_launch = kernels.overlap_slowdown = 0;
  const auto compute = [&](const Plan& plan, double of_steps, double of_layers) {
    kernels.straggling = of_steps;
    kernels.layer_straggling = of_layers;
    const Prediction p = predict(compiled_for(small_model(), plan, cluster), cluster);
    return to_seconds(p.stages[0].compute_busy).value;
  };
  const auto slowest_of = [](int ranks) { return std::sqrt(2 * std::log(ranks)); };
  Plan sharded = plan_of(1, 1, 16), both = plan_of(1, 2, 8), of_states = sharded;
  sharded.parallelism.zero_stage = both.parallelism.zero_stage = 3;
  of_states.parallelism.zero_stage = 1;
  Plan copied = sharded;
  copied.parallelism.shard = 4;
  struct Case {
    Plan plan;
    int in_layers;
  };
  for (const auto& [plan, in_layers] :
       {Case{plan_of(1, 1, 16), 1}, Case{plan_of(1, 4, 4), 4}, Case{plan_of(2, 4, 2), 4},
        Case{sharded, 16}, Case{both, 16}, Case{of_states, 1}, Case{copied, 4}}) {
    const double alone = compute(plan, 0, 0);
    CHECK(compute(plan, 0.01, 0) / alone == Approx(1 + 0.01 * slowest_of(16)).epsilon(1e-6));
    CHECK(compute(plan, 0, 0.01) / alone == Approx(1 + 0.01 * slowest_of(in_layers)).epsilon(1e-6));
  }
}

TEST_CASE("the host runs ahead: a step takes its kernels or their launches, whichever is longer",
          "[predict]") {
  Cluster cluster{load_machine("dgx-a100-80gb"), 1, 1, {}, 0.0};
  cluster.machine.gpu.kernels.exposed_launch = 0;
  const auto step = [&](double launch_us) {
    cluster.host_launch_us = launch_us;
    const Model model = load_model("gpt2", ".");
    Plan plan;
    plan.training.global_batch = plan.training.micro_batch = 2;
    plan.training.sequence_length = 256;
    plan.training.precision = Precision::fp16;
    return predict(compiled_for(model, plan, cluster), cluster);
  };
  const Prediction device = step(0), hidden = step(0.01);
  CHECK(device.stages[0].launch == 0);
  CHECK(hidden.step_time_s < 1.001 * device.step_time_s);
  // If launches dominate, each further millisecond per launch makes the step longer by the same
  // amount.
  const Prediction slow = step(1000), slower = step(2000), slowest = step(3000);
  CHECK(slowest.step_time_s - slower.step_time_s == Approx(slower.step_time_s - slow.step_time_s));
  CHECK(to_seconds(slow.stages[0].launch).value > 0.9 * slow.step_time_s);
}

TEST_CASE("a prediction says within which times such steps were measured", "[predict]") {
  Cluster cluster{load_machine("dgx-a100-80gb"), 1, 1, {}, {}};
  cluster.machine.residuals = Residuals{Residuals::Interval{0.8, 1.5, 40}, std::nullopt};
  const Model model = load_model("gpt2", ".");
  Plan plan;
  plan.training.global_batch = plan.training.micro_batch = 1;
  plan.training.sequence_length = 256;
  const Prediction one = predict(compiled_for(model, plan, cluster), cluster);
  CHECK(one.interval->low_s == Approx(0.8 * one.step_time_s));
  CHECK(one.interval->high_s == Approx(1.5 * one.step_time_s));
  CHECK(one.interval->rows == 40);
  CHECK(one.calibration == Calibration::evidence);
  cluster.hosts = 2;  // no step on several hosts was published
  plan.parallelism.data = 2;
  plan.training.global_batch = 2;
  CHECK_FALSE(predict(compiled_for(model, plan, cluster), cluster).interval);
}
