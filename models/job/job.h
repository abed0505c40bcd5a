// Defines a job, which says what to train, how, and on which machines, and reads it from a job
// file. Reading is strict: unknown keys are errors.
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

namespace meshwright::job {

struct ClusterRequest {
  std::vector<std::string> machines;  // if several, the planner chooses; empty for "auto"
  std::vector<int> counts;            // of hosts; if several, the planner chooses; empty for "auto"
  int processes_per_host = 0;         // 0: one for each GPU of a host
  struct Network {
    int nics = 0;
    double gbps_per_nic = 0;
    double latency_us = -1;  // below 0: the machine's
  };
  std::optional<Network> network;
  std::optional<double> host_launch_us;
  std::string stack;  // software generation (hwprofiles/stacks.h); "": the newest
  Faults faults;
  std::optional<Failures> failures;  // unset: nothing fails
  std::optional<Fabric> fabric;      // unset: the network between hosts never blocks
};

// Says which plan is the best in a search: that with the least step time, cost or cost per token
// (step_time, usd, usd_per_token), with the most tokens within a budget or a deadline (tokens), or
// with the fewest GPUs (gpus).
enum class Minimize : std::uint8_t { step_time, usd, usd_per_token, tokens, gpus };
const std::vector<std::string>& minimize_names();

struct Objective {
  Minimize minimize = Minimize::step_time;
  std::optional<double> tokens, deadline_s, budget_usd;
  PriceChoice price;
};

// The cost of a sample (a sequence, or an image) before it reaches a rank. Costs of 0 are not
// known.
struct DataLoading {
  double bytes_per_sample = 0;     // in storage
  double decode_s = 0;             // seconds of one core to decompress, tokenize or augment it
  int workers = 0;                 // processes of each rank that decode; 0: one
  double storage_bytes_per_s = 0;  // rate at which a host reads from its storage

  bool any() const { return decode_s > 0 || (bytes_per_sample > 0 && storage_bytes_per_s > 0); }
};

struct DataFiles {
  std::vector<std::string> files;  // resolved against the job file's folder
  TokenFormat format = TokenFormat::bytes;
  std::vector<double> weights;  // shares of the files, in any unit; empty: one file after another
  bool shuffle = false;
  std::uint64_t seed = 0;
  std::optional<int> mask_token;    // the token that replaces masked ones (head mlm)
  std::optional<int> document_end;  // the last token of each document (training.packing)
  // Fields for files with text. Format `pairs` uses all three, `labelled` only the tokenizer.
  std::string tokenizer;  // path of a tokenizer.json; empty: every byte is a token
  ChatTemplate chat_template = ChatTemplate::plain;
  std::string end_token;  // the token after every completion; empty: none
  struct Evaluation {
    std::vector<std::string> files;
    int every_steps = 0;
    int batches = 0;  // global batches; 0: all whole ones in the files
  };
  std::optional<Evaluation> evaluation;
  DataLoading loading;
};

struct Job {
  std::string file;    // for messages
  std::string folder;  // paths in the job are relative to it
  std::string name;
  Model model;
  std::string model_json;  // the value of `model`, for to_json()
  std::string model_path;  // path of the model's file or folder; empty: none
  // Paths of the files that cluster.topology and parallelism.partition name.
  std::vector<std::string> settings_files;
  // The given keys and defaults. Keys in `autos` are still to be decided.
  Plan plan;
  std::set<std::string, std::less<>>
      autos;  // keys that are "auto", such as "parallelism.pipeline" and "cluster.count"
  ClusterRequest cluster;
  Objective objective;
  bool compiler_debug = false;  // compiler_config: write the graph after each pass
  bool has_steps = false;       // training.steps is given, which `train` needs
  std::optional<DataFiles> data;
  DataLoading loading;  // also set for a job without data files
  struct Checkpoint {
    std::string folder;
    int every_steps = 0;
    int keep = 2;
    bool keep_best = false;  // keep the best checkpoint of all evaluations
  };
  std::optional<Checkpoint> checkpoint;
  struct Log {
    std::string json, tensorboard, folder;
    std::optional<int> every;  // steps from one printed line to the next; unset: 1
  } log;
  std::vector<std::string> warnings;     // one line each, for standard error
  std::vector<std::string> notes;        // say how words of the job were read, one line each
  std::vector<std::string> mpi_options;  // words of custom_mpi_options, after checks
  // The settings in `mpi_options` that a job file may not make by itself ("variable LD_PRELOAD").
  // They need --allow-mpi-options.
  std::vector<std::string> unlisted_mpi_options;

