// Fuzzes the reader of job files. A job that leaves nothing to the planner is settled, written as
// `plan --write` does, and read again. A small one is also lowered, and its Programs must obey
// their rules.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/job/job.h"
#include "tests/fuzz/fuzz.h"
#include "tests/models/job_lookup.h"
#include "tests/models/plans.h"

using namespace meshwright::tests;

namespace {

std::optional<Job> read(const std::string& text) {
  const std::string path = fuzz::input_file("job.json", text);
  return fuzz::read_or_refused(path + ": ", [&] { return read_job(path, {}, lookup_for_tests); });
}

// Returns whether the job leaves nothing to the planner. The keys that may still be `auto` follow
// from the number of ranks and the machine.
bool is_closed(const Job& job) {
  const std::set<std::string, std::less<>> follow = {"parallelism.data", "training.precision",
                                                     "training.attention"};
  return std::includes(follow.begin(), follow.end(), job.autos.begin(), job.autos.end());
}

Plan plan_of(const Job& job) {
  const MachineFacts facts = lookup_for_tests(job.cluster.machines.front());
  const int processes = job.cluster.processes_per_host;
  return settle(job, job.cluster.counts.front() * (processes > 0 ? processes : facts.gpus), facts);
}

std::string written(const Job& job) {
  return to_json(job, plan_of(job), job.cluster.machines.front(), job.cluster.counts.front())
      .dump(1);
}

// Returns whether the job is small enough to be lowered. Lowering takes time and memory that grow
// with these numbers, and finds nothing new in large jobs.
bool is_small(const Model& model, const Plan& plan) {
  return model.layers <= 8 && plan.degrees().ranks() <= 16 && plan.micro_batches() <= 16;
}

// Lowers a small job and verifies its programs. A job that cannot be lowered must be rejected with
// a message.
void check_programs(const Job& job) {
  const Plan plan = plan_of(job);
  if (!is_small(job.model, plan)) return;
  const auto programs = fuzz::read_or_refused("", [&] { return lower_small(job.model, plan); });
  if (programs) verify(*programs);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto job = read(std::string(fuzz::text_of(data, size)));
  if (!job || !is_closed(*job)) return 0;
  const std::string text = written(*job);
  const auto again = read(text);
  MESHWRIGHT_CHECK(again.has_value(), "a settled job is good");
  MESHWRIGHT_CHECK(written(*again) == text, "a job written is read as the same");
  check_programs(*job);
  return 0;
}
