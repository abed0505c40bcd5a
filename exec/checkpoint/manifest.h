// The manifest of a checkpoint is the file `manifest.json`, which is written last. A folder without
// a valid manifest is not a checkpoint. The last line of the file is the CRC-32C of the lines
// before it.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright::exec {

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
  double loss = 0;        // the last step's
  std::string optimizer;  // empty: imported weights, which suit any optimizer
  std::string model;      // its name, for people
  std::string degrees;    // the run's parallelism, for people
  // The job's values that decide what is computed, as JSON, by key ("training.global_batch": "8";
  // models/job/identity.h). Imported weights have only the values that define what the weights
  // mean.
  std::map<std::string, std::string> made_with;
  std::map<std::string, double> numbers;  // the loss scale's state, if there is one
  // For fp8 with delayed scales: the recent maxima of each rounded tensor, the newest last
  // (Runtime::histories).
  std::map<std::string, std::vector<double>> histories;
  std::vector<std::string> states;  // stored of every parameter (shard_file.h)
  // The step with the lowest evaluation loss so far, if the run keeps its checkpoint. -1 means that
  // there is none.
  std::int64_t best_step = -1;
  double best_loss = 0;
  // The step folder, next to this one, that holds the frozen parameters. Empty means that no other
  // folder does: this one holds all parameters, or they follow from the seed.
  std::string base;
  // Checksum of the frozen parameters in the `base` folder (Checkpoint::checksum_of), because
  // adapters fit only these weights. 0 means that there is no base, or that an older version did
  // not write the checksum.
  std::uint32_t base_checksum = 0;
  // Whether the run began with imported weights, which cannot be recreated from a seed. False may
  // also mean that an older version did not record it.
  bool imported = false;
  std::vector<ShardEntry> shards;
};

std::string encode(const Manifest& manifest);
// Accepts any bytes. Throws InputError `where: what is wrong` if they are not a valid manifest.
Manifest parse_manifest(std::string_view text, const std::string& where);
Manifest read_manifest(const std::string& folder);  // throws InputError or RunError

}  // namespace meshwright::exec
