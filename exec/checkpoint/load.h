// Reading a checkpoint under any degrees: each rank reads what it needs.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "exec/checkpoint/manifest.h"
#include "exec/checkpoint/shard_file.h"
#include "exec/runtime/parameter_runs.h"

namespace meshwright {

// A checkpoint whose manifest and headers are read and fit together. Every fault is an InputError
// or a RunError that names the file.
class Checkpoint {
 public:
  explicit Checkpoint(const std::string& folder);
  const Manifest& manifest() const { return manifest_; }
  int states() const { return static_cast<int>(manifest_.states.size()); }
  // The number of the weights' average; -1: it holds none.
  int average() const { return index_of_state(manifest_.states, average_state); }
  std::size_t shards() const { return shards_.size(); }

  // Compares a shard's data with their checksums: reads all of it.
  void check_shard(std::size_t index) const;

  // Returns one checksum of the data of these parameters, from the headers alone. Checkpoints with
  // the same data in the same pieces have the same.
  std::uint32_t checksum_of(const std::set<std::string>& parameters) const;

  // Each of these parameters is there in its shape, every element once, and no other parameter.
  void check_holds(const std::map<std::string, Shape>& parameters) const;

  // Fills to[run.local ...] with the elements run.global ... of a parameter, for each run.
  void read(const std::string& name, int state, std::span<const ParameterRun> runs,
            float* to) const;

  std::vector<std::string> names() const;
  bool holds(const std::string& name) const { return places_.contains(name); }

 private:
  struct Shard {
    File file;
    ShardHeader header;
  };
  struct Place {
    std::size_t shard = 0, piece = 0;
  };
  // Elements of the whole parameter that lie together in a piece, from `at` of its elements on.
  struct Interval {
    std::int64_t first = 0, count = 0, at = 0;
  };
  const Piece& piece(const Place& place) const {
    return shards_[place.shard].header.pieces[place.piece];
  }
  static std::vector<Interval> intervals_of(const Piece& piece);  // ascending
  std::int64_t read_piece(const Place& place, int state, std::span<const ParameterRun> runs,
                          float* to) const;

  std::string folder_;
  Manifest manifest_;
  std::vector<Shard> shards_;
  std::map<std::string, std::vector<Place>> places_;
};

}  // namespace meshwright
