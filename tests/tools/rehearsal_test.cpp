// Tests on which cluster a recorded step is priced, and what the answer says besides its times.
#include "tools/session/rehearsal.h"
#include "hwprofiles/load.h"
#include "models/core/json.h"
#include "sim/planner/clusters.h"
#include "sim/predict/kernel_parts.h"
#include "tests/catch.h"
#include "tests/message_of.h"
#include "tests/test_folder.h"
#include "tools/report/recorded_step.h"
#include "tools/report/recorded_summary.h"

using namespace meshwright::tests;

namespace {

const Recording& recorded() {
  static const Recording recording =
      read_recording(read_json_file(MESHWRIGHT_SOURCE_DIR "/tests/tools/recording.json"));
  return recording;
}

Rehearsed on(const RehearsalRequest& request) {
  return rehearsed(recorded(), request, load_known_machine);
}

std::string refusal(const RehearsalRequest& request) {
  return message_of([&] { on(request); });
}

}  // namespace

TEST_CASE("a recorded step is priced on its own machine or on another one with its ranks",
          "[tools][rehearsal]") {
  const Rehearsed own = on({});
  CHECK(own.cluster.machine.name == "p5.48xlarge");
  CHECK(own.cluster.hosts == 1);
  CHECK(own.cluster.processes_per_host == 8);
  CHECK(on({.machine = "g5.xlarge"}).cluster.hosts == 8);
  CHECK(on({.machine = "g5.12xlarge"}).cluster.hosts == 2);
  CHECK(on({.machine = "g5.12xlarge", .count = 4}).cluster.processes_per_host == 2);
  CHECK(on({.machine = "p4d.24xlarge"}).prediction.step_time_s > own.prediction.step_time_s);
  CHECK(on({.host_factor = 50}).prediction.step_time_s > own.prediction.step_time_s);
  CHECK(refusal({.machine = "p5.48xlarge", .count = 3}) ==
        "the 8 ranks of the recording cannot be on 3 x p5.48xlarge in equal numbers, up to 8 on a "
        "host; use another count or machine, or rehearse the script with other ranks");
  CHECK(refusal({.machine = "g5.xlarge", .count = 4}).starts_with("the 8 ranks of the recording"));
  CHECK(refusal({.machine = "p77"})
            .starts_with("the recording: /cluster/machine: unknown machine 'p77'"));
}

TEST_CASE("the answer counts FLOPs, launches, collectives, memory and dollars",
          "[tools][rehearsal]") {
  const Rehearsed own = on({});
  CHECK(own.launches == 4);
  const double flops = 137438953472.0 + 274877906944.0;  // causal attention counts whole
  CHECK(own.prediction.model_flops_per_s_per_gpu == Approx(flops / own.prediction.step_time_s));
  CHECK(own.prediction.mfu == Approx(own.prediction.model_flops_per_s_per_gpu /
                                     own.cluster.device().peak(Precision::bf16).value));
  REQUIRE(own.collectives.size() == 2);
  CHECK(own.collectives[0].kind == RecordedCollective::all_gather);
  CHECK(own.collectives[0].bytes == 50'000'000);
  CHECK(own.collectives[1].kind == RecordedCollective::send);
  CHECK(own.prediction.fits);
  CHECK_FALSE(on({.machine = "g4dn.xlarge"}).prediction.fits);  // 16 GiB
  REQUIRE(own.usd_per_step);
  CHECK(*own.usd_per_step ==
        Approx(*own.prediction.usd_per_hour / 3600 * own.prediction.step_time_s));
  const ReplayedStep& step = own.step;
  CHECK(step.computing + step.exposed_communication + step.exposed_copies + step.idle ==
        step.step_time);
}

