#include "models/compiler/plan/plan.h"

#include <functional>
#include <nlohmann/json.hpp>

#include "models/core/error.h"
#include "models/job/job.h"
#include "tests/catch.h"
#include "tests/message_of.h"

using namespace meshwright::tests;

namespace {

ModelSizes gpt2() {
  ModelSizes sizes;
  sizes.hidden = 768;
  sizes.layers = 12;
  sizes.heads = 12;
  sizes.kv_heads = 12;
  sizes.ffn = 3072;
  sizes.positions = 1024;
  sizes.vocabulary = 50257;
  sizes.learned_positions = true;
  return sizes;
}

Plan legal() {
  Plan plan;
  plan.training.global_batch = 64;
  plan.training.micro_batch = 2;
  plan.training.sequence_length = 1024;
  plan.parallelism.pipeline = 2;
  plan.parallelism.tensor = 2;
  plan.parallelism.data = 4;
  return plan;
}

// Returns the message with which verify rejects a legal plan after one change, or "" if it accepts
// the plan.
std::string refused(const std::function<void(Training&, Parallelism&)>& change) {
  Plan plan = legal();
  change(plan.training, plan.parallelism);
  return message_of([&] { verify(plan, gpt2()); });
}

}  // namespace

#define CHANGE(...) [](Training& t, Parallelism& p) { (void)t, (void)p, __VA_ARGS__; }

TEST_CASE("a legal plan passes", "[models][plan]") {
  CHECK(refused(CHANGE(t.steps = 2)) == "");
  CHECK(refused(CHANGE(p.tensor = 12)) == "");
  CHECK(refused(CHANGE(p.tensor = 1, p.sequence_parallel = true)) == "");  // has no effect
  CHECK(refused(CHANGE(p.schedule = ScheduleKind::interleaved, p.virtual_stages = 3)) == "");
  CHECK(refused(CHANGE(p.zero_stage = 3, p.shard = 2)) == "");
  CHECK(refused(CHANGE(t.recompute = Recompute::each)) == "");
  CHECK(refused(CHANGE(t.dropout = 0.1)) == "");
  CHECK(refused(CHANGE(p.offload = Offload::activations)) == "");
  CHECK(refused(CHANGE(p.offload = Offload::layers, p.offload_horizon = 3)) == "");
  CHECK(refused(CHANGE(t.recompute = Recompute::contiguous)) == "");
  CHECK(refused(CHANGE(t.recompute = Recompute::group, t.recompute_group = 3)) == "");
  CHECK(refused(CHANGE(t.recompute_modules = {"transformer.h.*.mlp"})) == "");
  CHECK(refused(CHANGE(t.recompute_budget = 0.5)) == "");
  CHECK(refused(CHANGE(t.recompute_budget = 4e9)) == "");
}

TEST_CASE("rules about tensor parallelism", "[models][plan]") {
  CHECK(refused(CHANGE(p.tensor = 5)) ==
        "/parallelism/tensor: 5 does not divide 12 heads; use 1, 2, 3, 4, 6 or 12");
  // There are 2 * 1023 = 2046 rows, which 4 does not divide.
  CHECK(refused(CHANGE(p.tensor = 4, p.sequence_parallel = true, t.sequence_length = 1023)) ==
        "/parallelism/sequence_parallel: tensor 4 does not divide micro_batch 2 x sequence_length "
        "1023 = 2046 rows; choose a sequence length that is a multiple of 4");
  CHECK(refused(CHANGE(p.tensor = 0)) == "/parallelism/tensor: 0 is too small; use 1 or more");
}

