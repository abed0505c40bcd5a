// Fuzzes the reader of partition files, which `parallelism.partition` and SageMaker's
// `partition_file` name: the stages of a small model with two stages.
#include <nlohmann/json.hpp>

#include "models/compiler/partition/partition.h"
#include "models/job/job.h"
#include "tests/fuzz/fuzz.h"
#include "tests/models/job_lookup.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

const json job_json = {
    {"model",
     {{"family", "gpt"},
      {"hidden", 8},
      {"layers", 3},
      {"heads", 2},
      {"vocab", 16},
      {"positions", 4}}},
    {"training", {{"global_batch", 2}, {"micro_batch", 1}, {"sequence_length", 4}}},
    {"cluster", {{"machine", "local"}, {"processes_per_host", 2}}},
    {"parallelism", {{"pipeline", 2}, {"partition", "stages.json"}}}};

struct Cut {
  Graph graph;
  std::vector<int> stages;
};

std::optional<Cut> read(const std::string& text) {
  const std::string path = fuzz::input_file("stages.json", text);
  const std::string folder = path.substr(0, path.rfind('/'));
  return fuzz::read_or_refused("job.json: /parallelism/partition", [&] {
    const Job job = read_job(job_json, "job.json", folder, lookup_for_tests);
    const Plan plan = settle(job, 2, lookup_for_tests("local"));
    Cut cut{build_graph(job.model, plan.training), {}};
    const std::vector<double> alike(cut.graph.units.size(), 1);
    cut.stages = partition(cut.graph, plan, alike, alike);
    return cut;
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto cut = read(std::string(fuzz::text_of(data, size)));
  if (!cut) return 0;
  const auto again = read(partition_json(cut->graph, cut->stages).dump());
  MESHWRIGHT_CHECK(again && again->stages == cut->stages, "stages written are read as the same");
  return 0;
}