  // Keys that the file does not name and that the planner could decide, such as
  // "parallelism.pipeline". Empty if SageMaker's `distribution` describes the plan.
  std::set<std::string, std::less<>> left_out;

  bool is_auto(std::string_view key) const { return autos.contains(key); }
  bool leaves_out(std::string_view key) const { return left_out.contains(key); }
};

// Facts about a machine that rules of the job need. They come from hwprofiles, through the reader's
// MachineLookup. For a CPU computer, `gpus` is its number of cores, or 0 if that is not known.
struct MachineFacts {
  int gpus = 0;
  bool has_bf16 = false, has_tf32 = false, has_fp8 = false, has_fp4 = false;
  bool has_flash3 = false, has_cudnn_attention = false;
  bool is_cpu = false;
  bool has_nvlink = false;
  bool has_efa = false;
};
using MachineLookup =
    std::function<MachineFacts(const std::string& machine)>;  // throws InputError if unknown

// Says how keys of the plan that a job leaves out are read: they have their defaults, or, for
// commands that search plans, many of them are open (open_left_out() in job_overrides.h).
enum class LeftOut : std::uint8_t { has_default, is_open };

// Read and check a job. `overrides` are `--set` texts KEY=VALUE. Throw an InputError that begins
// with the name of the job's file, or of another file that the job names, if something is wrong.
Job read_job(const std::string& path, const std::vector<std::string>& overrides,
             const MachineLookup& lookup);
Job read_job_text(const std::string& text, const std::string& file,
                  const std::vector<std::string>& overrides, const MachineLookup& lookup,
                  LeftOut left_out = LeftOut::has_default);
Job read_job(const nlohmann::json& value, const std::string& file, const std::string& folder,
             const MachineLookup& lookup);

// Returns the job's plan for a chosen cluster of `ranks` ranks. Sets open keys: the default
// precision and attention kernel, `data` from the ranks that the other degrees leave, and the
// smallest legal micro-batch. Throws an InputError that begins with the job's file if the degrees
// do not fit the ranks or the plan breaks a rule.
Plan settle(const Job& job, int ranks, const MachineFacts& machine);

// Returns the attention kernel of a job that does not set one. It depends on the machine, on the
// plan's precision, compiler level and context parallelism, and on whether the model has attention
// sinks.
AttentionKernel default_attention(const MachineFacts& machine, const Plan& plan,
                                  const Model& model);

// Return a section of the job file. Keys without a value are left out.
nlohmann::json to_json(Training training);
nlohmann::json to_json(Parallelism parallelism);
// Returns a plan as JSON: {"format": 1, "parallelism": {...}, "training": {...}}. If stages are
// given by module, they are added: "stage_of": {"transformer.h.0": 0, ...}. If stages were
// computed, they are added as "stage_of_unit", in the order of the graph's units.
nlohmann::json to_json(const Plan& plan);
// Returns the job as JSON, with the plan and cluster written into it and every "auto" replaced.
nlohmann::json to_json(const Job& job, const Plan& plan, const std::string& machine, int count);

// Returns the stage of each unit of the graph, in the form that `parallelism.partition` and
// `partition_file` read.
nlohmann::json partition_json(const Graph& graph, const std::vector<int>& stage_of_unit);

}  // namespace meshwright::job
