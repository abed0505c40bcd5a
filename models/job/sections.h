// The sections of a job file, one reader each: it takes every key that it knows from `fields`,
// refuses the rest and writes what it read into the job. Used by job.cpp only.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>

#include "models/job/job.h"

namespace meshwright {

constexpr int most_local_processes = 64;

// Facts about the cluster that the readers of later sections need. `hosts` is 0 while there are
// several machines or counts to choose from.
struct ChosenCluster {
  std::string machine;
  MachineFacts facts;
  int hosts = 0;
};

// Applies a `--set` text KEY=VALUE: writes the value at a dotted path of the job's JSON.
void apply_override(nlohmann::json& job, const std::string& text, const std::string& file);

// Spells out "parallelism": "auto": sets every key to "auto" that may be it.
void spell_out_auto(nlohmann::json& job);

void read_training(Fields fields, Job& job);
void read_parallelism(Fields fields, Job& job);
// Reads a file of {module path: stage}, or of a plan or saved partition with `stage_of`. Returns
// its path, which is resolved against the job's folder.
std::string read_partition_file(const Job& job, const std::string& path, Parallelism& parallelism);
// Reads the cluster of the whole job, from `cluster` or from instance_type and instance_count.
ChosenCluster read_cluster(Fields& job_fields, Job& job, const MachineLookup& lookup);
// Checks processes_per_host against the machines' GPUs. `pointer` is the key that gave it.
void check_processes(const Job& job, const std::string& pointer, const MachineLookup& lookup);
void read_compiler_config(Fields& job_fields, const ChosenCluster& cluster, Job& job);
void read_objective(Fields fields, Job& job);
void read_faults(Fields fields, Job& job);
void read_failures(Fields fields, Job& job);  // after the objective: spot hosts are taken back
// Checks faults against the cluster, once the number of processes is known.
void check_faults(Fields fields, const ChosenCluster& cluster, Job& job);
void read_data(Fields fields, Job& job);
void read_checkpoint(Fields fields, Job& job);
void read_log(Fields fields, Job& job);

// Resolves `path` of the job file against its folder. from_folder() is the reverse: it returns a
// path as a job file in `folder` gives it.
std::string resolve(const Job& job, const std::string& path);
std::string from_folder(const std::string& folder, const std::string& path);
// Adds a warning of one line for standard error: `job.json: /pointer/key: text`.
void warn(Job& job, const Fields& fields, std::string_view key, const std::string& text);

// Warns of an offload of activations if nothing is recomputed, because no activation is then
// checkpointed.
void warn_about_offload(const Fields& fields, std::string_view key, Job& job);

// Reads `key` if it is there.
template <class T>
void take(Fields& fields, std::string_view key, T& target) {
  target = fields.optional<T>(key, target);
}

// Reads `key` like take(). Returns true if the value was "auto", which is noted under `section`.
bool take_auto(Fields& fields, std::string_view key, const std::string& section, Job& job);

// Reads one of the words of a table, as the enumerator at its index.
template <class Enum>
void take_word(Fields& fields, std::string_view key, std::string_view what,
               const std::vector<std::string>& words, Enum& target) {
  if (fields.has(key))
    target = static_cast<Enum>(choose(fields, key, what, fields.required<std::string>(key), words));
}

}  // namespace meshwright
