// The sections of a job file, one reader each: it takes every key that it knows from `fields`,
// refuses the rest and writes what it read into the job. Used by job.cpp only.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <set>
#include <string>

#include "models/job/job.h"

namespace meshwright {

constexpr int most_local_processes = 64;

// What the readers of later sections need to know about the cluster. `hosts` is 0 while several
// machines or counts stand for choice.
struct ChosenCluster {
  std::string machine;
  MachineFacts facts;
  int hosts = 0;
};

// --set: writes `value` at a dotted path of the job's JSON.
void apply_override(nlohmann::json& job, const std::string& text, const std::string& file);

// "parallelism": "auto" spelled out: every key that may say "auto" does.
void spell_out_auto(nlohmann::json& job);

void read_training(Fields fields, Job& job);
void read_parallelism(Fields fields, Job& job);
// Reads a file of {module path: stage}, or of a plan or saved partition with `stage_of`. Returns
// its path, which is resolved against the job's folder.
std::string read_partition_file(const Job& job, const std::string& path, Parallelism& parallelism);
// `cluster`, or instance_type and instance_count, of the whole job.
ChosenCluster read_cluster(Fields& job_fields, Job& job, const MachineLookup& lookup);
// processes_per_host against the machines' GPUs; `pointer` is the key that gave it.
void check_processes(const Job& job, const std::string& pointer, const MachineLookup& lookup);
void read_compiler_config(Fields& job_fields, const ChosenCluster& cluster, Job& job);
void read_objective(Fields fields, Job& job);
void read_faults(Fields fields, Job& job);
void read_failures(Fields fields, Job& job);  // after the objective: spot hosts are taken back
// Against the cluster, once the number of processes is known.
void check_faults(Fields fields, const ChosenCluster& cluster, Job& job);
void read_data(Fields fields, Job& job);
void read_checkpoint(Fields fields, Job& job);
void read_log(Fields fields, Job& job);

// `path` of the job file, from its folder; and back, as a job file in that folder says it.
std::string resolve(const Job& job, const std::string& path);
std::string from_folder(const std::string& folder, const std::string& path);
// One line for standard error: `job.json: /pointer/key: text`.
void warn(Job& job, const Fields& fields, std::string_view key, const std::string& text);

// Where nothing is recomputed, no activation is checkpointed: warns of an offload.
void warn_about_offload(const Fields& fields, std::string_view key, Job& job);

// Reads `key` if it is there.
template <class T>
void take(Fields& fields, std::string_view key, T& target) {
  target = fields.optional<T>(key, target);
}

// Like take; true when the value was "auto", which is noted under `section`.
bool take_auto(Fields& fields, std::string_view key, const std::string& section, Job& job);

// One of the words of a table, as the enumerator of that place.
template <class Enum>
void take_word(Fields& fields, std::string_view key, std::string_view what,
               const std::vector<std::string>& words, Enum& target) {
  if (fields.has(key))
    target = static_cast<Enum>(choose(fields, key, what, fields.required<std::string>(key), words));
}

}  // namespace meshwright
