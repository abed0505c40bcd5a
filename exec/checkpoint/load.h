// Reads a checkpoint, which may have been written under other degrees of parallelism. A rank reads
// only the elements that it needs, whichever shards hold them.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "exec/checkpoint/manifest.h"
#include "exec/checkpoint/shard_file.h"
#include "exec/runtime/parameter_runs.h"

namespace meshwright::exec {

// A checkpoint whose manifest and shard headers have been read and agree. Functions throw an
// InputError or a RunError that names the file if it is damaged or cannot be read.
class Checkpoint {
 public:
  explicit Checkpoint(const std::string& folder);
  const Manifest& manifest() const { return manifest_; }
  int states() const { return static_cast<int>(manifest_.states.size()); }
  // Returns the index of the state that averages the weights over the steps, or -1 if there is
  // none.
  int average() const { return index_of_state(manifest_.states, average_state); }
  std::size_t shards() const { return shards_.size(); }

  // Reads all data of a shard. Throws InputError if a checksum differs.
  void check_shard(std::size_t index) const;

  // Returns one checksum of the data of these parameters, from the headers alone. Checkpoints that
  // store the same data in the same pieces and the same order have the same checksum. Names that
  // the checkpoint does not hold are ignored.
  std::uint32_t checksum_of(const std::set<std::string>& parameters) const;

  // Throws InputError unless the checkpoint holds each of these parameters in its shape, every
  // element exactly once, and no other parameter.
  void check_holds(const std::map<std::string, Shape>& parameters) const;

  // Reads elements [run.global, run.global + run.count) of a parameter's state to to[run.local
  // ...], for each run, in float or double. Throws InputError if elements are missing.
  template <typename Real>
  void read(const std::string& name, int state, std::span<const ParameterRun> runs, Real* to) const;

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
  // `count` elements of the whole parameter, from index `first` on, that a piece stores one after
  // the other from its element `at` on.
  struct Interval {
    std::int64_t first = 0, count = 0, at = 0;
  };
  const Piece& piece(const Place& place) const {
    return shards_[place.shard].header.pieces[place.piece];
  }
  static std::vector<Interval> intervals_of(const Piece& piece);  // ascending
  template <typename Real>
  std::int64_t read_piece(const Place& place, int state, std::span<const ParameterRun> runs,
                          Real* to) const;

  std::string folder_;
  Manifest manifest_;
  std::vector<Shard> shards_;
  std::map<std::string, std::vector<Place>> places_;
};

}  // namespace meshwright::exec
