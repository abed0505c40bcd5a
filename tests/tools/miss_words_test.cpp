// Tests the text that appears if no plan fits, and what the advice for a rung says about how its
// plan partitions the model.
#include <functional>

#include "tests/catch.h"
#include "tools/report/advice.h"
#include "tools/session/choose.h"

using namespace meshwright::tests;

namespace {

constexpr double gibi = 1024.0 * 1024 * 1024;

SearchResult search() {
  SearchResult result;
  result.rejected = {{"too slow", 12}, {"too large", 3}};
  ClosestMiss miss;
  miss.plan.parallelism.pipeline = 4;
  miss.plan.parallelism.tensor = 2;
  miss.machine = "p4d.24xlarge";
  miss.count = 3;
  miss.peak_memory_bytes = 51.25 * gibi;
  miss.memory_limit_bytes = 40 * gibi;
  result.closest_miss = miss;
  return result;
}

// Holds advice with a ladder of two rungs, one GPU and eight GPUs, which stops at the second.
struct Scene {
  Job job;
  Advice advice;

  explicit Scene(const std::function<void(Plan&)>& change) {
    job.name = "scene";
    Ladder ladder;
    ladder.machine = "m";
    ladder.reason = "why";
    ladder.rungs.resize(2);
    for (Rung& rung : ladder.rungs) rung.machine = "m", rung.gpus_per_host = 8;
    ladder.rungs[0].reason = "nothing fits";
    ClosestMiss miss;
    miss.peak_memory_bytes = 30 * gibi;
    miss.memory_limit_bytes = 20 * gibi;
    ladder.rungs[0].closest_miss = miss;
    Rung& chosen = ladder.rungs[1];
    chosen.processes_per_host = 8;
    chosen.best.emplace();
    chosen.best->plan.parallelism.data = 8;
    chosen.best->plan.training.compiler = CompilerLevel::fused;
    chosen.best->plan.training.global_batch = 64;
    chosen.best->plan.training.micro_batch = 2;
    chosen.best->plan.training.learning_rate = 0.001;
    chosen.best->prediction.step_time_s = 0.25;
    chosen.best->prediction.tokens_per_s = 1000;
    chosen.best->prediction.peak_memory_bytes = static_cast<std::int64_t>(5 * gibi);
    chosen.best->prediction.memory_limit_bytes = 20 * gibi;
    change(chosen.best->plan);
    ladder.stop = 1;
    advice.ladders = {ladder};
    advice.best = advice.ladders.data();
    advice.command = "command";
  }
  // Returns the line before the one about the global batch, which says how the model is
  // partitioned.
  std::string cut() const {
    const std::string text = advice_text(job, advice, true);
    const std::size_t end = text.find("\nThe global batch ");
    const std::size_t at = text.rfind('\n', end - 1) + 1;
    return text.substr(at, end - at);
  }
};

}  // namespace

TEST_CASE("where nothing fits the plan that came nearest is said, and why others lost", "[tools]") {
  const std::string rejected = "\n        12  too slow\n         3  too large";
  const std::string closest =
      "no plan fits: the closest needs 11.2 GiB too much for 40.0 GiB on 3 x p4d.24xlarge ";
  const std::string text = miss_text(search());
  CAPTURE(text);
  CHECK(text.starts_with(closest + "(p4 t2 d1 mb1"));
  CHECK(text.ends_with(")" + rejected));
  const std::string with_margin = miss_text(search(), 0.03);
  CAPTURE(with_margin);
  CHECK(with_margin.ends_with("), 3.0 % of each GPU's memory left free (--memory-margin)" +
                              rejected));
  SearchResult none = search();
  none.closest_miss.reset();
  CHECK(miss_text(none).ends_with(rejected));
  CHECK(miss_text(none).find("closest") == std::string::npos);
}

TEST_CASE("advice says how the plan cuts the model, and what one GPU would need",
          "[tools][report]") {
  const std::string alone = "; one GPU would need 30.0 GiB of its 20.0 GiB.";
  CHECK(Scene([](Plan&) {}).cut() ==
        "Data parallel alone: the model and its optimizer states fit one GPU" + alone);
  CHECK(Scene([](Plan& plan) { plan.parallelism.zero_stage = 3; }).cut() ==
        "Data parallel alone, with states sharded (ZeRO 3): every GPU computes whole layers" +
            alone);
  for (int Parallelism::*degree : {&Parallelism::pipeline, &Parallelism::tensor,
                                   &Parallelism::context, &Parallelism::expert}) {
    const auto of = [&](int Parallelism::*which) {
      return std::to_string(which == degree ? 2 : 1);
    };
    const Scene scene([&](Plan& plan) {
      plan.parallelism.*degree = 2;
      plan.parallelism.data = 4;
    });
    CHECK(scene.cut() == "Model parallel: pipeline " + of(&Parallelism::pipeline) + ", tensor " +
                             of(&Parallelism::tensor) + ", context " + of(&Parallelism::context) +
                             ", expert " + of(&Parallelism::expert) + ", on 4 data replicas" +
                             alone);
  }
  Scene fits([](Plan&) {});
  fits.advice.ladders[0].rungs[0].best = fits.advice.ladders[0].rungs[1].best;
  CHECK(fits.cut() == "Data parallel alone: the model and its optimizer states fit one GPU.");
  Scene one([](Plan&) {});
  one.advice.ladders[0].stop = 0;
  one.advice.ladders[0].rungs[0].best = one.advice.ladders[0].rungs[1].best;
  CHECK(one.cut() == "One GPU holds the whole model: nothing is cut.");
}

TEST_CASE("advice says the batch, a larger one only where it is, and what is missing",
          "[tools][report]") {
  Scene scene([](Plan&) {});
  const auto text = [&] { return advice_text(scene.job, scene.advice, true); };
  const auto has = [&](const std::string& words) {
    CAPTURE(text());
    return text().find(words) != std::string::npos;
  };
  CHECK(has("\nRent 1 x m: p1 t1 d8 mb2, 64 sequences per step, learning rate 0.001.\n"));
  CHECK(
      has("\nThe global batch stays 64 sequences at each rung, so its learning rate does too "
          "(0.001).\n"));
  CHECK_FALSE(has("Up to "));
  Rung& rung = scene.advice.ladders[0].rungs[1];
  rung.largest.micro_batch = 2;  // the plan's own
  CHECK_FALSE(has("Up to "));
  rung.largest.micro_batch = 8;  // four times, so the rate is four and two times
  CHECK(
      has("\nUp to 256 sequences fit; the learning rate would then be 0.004 (in proportion) or "
          "0.002 (to the square root), after a warm-up.\n"));
  CHECK(
      has("\ntraining.steps or objective.tokens would show days and dollars of the whole run.\n"));
  scene.job.has_steps = true;
  CHECK(has("\nNothing fails in this job: \"failures\": {} shows what failures cost.\n"));
  CHECK(has("\n1 x m (1 of 8 GPUs): nothing fits\n"));
  rung.opened = {"a.b", "c.d"};
  CHECK(has("\n1 x m: fits only with a.b and c.d left to the planner\n"));
  WholeJob whole;
  whole.tokens = 1e9;
  whole.time_s = 3 * 86400;
  rung.whole = whole;
  CHECK(has(", learning rate 0.001, 3.0 days.\n"));
  rung.whole->bill = Bill{1234, 0, 0};
  CHECK(has(", learning rate 0.001, 3.0 days, $1234.\n"));
}
