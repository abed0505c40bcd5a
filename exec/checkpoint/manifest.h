// What a checkpoint says of itself: `manifest.json`, written last. A folder without a good one is
// not a checkpoint. Its last line is the CRC-32C of the lines before.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright {

struct Manifest {
  struct ShardEntry {
    std::string name;  // rank-00003.shard
    std::int64_t bytes = 0;
    std::uint32_t header_checksum = 0;
  };
  std::string run;            // identity: the same for all checkpoints of a run and its resumptions
  std::int64_t step = 0;      // steps done
  std::int64_t position = 0;  // sequences read
  std::int64_t updates = 0;   // steps that changed the parameters
  std::uint64_t seed = 0;
  double loss = 0;        // of the last step
  std::string optimizer;  // empty: weights only, any optimizer may begin with them
  std::string model;      // its name, for people
  std::string degrees;    // how the run was cut, for people
  // The job's values that decide what is computed, as JSON, by key ("training.global_batch": "8";
  // models/job/identity.h). Imported weights have only the values that say what weights mean.
  std::map<std::string, std::string> made_with;
  std::map<std::string, double> numbers;  // what else a run carries on (the loss scale)
  // fp8 with delayed scales: of what is rounded its largest elements, the newest last
  // (Runtime::histories).
  std::map<std::string, std::vector<double>> histories;
  std::vector<std::string> states;  // of every parameter
  // The step with the lowest evaluation loss so far, of a run that keeps its checkpoint; -1: none.
  std::int64_t best_step = -1;
  double best_loss = 0;
  // The step folder beside this one that holds the parameters that are not trained; empty: none
  // does, this one has all, or they follow from the seed.
  std::string base;
  // Checksum of the frozen parameters in that folder (Checkpoint::checksum_of), because adapters
  // are of use with these alone. 0: an older version did not write it.
  std::uint32_t base_checksum = 0;
  // The run began with weights that were imported, which no seed makes again. False may also mean
  // that an older version did not say.
  bool imported = false;
  std::vector<ShardEntry> shards;
};

std::string encode(const Manifest& manifest);
// A total function of any bytes: InputError `where: what is wrong`.
Manifest parse_manifest(std::string_view text, const std::string& where);
Manifest read_manifest(const std::string& folder);  // InputError, RunError

}  // namespace meshwright