TEST_CASE("rules about batches and sharding", "[models][plan]") {
  // data 4 x micro_batch 3 is 12, and 64 is between its multiples 60 and 72.
  CHECK(refused(CHANGE(t.micro_batch = 3)) ==
        "/training/global_batch: 64 is not a multiple of data 4 x micro_batch 3 = 12; use 60 or "
        "72");
  CHECK(refused(CHANGE(t.micro_batch = 32)) ==
        "/training/global_batch: 64 is not a multiple of data 4 x micro_batch 32 = 128; use 128");
  CHECK(refused(CHANGE(p.zero_stage = 1, p.shard = 3)) ==
        "/parallelism/shard: 3 does not divide data 4 x context 1 = 4; use 1, 2 or 4");
  CHECK(refused(CHANGE(p.shard = 2)) ==
        "/parallelism/shard: 2 shards nothing with zero_stage 0; use zero_stage 1, 2 or 3, or "
        "shard 1");
  CHECK(refused(CHANGE(p.zero_stage = 4)) ==
        "/parallelism/zero_stage: 4 is out of range; use 0 to 3");
  CHECK(refused(CHANGE(p.zero_stage = 1, p.shard_whole = true)) == "");
  CHECK(refused(CHANGE(p.zero_stage = 3, p.shard_whole = true)) ==
        "/parallelism/shard_layout: 'whole' shares out the optimizer's states, which zero_stage 1 "
        "shards; found 3; use zero_stage 1, or 'flat'");
  CHECK(refused(CHANGE(p.zero_stage = 1, p.shard = 2, p.shard_whole = true)) ==
        "/parallelism/shard: 2 of 4 replicas do not go with shard_layout 'whole', which shares "
        "parameters out over all of them; leave it out, or use 'flat'");
}

TEST_CASE("rules about the pipeline", "[models][plan]") {
  CHECK(refused(CHANGE(p.virtual_stages = 3)) ==
        "/parallelism/virtual_stages: 3 needs schedule 'interleaved' or 'interleaved_zero_bubble', "
        "found '1f1b'; use virtual_stages 1 or that schedule");
  CHECK(refused(CHANGE(p.schedule = ScheduleKind::zero_bubble_v, p.virtual_stages = 2)) == "");
  CHECK(refused(CHANGE(p.schedule = ScheduleKind::dualpipe_v, p.virtual_stages = 2)) == "");
  CHECK(refused(CHANGE(p.schedule = ScheduleKind::dualpipe_v)) ==
        "/parallelism/virtual_stages: schedule 'dualpipe_v' needs 2 for each stage, found 1; use "
        "virtual_stages 2");
  CHECK(refused(CHANGE(p.schedule = ScheduleKind::zero_bubble_v)) ==
        "/parallelism/virtual_stages: schedule 'zero_bubble_v' needs 2 for each stage, found 1; "
        "use virtual_stages 2");
  CHECK(refused(CHANGE(p.schedule = ScheduleKind::zero_bubble_v, p.virtual_stages = 3)) ==
        "/parallelism/virtual_stages: 3 needs schedule 'interleaved' or 'interleaved_zero_bubble', "
        "found 'zero_bubble_v'; use virtual_stages 2 or that schedule");
  CHECK(refused(
            CHANGE(p.virtual_stages = 2, p.pipeline = 1, p.schedule = ScheduleKind::interleaved)) ==
        "/parallelism/virtual_stages: 2 needs a pipeline of 2 or more stages; use virtual_stages "
        "1");
  CHECK(refused(CHANGE(p.pipeline = 16)) ==
        "/parallelism/pipeline: 16 x virtual_stages 1 = 16 chunks, but the model has 12 layers, an "
        "embedding and a head; use at most 14 chunks");
  CHECK(refused(CHANGE(p.pipeline = 14)) == "");
  // There are 24 / (4 * 2) = 3 micro-batches. The next multiple of 2 is 4, which is 32 sequences.
  CHECK(refused(CHANGE(t.global_batch = 24, p.schedule = ScheduleKind::interleaved)) ==
        "/parallelism/schedule: 'interleaved' needs micro-batches in multiples of pipeline 2, "
        "found 3 (global_batch 24 / (data 4 x micro_batch 2)); use global_batch 32");
  CHECK(refused(CHANGE(p.schedule = ScheduleKind::gpipe, p.active_microbatches = 2)) ==
        "/parallelism/active_microbatches: 2 cannot bind 'gpipe', which forwards all 8 "
        "micro-batches first; use schedule '1f1b' or 8 or more");
}

