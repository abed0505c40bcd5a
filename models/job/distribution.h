// Translates SageMaker's `distribution` dictionary, version 1 (MPI) and version 2 (torchrun), into
// a plan of meshwright. Every key has an effect, is rejected with a reason, or gives one warning
// line.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "models/job/sections.h"

namespace meshwright::job {

// Reads the dictionary into `job`. `training_keys` are the keys that the job file's `training`
// gives. Throws InputError if the dictionary contradicts them or is wrong itself.
void read_distribution(Fields fields, const ChosenCluster& cluster,
                       const std::set<std::string>& training_keys, Job& job);

// Returns the pointer of the dictionary's key for a key of meshwright, or the key itself if the
// dictionary has none.
std::string key_in_distribution(const std::string& key, bool version_2);

// --- The rest is shared by the files of this reader. ---

struct DistributionContext {
  const ChosenCluster& cluster;
  const std::set<std::string>& training_keys;
  Job& job;

  // Returns the number of ranks of the job. On a CPU host for which the job gives no number of
  // processes, it is `model_ranks` (the ranks of one copy of the model), rounded up to a multiple
  // of the hosts.
  int ranks(int model_ranks) const;
  bool given(const std::string& key) const { return training_keys.contains(key); }
};

void read_version_1(Fields parameters, const DistributionContext& context);
void read_version_2(Fields parameters, const DistributionContext& context);

// Reads a positive integer. Returns `fallback` if the key is missing.
int read_degree(Fields& fields, std::string_view key, int fallback);
// Reads `enabled` as SageMaker's SDK understands it: only the value true is on. Values other than
// true and false, and a missing key, are off with a warning.
bool read_enabled(Fields& fields, Job& job);
// Warns of each key in `fields` that is not in `known`, the keys of `version`. `other` are the keys
// of the other version, for the warning.
void warn_unknown(const Fields& fields, const std::vector<std::string>& known,
                  const std::vector<std::string>& other, int version, Job& job);
const std::vector<std::string>& version_1_keys();
const std::vector<std::string>& version_2_keys();

// Splits custom_mpi_options into words, which no shell interprets, and checks them. Notes settings
// that a job file may not make by itself in job.unlisted_mpi_options.
std::vector<std::string> read_mpi_options(Fields& fields, std::string_view key,
                                          const ChosenCluster& cluster, Job& job);

}  // namespace meshwright::job
