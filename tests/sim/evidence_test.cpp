#include "sim/validate/evidence.h"

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "hwprofiles/load.h"
#include "models/core/error.h"
#include "models/core/fields.h"
#include "models/job/job.h"
#include "sim/planner/clusters.h"
#include "sim/validate/case.h"
#include "sim/validate/largest_batch.h"
#include "tests/catch.h"
#include "tests/message_of.h"
#include "tests/sim/all_evidence.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;

TEST_CASE("all published measurements load") {
  std::size_t steps = 0, collectives = 0, largest = 0;
  for (const Evidence& evidence : all_evidence()) {
    CHECK(!evidence.title.empty());
    steps += evidence.steps.size();
    collectives += evidence.collectives.size();
    largest += evidence.largest_batches.size();
  }
  CHECK(steps == 7 + 12 + 8 + 154 + 78 + 16 + 720 + 26 + 38 + 21 + 9 + 7 + 10 + 4 + 39 + 24 + 16 +
                     12 + 32 + 5 + 46 + 12 + 7 + 10 + 26);
  CHECK(collectives == 99 + 364 + 378 + 672 + 60 + 40);
  CHECK(largest == 24 + 27);
}

TEST_CASE("every measured step is a job that becomes a plan") {
  for (const Evidence& evidence : all_evidence())
    for (const StepRow& row : evidence.steps) {
      INFO(row.id);
      const Job job = read_job(parse_json(row.job, row.id), row.id, ".", machine_facts);
      const Cluster cluster =
          make_cluster(job.cluster, job.cluster.machines.front(), job.cluster.counts.front());
      const Plan plan = settle(job, cluster.ranks(), facts_of(cluster.machine));
      REQUIRE(plan.degrees().ranks() == cluster.ranks());
    }
}

TEST_CASE("published names of models") {
  CHECK(zoo_model_of("gpt2") == "gpt2");
  CHECK(zoo_model_of("cl-tohoku/bert-base-japanese") == "bert-base-japanese");
  CHECK(zoo_model_of("distilbert-base-uncased-finetuned-sst-2-english") ==
        "distilbert-base-uncased");
  CHECK(zoo_model_of("nreimers/MiniLMv2-L6-H384-distilled-from-RoBERTa-Large") ==
        "minilmv2-l6-h384");
  CHECK_THROWS_AS(zoo_model_of("gpt2-enormous"), InputError);
}

TEST_CASE("evidence is read strictly") {
  const TestFolder folder;
  const auto reads = [&](const std::string& rows) {
    read_evidence(
        folder.file("bad_evidence.json", R"({"source": {"title": "t"}, "rows": [)" + rows + "]}"));
  };
  CHECK_THROWS_AS(reads(R"({"id": "a"})"), InputError);
  CHECK_THROWS_AS(reads(R"({"id": "a", "job": {}, "measured": {"step_time": 1}})"), InputError);
  CHECK_THROWS_AS(reads(R"({"id": "a", "job": {}, "measured": {"step_time_s": 0}})"), InputError);
  CHECK_THROWS_AS(reads(R"({"id": "a", "collective": "sum", "machine": "p4d.24xlarge",
                           "count": 1, "gpus": 8, "bytes": 8, "time_s": 1})"),
                  InputError);
  const auto collective = [&](const std::string& more) {
    return message_of([&] {
      reads(R"({"id": "a", "collective": "all_reduce", "machine": "p4d.24xlarge", "count": 1,
                "gpus": 8, "bytes": 8, "time_s": 1, )" +
            more + "}");
    });
  };
  CHECK(collective(R"("algorithm": "nvls_tree", "harness": "one_process", "year": 2021)") == "");
  CHECK(
      collective(R"("algorithm": "nvlstree")")
          .ends_with(
              "/rows/0/algorithm: unknown algorithm of NCCL 'nvlstree'; did you mean 'nvls_tree'? "
              "known: ring, tree, collnet_direct, collnet_chain, nvls, nvls_tree and pat"));
  CHECK(collective(R"("harness": "mpi")")
            .ends_with("/rows/0/harness: unknown harness 'mpi'; known: many_processes, "
                       "one_process, one_thread and framework"));
}

TEST_CASE("every kind of collective is read as what it is", "[validate]") {
  const TestFolder folder;
  for (const auto& [name, kind] : {std::pair{"all_reduce", CollectiveKind::all_reduce},
                                   std::pair{"all_gather", CollectiveKind::all_gather},
                                   std::pair{"reduce_scatter", CollectiveKind::reduce_scatter},
                                   std::pair{"all_to_all", CollectiveKind::all_to_all},
                                   std::pair{"broadcast", CollectiveKind::broadcast}}) {
    const Evidence evidence = read_evidence(folder.file(
        "kind.json", R"({"source": {"title": "t"}, "rows": [{"id": "a", "collective": ")" +
                         std::string(name) + R"(", "machine": "dgx-h100", "count": 1, "gpus": 8,
                         "bytes": 8, "time_s": 1}]})"));
    CHECK(evidence.collectives.front().kind == kind);
  }
}

TEST_CASE("an attention kernel that a source does not state is the one that frameworks choose",
          "[validate]") {
  const auto kernel_of = [](const std::string& machine, const std::string& written,
                            std::vector<std::string> assumed) {
    StepRow row;
    row.id = "row";
    row.job = R"({"model": "gpt2", "training": {"global_batch": 8, "micro_batch": 1,
        "sequence_length": 512, "precision": "bf16", "attention": ")" +
              written + R"("}, "cluster": {"machine": ")" + machine +
              R"(", "processes_per_host": 1}, "parallelism": {"data": 1}})";
    row.assumed = std::move(assumed);
    return case_of(row, load_machine(machine)).plan.training.attention;
  };
  const std::vector<std::string> assumed = {"training.attention"};
  CHECK(kernel_of("dgx-h100", "flash2", {}) == AttentionKernel::flash2);
  CHECK(kernel_of("dgx-h100", "flash2", assumed) == AttentionKernel::cudnn);
  CHECK(kernel_of("dgx-a100-80gb", "flash2", assumed) == AttentionKernel::flash2);
  CHECK(kernel_of("dgx-h100", "unfused", assumed) == AttentionKernel::unfused);
}

TEST_CASE("a row may be of a machine that its profile alone knows", "[validate]") {
  Machine own = load_machine("dgx-h100");
  own.name = "lab-h100";
  StepRow row;
  row.id = "row";
  row.job = R"({"model": "gpt2", "training": {"global_batch": 8, "sequence_length": 512},
                "cluster": {"machine": "lab-h100"}, "parallelism": {"data": 8}})";
  CHECK(machine_of(row) == "lab-h100");
  CHECK(case_of(row, own).cluster.ranks() == 8);
}

TEST_CASE("BERT-large was measured on 1 and on 8 GPUs in 16 ways", "[validate]") {
  const Evidence evidence = read_evidence(std::string(MESHWRIGHT_SOURCE_DIR) +
                                          "/scenarios/evidence/nvidia_bert_large_v100_a100.json");
  std::map<std::string, std::set<int>> ranks;
  for (const StepRow& row : evidence.steps) {
    const StepCase step = case_of(row, load_machine(machine_of(row)));
    ranks[step.per_gpu].insert(step.cluster.ranks());
  }
  CHECK(std::ranges::count_if(ranks, [](const auto& each) {
          return each.second.contains(1) && each.second.contains(8);
        }) == 16);
}