TEST_CASE("rules about when gradients are reduced", "[models][plan]") {
  constexpr ScheduleKind zero_bubble = ScheduleKind::zero_bubble;
  constexpr ReduceGradients each = ReduceGradients::each, last = ReduceGradients::last;
  CHECK(refused(CHANGE(p.schedule = zero_bubble, p.zero_stage = 2)) == "");
  CHECK(refused(CHANGE(p.schedule = zero_bubble, p.zero_stage = 3, p.reduce_gradients = last)) ==
        "/parallelism/zero_stage: 3 gathers weights and reduces gradients unit by unit in the "
        "backward pass, half of which schedule 'zero_bubble' puts off; use zero_stage 0 to 2, or "
        "schedule '1f1b'");
  CHECK(refused(CHANGE(p.schedule = zero_bubble, p.zero_stage = 2, p.reduce_gradients = each)) ==
        "/parallelism/reduce_gradients: zero_stage 2 with 8 micro-batches reduces gradients unit "
        "by unit in the backward pass, which schedule 'zero_bubble' puts off; use 'last', or "
        "schedule '1f1b'");
  CHECK(refused(CHANGE(p.schedule = zero_bubble, p.zero_stage = 2, t.global_batch = 8)) ==
        "/parallelism/reduce_gradients: zero_stage 2 with 1 micro-batches reduces gradients unit "
        "by unit in the backward pass, which schedule 'zero_bubble' puts off; use zero_stage 0 or "
        "1, or schedule '1f1b'");
  CHECK(refused(CHANGE(p.zero_stage = 1, p.shard_whole = true, p.reduce_gradients = each)) ==
        "/parallelism/reduce_gradients: 'each' does not go with shard_layout 'whole', whose owners "
        "get the sums of a whole step; use 'last', or layout 'flat'");
}

TEST_CASE("rules about what a tensor group shares", "[models][plan]") {
  // micro_batch 2 is not a multiple of 4 tensor ranks. The next multiple is 4.
  CHECK(refused(CHANGE(p.tensor = 4, p.tensor_batch_own = true)) ==
        "/parallelism/tensor_batch: 'own' gives each of 4 tensor ranks its share of micro_batch 2, "
        "which does not divide; use micro_batch 4 or 'shared'");
  CHECK(refused(CHANGE(p.tensor = 4, p.tensor_layout = TensorLayout::memory,
                       p.sequence_parallel = true)) ==
        "/parallelism/sequence_parallel: true does not go with tensor_layout 'memory', whose ranks "
        "hold columns of every row; use false, or layout 'megatron' or 'speed'");
  CHECK(refused(
            CHANGE(p.tensor = 2, p.tensor_layout = TensorLayout::memory, p.tensor_batch_own = true))
            .empty());
}

TEST_CASE("rules about offloading", "[models][plan]") {
  CHECK(refused(CHANGE(p.offload = Offload::layers, t.recompute = Recompute::selective)) ==
        "/parallelism/offload: 'layers' moves the inputs of whole blocks; use 'activations', or "
        "recompute full, contiguous or group_N");
  CHECK(refused(CHANGE(p.offload = Offload::activations, p.offload_horizon = -1)) ==
        "/parallelism/offload_horizon: -1 is too small; use 0 or more");
  CHECK(refused(CHANGE(p.offload = Offload::optimizer, t.recompute_budget = 0.5)).empty());
}

