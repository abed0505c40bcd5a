// Declares one reader for each section of a job file. A reader takes every key that it knows from
// `fields`, rejects other keys and stores the values in the job.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "models/job/job.h"

namespace meshwright::job {

constexpr int most_local_processes = 64;

// Facts about the cluster that the readers of later sections need. If the job does not name exactly
// one machine and one count, `hosts` is 0 and `machine` is empty.
struct ChosenCluster {
  std::string machine;
  MachineFacts facts;
  int hosts = 0;
};

// Replaces "parallelism": "auto" by an object in which the keys that this includes
// (Key::is_auto_with_section()) are "auto".
void spell_out_auto(nlohmann::json& job);

void read_training(Fields fields, Job& job);
void read_parallelism(Fields fields, Job& job);
// Reads a file of {module path: stage}, or a plan or saved partition with `stage_of`. Returns the
// file's path, resolved against the job's folder.
std::string read_partition_file(const Job& job, const std::string& path, Parallelism& parallelism);
// Reads the cluster of the whole job, from `cluster` or from instance_type and instance_count.
ChosenCluster read_cluster(Fields& job_fields, Job& job, const MachineLookup& lookup);
// Checks processes_per_host against the GPUs of every machine of the job (at most 64 on a CPU
// computer). `pointer` is the key that gave it, for the error.
void check_processes(const Job& job, const std::string& pointer, const MachineLookup& lookup);
void read_compiler_config(Fields& job_fields, const ChosenCluster& cluster, Job& job);
void read_objective(Fields fields, Job& job);
void read_faults(Fields fields, Job& job);
void read_failures(Fields fields,
                   Job& job);  // after read_objective(): a spot price implies preemptions
// Checks faults against the cluster, once the number of processes is known.
void check_faults(Fields fields, const ChosenCluster& cluster, Job& job);
void read_data(Fields fields, Job& job);
void read_checkpoint(Fields fields, Job& job);
void read_log(Fields fields, Job& job);

// Resolves `path` of the job file against the job's folder. from_folder() is the reverse: it
// returns a path relative to `folder`, for a job file in that folder.
std::string resolve(const Job& job, const std::string& path);
std::string from_folder(const std::string& folder, const std::string& path);
// Adds a line to job.warnings: `job.json: /pointer/key: text`.
void warn(Job& job, const Fields& fields, std::string_view key, const std::string& text);

// Warns that offloading has no effect if nothing is recomputed, because only activations that are
// saved for recomputation are offloaded. Readers call it if activations are to be offloaded. It
// does not warn if training.recompute is "auto".
void warn_about_offload(const Fields& fields, std::string_view key, Job& job);

// Reads `key` into `target`, which stays as it is if the key is missing.
template <class T>
void take(Fields& fields, std::string_view key, T& target) {
  target = fields.optional<T>(key, target);
}

// Returns whether the value of `key` is "auto". If it is, notes the key under `section` in
// job.autos.
bool take_auto(Fields& fields, std::string_view key, const std::string& section, Job& job);

// Returns the value of a key that has a list of words. A number or a boolean, such as 16 or true,
// is returned as its text, so that the message about an unknown word names the known ones.
std::string word_of(Fields& fields, std::string_view key);

// Reads one of the words of a table into `target`, as the enumerator at the word's index. `target`
// stays as it is if the key is missing.
template <class Enum>
void take_word(Fields& fields, std::string_view key, std::string_view what,
               const std::vector<std::string>& words, Enum& target) {
  if (fields.has(key))
    target = static_cast<Enum>(choose(fields, key, what, word_of(fields, key), words));
}

}  // namespace meshwright::job
