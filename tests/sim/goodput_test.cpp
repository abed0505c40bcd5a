// Tests goodput: the share of time that is useful despite failures and checkpoints.
#include "sim/predict/goodput.h"

#include <cmath>
#include <random>
#include <vector>

#include "tests/catch.h"
#include "tests/sim/failures.h"
#include "tests/sim/plans.h"

using namespace meshwright::tests;

namespace {

// Plays runs of `failures` failures each and returns the share of useful time of each run. A run
// works, stalls for a checkpoint that is written while it works on, fails, loses unsaved work, and
// restarts.
std::vector<double> played(const FailureModel& model, double interval, int runs, int failures) {
  std::mt19937_64 random(7);
  std::exponential_distribution<double> time_to_failure(1 / model.mean_time_between_failures_s);
  std::vector<double> shares;
  for (int run = 0; run < runs; ++run) {
    double clock = 0, useful = 0;
    double fails_at = time_to_failure(random);
    for (int failed = 0; failed < failures; ++failed) {
      double free = clock;     // when the work of the next interval can begin
      double written = clock;  // when the save before is safe
      for (;;) {
        const double copied = std::max(free + interval, written) + model.stall_s;
        written = copied + model.write_s;
        free = copied;
        if (written > fails_at) break;
        useful += interval;
      }
      clock = fails_at;
      fails_at = clock + time_to_failure(random);
      while (clock + model.restart_s > fails_at) {  // a restart that fails is begun again
        clock = fails_at;
        fails_at = clock + time_to_failure(random);
      }
      clock += model.restart_s;
    }
    shares.push_back(useful / clock);
  }
  return shares;
}

const FailureModel models[] = {{1000, 50, 5, 0},
                               {1000, 50, 5, 60},
                               {1000, 400, 1, 300},
                               {1e5, 300, 2, 90},
                               {500, 10, 40, 0.1}};

}  // namespace

TEST_CASE("goodput is that of failures played one by one", "[goodput]") {
  for (const FailureModel& model : models)
    for (const double interval : {20.0, 100.0, 700.0}) {
      INFO("M " << model.mean_time_between_failures_s << " write " << model.write_s << " interval "
                << interval);
      const std::vector<double> shares = played(model, interval, 40, 2000);
      double mean = 0, variance = 0;
      for (const double share : shares) mean += share / static_cast<double>(shares.size());
      for (const double share : shares)
        variance += (share - mean) * (share - mean) / static_cast<double>(shares.size() - 1);
      const double deviation = std::sqrt(variance / static_cast<double>(shares.size()));
      CHECK(std::abs(goodput(model, interval) - mean) < 4 * deviation);
      CHECK(deviation < 0.005);
    }
}

TEST_CASE("without writing beside the work goodput is Daly's, and nearly Young's interval is best",
          "[goodput]") {
  const FailureModel model{36000, 300, 20, 0};
  const double t = 1000, m = 36000;
  CHECK(goodput(model, t) ==
        Approx(t / (m * std::exp(300 / m) * (std::exp((t + 20) / m) - 1))).epsilon(1e-12));
  CHECK(best_interval_s(model) == Approx(std::sqrt(2 * 20 * 36000.0)).epsilon(0.02));
}

TEST_CASE("the best interval beats every other", "[goodput]") {
  std::vector<FailureModel> all(std::begin(models), std::end(models));
  all.push_back({100, 10, 1, 300});    // writing takes longer than a cluster lasts
  all.push_back({1e13, 10, 1e-3, 2});  // and here it hardly ever fails
  for (const FailureModel& model : all) {
    const double best = best_interval_s(model);
    INFO("M " << model.mean_time_between_failures_s << " best " << best);
    for (double factor = 0.1; factor < 10; factor *= 1.1)
      CHECK(goodput(model, best) >= goodput(model, best * factor) * (1 - 1e-9));
  }
}

TEST_CASE("a run of adapters saves these alone, so its checkpoints cost less", "[goodput]") {
  Plan plan;
  plan.training.micro_batch = 2;
  plan.training.sequence_length = 128;
  plan.parallelism.data = 8;
  plan.training.global_batch = 16;
  Cluster cluster{load_machine("p4d.24xlarge"), 1, 8, {}, {}};
  cluster.failures = sudden_failures(1e5, 300);
  const Goodput whole =
      goodput_of(compiled_for(small_model(), plan, cluster), cluster, 10, 1).value();
  plan.training.lora = Lora{4, 8, 0, {"c_attn"}};
  const Compiled compiled = compiled_for(small_model(), plan, cluster);
  const Goodput adapters = goodput_of(compiled, cluster, 10, 1).value();
  // Adapters have an A of 4 x 256 and a B of 768 x 4 in each of six layers, with 12 bytes per
  // element, written at 1 GB/s.
  CHECK(adapters.checkpoint_write_s == Approx(12 * 6 * 4 * (256 + 768) / 1e9));
  CHECK(adapters.checkpoint_write_s < whole.checkpoint_write_s / 50);
  CHECK(adapters.share > whole.share);
}

TEST_CASE("goodput of a plan: more hosts fail more often, none without failures", "[goodput]") {
  Plan plan;
  plan.training.micro_batch = 2;
  plan.training.sequence_length = 128;
  double before = 1;
  for (const int hosts : {1, 2, 4}) {
    Cluster cluster{load_machine("p4d.24xlarge"), hosts, 8, {}, {}};
    plan.parallelism.data = 8 * hosts;
    plan.training.global_batch = 2 * 8 * hosts;
    const Compiled compiled = compiled_for(small_model(), plan, cluster);
    CHECK_FALSE(goodput_of(compiled, cluster, 10, 1).has_value());
    cluster.failures = sudden_failures(1e5, 300);
    const Goodput at_ten = goodput_of(compiled, cluster, 10, 1).value();
    const Goodput at_best = goodput_of(compiled, cluster, 0, 1).value();
    CHECK(at_ten.mean_time_between_failures_s == Approx(1e5 / hosts));
    // A parameter has an fp32 value and two moments, 12 bytes. The hosts share them, and each
    // writes 1 GB/s.
    CHECK(at_ten.checkpoint_write_s ==
          Approx(12 * static_cast<double>(parameter_count(compiled.graph)) / hosts / 1e9));
    CHECK(at_best.share == at_best.best_share);
    CHECK(at_best.share >= at_ten.share);
    CHECK(at_ten.share < before);
    before = at_ten.share;
    for (const int other : {-1, 1})
      CHECK(goodput_of(compiled, cluster, std::max(1, at_best.every_steps + other), 1)->share <=
            at_best.share);
  }
}
