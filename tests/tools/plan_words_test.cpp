// Tests that in the description of a plan each key with an unusual value adds its own words, and
// changes no others.
#include <functional>

#include "tests/catch.h"
#include "tools/report/prediction.h"

using namespace meshwright::tests;

namespace {

Plan usual() {
  Plan plan;
  plan.training.global_batch = 64;
  plan.training.micro_batch = 2;
  plan.training.compiler = CompilerLevel::fused;
  plan.parallelism.pipeline = 4;
  plan.parallelism.tensor = 2;
  plan.parallelism.data = 8;
  return plan;
}

struct Case {
  std::string short_words, words;  // behind those of usual(), before how much is recomputed
  std::function<void(Plan&)> change;
};

const std::string begin = "ranks 64 = data 8 x tensor 2 x pipeline 4   1f1b   4 micro-batches of 2";

}  // namespace

TEST_CASE("a plan's degrees stand in their places", "[tools][report]") {
  CHECK(short_plan_text(usual()) == "p4 t2 d8 mb2");
  CHECK(plan_text(usual()) == begin + "   recompute none");
}

TEST_CASE("each part of a plan that is not as usual has its words", "[tools][report]") {
  const std::vector<Case> cases = {
      {" zero1", "   zero 1 over 8", [](Plan& plan) { plan.parallelism.zero_stage = 1; }},
      {" zero2/4", "   zero 2 over 4",
       [](Plan& plan) { plan.parallelism.zero_stage = 2, plan.parallelism.shard = 4; }},
      {" zero3", "   zero 3 over 8", [](Plan& plan) { plan.parallelism.zero_stage = 3; }},
      {" zero3 reshard never", "   zero 3 over 8   reshard never",
       [](Plan& plan) { plan.parallelism.zero_stage = 3, plan.parallelism.keeps_gathered = true; }},
      {" zero2", "   zero 2 over 8",  // of ZeRO 3 alone
       [](Plan& plan) { plan.parallelism.zero_stage = 2, plan.parallelism.keeps_gathered = true; }},
      {"", "", [](Plan& plan) { plan.parallelism.shard = 4; }},  // nothing is sharded
      {" reduce each", "   reduce each",
       [](Plan& plan) { plan.parallelism.reduce_gradients = ReduceGradients::each; }},
      {" reduce last", "   reduce last",
       [](Plan& plan) { plan.parallelism.reduce_gradients = ReduceGradients::last; }},
      {" sp", "   sequence parallel",
       [](Plan& plan) { plan.parallelism.sequence_parallel = true; }},
      {" beside1", "   tensor beside compute, products whole",
       [](Plan& plan) { plan.parallelism.overlap_tensor = true; }},
      {" beside4", "   tensor beside compute, products in 4",
       [](Plan& plan) {
         plan.parallelism.overlap_tensor = true, plan.parallelism.tensor_chunks = 4;
       }},
      {" speed", "   layout speed",
       [](Plan& plan) { plan.parallelism.tensor_layout = TensorLayout::speed; }},
      {" memory", "   layout memory",
       [](Plan& plan) { plan.parallelism.tensor_layout = TensorLayout::memory; }},
      {" own", "   own batches", [](Plan& plan) { plan.parallelism.tensor_batch_own = true; }},
      {" DPT", "   placement DPT", [](Plan& plan) { plan.parallelism.placement = "DPT"; }},
      {" compiler full", "", [](Plan& plan) { plan.training.compiler = CompilerLevel::full; }},
      {" compiler none", "", [](Plan& plan) { plan.training.compiler = CompilerLevel::none; }},
  };
  for (const Case& each : cases) {
    Plan plan = usual();
    each.change(plan);
    CHECK(short_plan_text(plan) == "p4 t2 d8 mb2" + each.short_words);
    CHECK(plan_text(plan) == begin + each.words + "   recompute none");
  }
}

TEST_CASE("a plan's text leaves out tensor options if tensor is 1", "[tools][report]") {
  Plan plan = usual();
  plan.parallelism.tensor = 1;
  plan.parallelism.overlap_tensor = plan.parallelism.tensor_batch_own = true;
  plan.parallelism.tensor_layout = TensorLayout::speed;
  CHECK(short_plan_text(plan) == "p4 t1 d8 mb2");
  CHECK(plan_text(plan) ==
        "ranks 32 = data 8 x tensor 1 x pipeline 4   1f1b   4 micro-batches of 2   recompute none");
}