TEST_CASE("rules about training", "[models][plan]") {
  CHECK(refused(CHANGE(t.sequence_length = 2048)) ==
        "/training/sequence_length: 2048 exceeds the model's 1024 learned positions; use 1024 or "
        "less");
  CHECK(refused(CHANGE(p.context = 2, t.sequence_length = 510)) ==
        "/parallelism/context: sequence_length 510 does not divide into 2 x context 2 = 4 chunks; "
        "use a multiple of 4, or context 1, 3, 5, 15, 17, 51, 85 or 255");
  CHECK(refused(CHANGE(p.context = 2, t.attention = AttentionKernel::unfused)) ==
        "/training/attention: 'unfused' keeps whole score matrices, which parallelism.context "
        "cuts; use 'flash' or 'flash2', or context 1");
  CHECK(refused(CHANGE(t.recompute_fraction = 1.5)) ==
        "/training/recompute_fraction: 1.5 is out of range; use 0 to 1");
  CHECK(refused(CHANGE(t.recompute_modules = {"transformer.h.0"}, t.recompute = Recompute::full)) ==
        "/training/recompute_modules: given beside recompute 'full'; keep one of them");
  CHECK(refused(CHANGE(t.recompute_budget = 0)) ==
        "/training/recompute_budget: 0 is too small; use a share up to 1 of the activations kept "
        "without recomputation, or bytes");
  CHECK(refused(CHANGE(t.recompute_budget = 0.5, t.recompute = Recompute::selective)) ==
        "/training/recompute_budget: given beside recompute 'selective'; keep one of them");
  CHECK(refused(CHANGE(t.recompute_budget = 0.5, t.recompute_modules = {"transformer.h.0"})) ==
        "/training/recompute_budget: given beside recompute_modules; keep one of them");
  CHECK(refused(CHANGE(t.recompute_budget = 0.5, t.recompute_fraction = 0.5)) ==
        "/training/recompute_budget: given beside recompute_fraction 0.5; keep one of them");
  CHECK(refused(CHANGE(t.recompute_budget = 0.5, p.offload = Offload::activations)) ==
        "/parallelism/offload: 'activations' moves what training.recompute_budget counts as kept; "
        "keep one of them");
  CHECK(refused(CHANGE(t.recompute_budget = 0.5, p.schedule = ScheduleKind::zero_bubble)) ==
        "/training/recompute_budget: a budget under schedule 'zero_bubble' is not supported yet");
  CHECK(refused(CHANGE(t.dropout = 1)) ==
        "/training/dropout: 1 is out of range; use 0 or more and less than 1");
  CHECK(refused(CHANGE(t.loss_scale = LossScale{})) ==
        "/training/loss_scale: only fp16 is scaled, the precision is fp32; leave it out");
}

