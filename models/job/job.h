// The job file, strictly read: what to train, how, on what.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "hwprofiles/fabric.h"
#include "hwprofiles/failures.h"
#include "hwprofiles/faults.h"
#include "hwprofiles/price.h"
#include "models/architectures/model.h"
#include "models/compiler/frameworks/framework.h"
#include "models/compiler/plan/plan.h"
#include "models/core/token_format.h"

namespace meshwright {

struct ClusterRequest {
  std::vector<std::string> machines;  // several: the planner chooses ("auto": all known)
  std::vector<int> counts;            // several: the planner chooses
  int processes_per_host = 0;         // 0: all GPUs
  struct Network {
    int nics = 0;
    double gbps_per_nic = 0;
    double latency_us = -1;  // < 0: the machine's
  };
  std::optional<Network> network;
  std::optional<double> host_launch_us;
  std::string stack;  // software generation (hwprofiles/stacks.h); "": the newest
  Faults faults;
  std::optional<Failures> failures;  // none: nothing fails
  std::optional<Fabric> fabric;      // none: the network between the hosts never blocks
};

// The objective of a search: the least step_time, usd or usd_per_token, the most tokens (under a
// budget or a deadline), or the fewest gpus.
enum class Minimize : std::uint8_t { step_time, usd, usd_per_token, tokens, gpus };
const std::vector<std::string>& minimize_names();

struct Objective {
  Minimize minimize = Minimize::step_time;
  std::optional<double> tokens, deadline_s, budget_usd;
  PriceChoice price;
  Framework framework = Framework::none;  // plans are for it alone, as it runs them
};

struct DataFiles {
  std::vector<std::string> files;  // resolved against the job file's folder
  TokenFormat format = TokenFormat::bytes;
  std::vector<double> weights;  // of the files, in any unit; none: one file after the other
  bool shuffle = false;
  std::uint64_t seed = 0;
  std::optional<int> mask_token;    // what stands for a masked token (head mlm)
  std::optional<int> document_end;  // the last token of each document (training.packing)
  // Fields of files with text. Format `pairs` has all three, `labelled` only the tokenizer.
  std::string tokenizer;  // a tokenizer.json; empty: every byte is a token
  ChatTemplate chat_template = ChatTemplate::plain;
  std::string end_token;  // behind every completion; empty: none
  struct Evaluation {
    std::vector<std::string> files;
    int every_steps = 0;
    int batches = 0;  // global ones; 0: all that the files have whole
  };
  std::optional<Evaluation> evaluation;
};

struct Job {
  std::string file;    // for messages
  std::string folder;  // paths in the job are relative to it
  std::string name;
  Model model;
  std::string model_json;                   // `model` as the file says it, for to_json
  std::string model_path;                   // where it is a file or folder; empty: it is not
  std::vector<std::string> settings_files;  // of which the job took a section: topology, partition
  Plan plan;  // defaults and what was given; where `autos` says so, to be decided
  std::set<std::string, std::less<>>
      autos;  // dotted: "parallelism.pipeline", "training.micro_batch", "cluster.count"
  ClusterRequest cluster;
  Objective objective;
  bool compiler_debug = false;  // compiler_config: the graph after each pass is written
  bool has_steps = false;       // training.steps was given: `train` needs it
  std::optional<DataFiles> data;
  struct Checkpoint {
    std::string folder;
    int every_steps = 0;
    int keep = 2;
    bool keep_best = false;  // of all evaluations
  };
  std::optional<Checkpoint> checkpoint;
  struct Log {
    std::string json, tensorboard, folder;
  } log;
  std::vector<std::string> warnings;     // one line each, for standard error
  std::vector<std::string> mpi_options;  // words of custom_mpi_options, checked
  // The settings among them that a job file may not make by itself ("variable LD_PRELOAD"). They
  // need --allow-mpi-options.
  std::vector<std::string> unlisted_mpi_options;

  bool is_auto(std::string_view key) const { return autos.contains(key); }
};

// Facts about a machine that rules of the job need; hwprofiles gives them to the reader.
struct MachineFacts {
  int gpus = 0;
  bool has_bf16 = false, has_tf32 = false, has_fp8 = false, has_fp4 = false;
  bool has_flash3 = false, has_cudnn_attention = false;
  bool is_cpu = false;
  bool has_nvlink = false;
  bool has_efa = false;
};
using MachineLookup =
    std::function<MachineFacts(const std::string& machine)>;  // unknown: InputError

// Reads and checks a job. `overrides` are `--set` texts KEY=VALUE. Every error is an InputError
// that begins with the file's name.
Job read_job(const std::string& path, const std::vector<std::string>& overrides,
             const MachineLookup& lookup);
Job read_job(const nlohmann::json& value, const std::string& file, const std::string& folder,
             const MachineLookup& lookup);

// Fills in what follows once a cluster and its rank count are chosen: `data` from the rest when it
// was not given, the default precision, and the smallest legal micro-batch where it is open; then
// checks degrees against ranks and runs verify(plan, model).
Plan settle(const Job& job, int ranks, const MachineFacts& machine);

// Returns the attention kernel of a job that names none, by the machine and the plan's precision
// and compiler level.
AttentionKernel default_attention(const MachineFacts& machine, const Plan& plan,
                                  const Model& model);

// Return a section of the job file. A key is left out if the job does not set it and no value of it
// says so.
nlohmann::json to_json(Training training);
nlohmann::json to_json(Parallelism parallelism);
// {"format": 1, "parallelism": {...}, "training": {...}, "stage_of": {"transformer.h.0": 0, ...}}
nlohmann::json to_json(const Plan& plan);
// Returns the job as JSON, with the plan and cluster written into it and every "auto" replaced.
nlohmann::json to_json(const Job& job, const Plan& plan, const std::string& machine, int count);

// Returns the stage of each unit of the graph, as `parallelism.partition` and `partition_file` read
// it.
nlohmann::json partition_json(const Graph& graph, const std::vector<int>& stage_of_unit);

}  // namespace meshwright