TEST_CASE("a schedule is said where it is not the usual one of the stages", "[tools][report]") {
  const auto of = [](int stages, int virtual_stages, ScheduleKind schedule) {
    Plan plan = usual();
    plan.parallelism.pipeline = stages;
    plan.parallelism.virtual_stages = virtual_stages;
    plan.parallelism.schedule = schedule;
    return std::pair(short_plan_text(plan), plan_text(plan));
  };
  const std::string tail = "   4 micro-batches of 2   recompute none";
  const std::string four = "ranks 64 = data 8 x tensor 2 x pipeline 4   ";
  const std::string one = "ranks 16 = data 8 x tensor 2 x pipeline 1   ";
  CHECK(of(4, 2, ScheduleKind::interleaved) ==
        std::pair<std::string, std::string>("p4 t2 d8 mb2 v2",
                                            four + "interleaved with 2 virtual stages" + tail));
  CHECK(of(4, 1, ScheduleKind::gpipe) ==
        std::pair<std::string, std::string>("p4 t2 d8 mb2 gpipe", four + "gpipe" + tail));
  CHECK(of(4, 2, ScheduleKind::zero_bubble_v) ==
        std::pair<std::string, std::string>("p4 t2 d8 mb2 v2 zero_bubble_v",
                                            four + "zero_bubble_v with 2 virtual stages" + tail));
  CHECK(of(1, 1, ScheduleKind::gpipe).first == "p1 t2 d8 mb2");  // one stage has no order
  CHECK(of(1, 1, ScheduleKind::gpipe).second == one + "gpipe" + tail);
}

TEST_CASE("sequences and experts that ranks share are said with how", "[tools][report]") {
  const auto of = [](const std::function<void(Plan&)>& change) {
    Plan plan = usual();
    plan.parallelism.pipeline = 1;
    change(plan);
    return std::pair(short_plan_text(plan), plan_text(plan));
  };
  const auto with = [](ContextExchange exchange, int heads) {
    return [=](Plan& plan) {
      plan.parallelism.context = 4;
      plan.parallelism.context_exchange = exchange;
      plan.parallelism.context_heads = heads;
    };
  };
  const std::string context =
      "ranks 64 = data 8 x context 4 x tensor 2 x pipeline 1   1f1b   4 micro-batches of 2";
  const auto pair = [](const std::string& a, const std::string& b) { return std::pair(a, b); };
  CHECK(of(with(ContextExchange::p2p, 0)) ==
        pair("p1 t2 d8 mb2 c4", context + "   recompute none"));
  CHECK(of(with(ContextExchange::all_gather, 0)) ==
        pair("p1 t2 d8 mb2 c4 all_gather", context + "   all_gather   recompute none"));
  CHECK(of(with(ContextExchange::a2a_p2p, 2)) ==
        pair("p1 t2 d8 mb2 c4 a2a+p2p/2", context + "   a2a+p2p/2   recompute none"));
  const std::string experts =
      "ranks 16 = data 8 x tensor 2 x pipeline 1   1f1b   4 micro-batches of 2   experts over 8";
  CHECK(of([](Plan& plan) { plan.parallelism.expert = 8; }) ==
        pair("p1 t2 d8 mb2 e8", experts + "   recompute none"));
  CHECK(
      of([](Plan& plan) { plan.parallelism.expert = 8, plan.parallelism.overlap_expert = true; }) ==
      pair("p1 t2 d8 mb2 e8 experts-beside", experts + ", beside compute   recompute none"));
  CHECK(of([](Plan& plan) { plan.parallelism.overlap_expert = true; }).first == "p1 t2 d8 mb2");
}

TEST_CASE("what is recomputed is said as the job says it", "[tools][report]") {
  const std::vector<std::pair<std::string, std::function<void(Training&)>>> cases = {
      {"selective", [](Training& t) { t.recompute = Recompute::selective; }},
      {"full", [](Training& t) { t.recompute = Recompute::full; }},
      {"full of 25.0 %",
       [](Training& t) { t.recompute = Recompute::full, t.recompute_fraction = 0.25; }},
      {"group_3", [](Training& t) { t.recompute = Recompute::group, t.recompute_group = 3; }},
      {"mlp norm*",
       [](Training& t) {
         t.recompute_modules = {"mlp", "norm*"};
       }},
      {"budget 50.0 %", [](Training& t) { t.recompute_budget = 0.5; }},
      {"budget 100.0 %", [](Training& t) { t.recompute_budget = 1; }},
      {"budget 2.0 KiB", [](Training& t) { t.recompute_budget = 2048; }}};
  for (const auto& [words, change] : cases) {
    Plan plan = usual();
    change(plan.training);
    CHECK(short_plan_text(plan) == "p4 t2 d8 mb2 " + words);
    CHECK(plan_text(plan) == begin + "   recompute " + words);
  }
  Plan plan = usual();
  plan.training.recompute_fraction = 0.25;  // of nothing
  CHECK(plan_text(plan) == begin + "   recompute none");
}

TEST_CASE("what waits in host memory is said with how far ahead it comes back", "[tools][report]") {
  const auto of = [](Offload offload, int horizon) {
    Plan plan = usual();
    plan.parallelism.offload = offload;
    plan.parallelism.offload_horizon = horizon;
    return plan;
  };
  const std::string before = begin + "   recompute none   offload ";
  CHECK(plan_text(of(Offload::activations, 0)) == before + "activations, horizon 4");
  CHECK(plan_text(of(Offload::layers, 0)) == before + "layers, horizon 2");
  CHECK(plan_text(of(Offload::layers, 7)) == before + "layers, horizon 7");
  CHECK(plan_text(of(Offload::optimizer, 0)) == before + "optimizer");
  CHECK(short_plan_text(of(Offload::optimizer, 0)) == "p4 t2 d8 mb2 offload optimizer");
}