TEST_CASE("rules about experts", "[models][plan]") {
  CHECK(refused(CHANGE(p.expert = 2)) ==
        "/parallelism/expert: 2 needs a model with experts; use 1, or family 'mixtral'");
  const auto with_experts = [](const std::function<void(Training&, Parallelism&)>& change) {
    Plan plan = legal();
    plan.parallelism.tensor = 1;
    plan.parallelism.data = 24;
    plan.training.global_batch = 96;
    change(plan.training, plan.parallelism);
    ModelSizes sizes = gpt2();
    sizes.experts = 6;
    try {
      verify(plan, sizes);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(with_experts(CHANGE(p.expert = 1)) == "");
  CHECK(with_experts(CHANGE(p.expert = 6)) == "");
  CHECK(with_experts(CHANGE(p.expert = 5)) ==
        "/parallelism/expert: 5 does not divide data 24 x context 1 = 24; use 1, 2, 3, 4, 6, 8, 12 "
        "or 24");
  CHECK(with_experts(CHANGE(p.expert = 4)) ==
        "/parallelism/expert: 4 does not divide 6 experts; use 1, 2, 3 or 6");
  CHECK(with_experts(CHANGE(p.tensor = 2)) == "");
  CHECK(with_experts(CHANGE(p.tensor = 2, p.tensor_layout = TensorLayout::speed)) ==
        "/parallelism/tensor_layout: experts are cut by layout 'megatron' alone; use it");
  CHECK(with_experts(CHANGE(p.context = 2))
            .starts_with("/parallelism/context: 2 ranks would share each sequence"));
  // With data 24 and expert 6, 24 / 6 = 4 ranks have the same experts.
  CHECK(with_experts(CHANGE(p.expert = 6, p.zero_stage = 3)) == "");
  CHECK(with_experts(CHANGE(p.expert = 6, p.zero_stage = 1, p.shard = 2)) == "");
  CHECK(with_experts(CHANGE(p.expert = 6, p.zero_stage = 1, p.shard = 12)) == "");
  CHECK(with_experts(CHANGE(p.expert = 6, p.zero_stage = 1, p.shard = 3)) ==
        "/parallelism/shard: 3 does not divide the 4 ranks that have the same experts (data 24 / "
        "expert 6); use 1, 2 or 4");
  const std::function<void(Training&, Parallelism&)> unsupported[] = {
      CHANGE(t.optimizer = OptimizerKind::lamb),
      CHANGE(p.expert = 2, p.zero_stage = 1, p.shard_whole = true)};
  for (const auto& change : unsupported)
    CHECK(with_experts(change).ends_with("is not supported yet"));
}

TEST_CASE("what is not built yet is refused as such", "[models][plan]") {
  CHECK(refused(CHANGE(p.offload = Offload::activations, p.schedule = ScheduleKind::zero_bubble))
            .ends_with("is not supported yet"));
  CHECK(refused(CHANGE(p.offload = Offload::optimizer, t.optimizer = OptimizerKind::muon))
            .ends_with("is not supported yet"));
  CHECK(refused(CHANGE(p.offload = Offload::optimizer, p.shard_whole = true, p.zero_stage = 1,
                       p.data = 2))
            .ends_with("is not supported yet"));
  CHECK(refused(CHANGE(t.moments = Dtype::block8, t.optimizer = OptimizerKind::lion)) ==
        "/training/moments_precision: '8bit' with optimizer 'lion' (adamw and adam have it) is not "
        "supported yet");
  CHECK(refused(CHANGE(t.moments = Dtype::block8, t.compiler = CompilerLevel::none)) == "");
  CHECK(refused(CHANGE(t.moments = Dtype::block8, t.moments_at_random = true)) ==
        "/training/moments_rounding: 'stochastic': moments in 8 bits are rounded to nearest; use "
        "moments_precision 'bf16', or 'nearest'");
  CHECK(refused(CHANGE(t.ema_decay = 1)) ==
        "/training/ema_decay: 1 is out of range; use 0 or more and less than 1");
}

TEST_CASE("frozen weights in 4 bits have the settings of their kind", "[models][plan]") {
  const auto with = [](const auto& change) {
    return refused([&](Training& t, Parallelism& p) {
      Lora& lora = t.lora.emplace();
      lora.target_modules = {std::string(all_linear)};
      p.tensor = 1;
      change(lora, p);
    });
  };
#define SET(...) [](Lora& l, Parallelism& p) { (void)l, (void)p, __VA_ARGS__; }
  CHECK(with(SET(l.base_weights = BaseWeights::nf4)).empty());
  CHECK(with(SET(l.base_weights = BaseWeights::nf4, l.double_quantization = true)).empty());
  CHECK(with(SET(l.base_weights = BaseWeights::int4, l.group_size = 64)).empty());
  CHECK(with(SET(l.base_weights = BaseWeights::int4, l.double_quantization = true)) ==
        "/training/lora/double_quantization: is for base_weights 'nf4'; use that, or leave it out");
  CHECK(with(SET(l.group_size = 64)) ==
        "/training/lora/group_size: is for base_weights 'int4'; use that, or leave it out");
  CHECK(with(SET(l.base_weights = BaseWeights::int4, l.group_size = 100)) ==
        "/training/lora/group_size: 100 is no size of a group; use 32, 64, 128 or 256");
  CHECK(with(SET(l.base_weights = BaseWeights::nf4, p.tensor = 2)) ==
        "/parallelism/tensor: 2 would cut weights in 4 bits (training.lora.base_weights); use 1");
#undef SET
}

TEST_CASE("rows are packed where that says what is meant", "[models][plan]") {
  CHECK(refused(CHANGE(t.documents_per_row = 2)) ==
        "/training/documents_per_row: goes with packing true, which tells documents of a row "
        "apart; leave it out, or use that");
  CHECK(refused(CHANGE(t.packing = true, t.documents_per_row = 0.5))
            .starts_with("/training/documents_per_row: 0.5 is not in 1 to sequence_length"));
  CHECK(refused(CHANGE(t.packing = true, t.documents_per_row = 8)).empty());
}

TEST_CASE("a plan as JSON is in the words of the job file", "[models][plan]") {
  Plan plan = legal();
  plan.training.recompute = Recompute::group;
  plan.training.recompute_group = 4;
  plan.parallelism.partitioner = Partitioner::manual;
  plan.parallelism.manual_stage = {{"transformer.h.0", 0}, {"transformer.h.6", 1}};
  const nlohmann::json value = to_json(plan);
  CHECK(value["format"] == 1);
  CHECK(value["training"]["recompute"] == "group_4");
  CHECK(value["parallelism"]["schedule"] == "1f1b");
  CHECK(value["parallelism"]["overlap"] == nlohmann::json({"gradients", "parameters"}));
  CHECK(value["stage_of"]["transformer.h.6"] == 1);
}
