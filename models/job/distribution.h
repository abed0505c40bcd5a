// SageMaker's `distribution` dictionary, version 1 (MPI) and version 2 (torchrun), translated into
// our plan. Every key acts, is refused with its reason, or gives one warning line.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "models/job/sections.h"

namespace meshwright {

// `training_keys`: what the job file's `training` gives, which the dictionary must not contradict.
void read_distribution(Fields fields, const ChosenCluster& cluster,
                       const std::set<std::string>& training_keys, Job& job);

// A message of `verify` about our keys, in the dictionary's words.
std::string in_words_of_distribution(const std::string& message, bool version_2);

// --- between the files of the reader ---

struct DistributionContext {
  const ChosenCluster& cluster;
  const std::set<std::string>& training_keys;
  Job& job;

  // Ranks of the job when one model takes `model_ranks`.
  int ranks(int model_ranks) const;
  bool given(const std::string& key) const { return training_keys.contains(key); }
};

void read_version_1(Fields parameters, const DistributionContext& context);
void read_version_2(Fields parameters, const DistributionContext& context);

// A positive integer.
int read_degree(Fields& fields, std::string_view key, int fallback);
// `enabled` as the SDK understands it: identical to true, else off (said aloud).
bool read_enabled(Fields& fields, Job& job);
// One warning for each key that neither version's table has, or only the other one's.
void warn_unknown(const Fields& fields, const std::vector<std::string>& known,
                  const std::vector<std::string>& other, int version, Job& job);
const std::vector<std::string>& version_1_keys();
const std::vector<std::string>& version_2_keys();

// Splits custom_mpi_options into words and checks them; nothing goes through a shell.
// What a job file may not set by itself is noted in job.unlisted_mpi_options.
std::vector<std::string> read_mpi_options(Fields& fields, std::string_view key,
                                          const ChosenCluster& cluster, Job& job);

}  // namespace meshwright