TEST_CASE("a recorded step says tokens, dollars and what recomputation takes",
          "[tools][rehearsal]") {
  const Rehearsed own = on({});
  const Prediction& p = own.prediction;
  CHECK(p.tokens_per_s == Approx(8 * 8192 / p.step_time_s));
  CHECK(p.sequences_per_s == Approx(8 * 2 / p.step_time_s));
  CHECK(own.job.plan.training.sequence_length == 4096);
  CHECK(*p.usd_per_million_tokens == Approx(*own.usd_per_step / (8 * 8192) * 1e6));
  CHECK(p.peak_memory_bytes > own.memory.peak_reserved_bytes);
  CHECK(own.hfu == p.mfu);

  Recording changed = recorded();
  changed.events[1].recomputed = true;  // the product
  changed.kernels[1].kernel.backward = true;
  changed.batch->tokens = 0;
  const Rehearsed images = rehearsed(changed, {}, load_known_machine);
  CHECK(images.prediction.model_flops_per_s_per_gpu * images.prediction.step_time_s ==
        Approx(0.8 * 274877906944.0));  // without the scores that attention computes again
  CHECK(images.hfu > images.prediction.mfu);
  CHECK_FALSE(images.prediction.usd_per_million_tokens);
  changed.batch.reset();
  CHECK_FALSE(rehearsed(changed, {}, load_known_machine).has_batch);
  CHECK(message_of([&] {
          rehearsed(changed, {.set = {"objective.tokens=1000"}, .file = "s.json"},
                    load_known_machine);
        }).starts_with("s.json: objective.tokens: the recording does not say how many tokens"));
}

TEST_CASE("what is around a recorded step is set with the keys of a job, and nothing else",
          "[tools][rehearsal]") {
  const double own_s = on({}).prediction.step_time_s;
  const Rehearsed elsewhere = on({.set = {"cluster.machine=p4d.24xlarge", "cluster.count=2"}});
  CHECK(elsewhere.cluster.machine.name == "p4d.24xlarge");
  CHECK(elsewhere.cluster.processes_per_host == 4);
  CHECK(
      on({.set = {"cluster.count=2", "cluster.network.nics=1", "cluster.network.gbps_per_nic=10"}})
          .prediction.step_time_s > own_s);
  const Rehearsed failing =
      on({.set = {"failures.recovery=in_job", "training.steps=1000000", "cluster.count=4"}});
  REQUIRE(failing.prediction.goodput);
  CHECK(failing.prediction.goodput->share < 1);
  REQUIRE(failing.run);
  CHECK(failing.run->model.steps == 1'000'000);
  CHECK_FALSE(on({}).run);

  CHECK(
      refusal({.set = {"training.global_batch=8"}, .file = "s.json"})
          .starts_with("s.json: --set training.global_batch=8: a recorded step is what the script "
                       "did; only cluster,"));
  CHECK(refusal({.set = {"parallelism.tensor=2"}}).find("rehearse the script again") !=
        std::string::npos);
  CHECK(refusal({.set = {"cluster.machine=auto"}}).find("one machine and one count") !=
        std::string::npos);
  CHECK(refusal({.set = {"training.steps=0"}, .file = "s.json"}) ==
        "s.json: /training/steps: 0 is too small; use 1 or more");
}

TEST_CASE("the trace of a recorded step is read as a profile of it", "[tools][rehearsal]") {
  const Rehearsed own = on({.keeps_spans = true});
  const TestFolder folder;
  const std::string file = folder.file("trace.json", recorded_trace(recorded(), own));
  const auto profile = read_profiler_trace(file);
  REQUIRE(profile);
  CHECK(profile->rank == 1);
  CHECK(profile->world_size == 8);
  CHECK(profile->kernels.size() == 8);
  CHECK(to_seconds(profiled_kernel_parts(*profile, file).parts.step_time).value ==
        Approx(own.prediction.step_time_s).epsilon(1e-4));
}

TEST_CASE("a summary counts kernels, memory and collectives", "[tools][rehearsal]") {
  const json summary = recorded_summary(recorded());
  CHECK(summary["kernels"][0]["work"] == "matrix products");
  CHECK(summary["kernels"][0]["flops"] == 137438953472.0);
  CHECK(summary["memory"]["kept_for_backward_bytes"] == 9'000'000'000);
  CHECK(summary["memory"]["peak_bytes"]["optimizer"] == 12'000'000'000);
  REQUIRE(summary["collectives"].size() == 2);
  CHECK(summary["collectives"][1] ==
        json{{"kind", "send"}, {"ranks", 2}, {"bytes", 1'000'000}, {"times", 1}});
  CHECK(summary["host_waits"] == 1);
}
