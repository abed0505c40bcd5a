// Puts the sequences of a dataset in order: epoch after epoch, perhaps shuffled, or by a mixture's
// weights.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "exec/data/dataset.h"
#include "exec/data/mixture.h"

namespace meshwright::exec {

class SequenceOrder {
 public:
  // `sizes` holds the number of sequences of each file, and is empty for synthetic data. Throws
  // InputError for a file of a mixture that has none.
  SequenceOrder(const LoaderOptions& options, const std::vector<std::int64_t>& sizes);

  std::int64_t sequences() const { return first_sequence_.back(); }  // in all files
  // Returns where the sequence at `position` is stored. Positions count sequences from the run's
  // first step on.
  SequencePlace at(std::int64_t position);

 private:
  struct Epoch {
    std::int64_t number = -1;
    std::vector<std::int64_t> order;
  };
  std::int64_t shuffled(std::size_t whose, std::int64_t epoch, std::int64_t index,
                        std::int64_t sequences);

  bool shuffle_;
  std::uint64_t seed_;
  std::vector<std::int64_t> first_sequence_{0};  // by file, and the end
  std::optional<Mixture> mixture_;
  // Shuffled orders, for each file of a mixture, otherwise for all files together. Two epochs are
  // kept, because a step may touch the end of one and the beginning of the next.
  std::vector<std::array<Epoch, 2>> epochs_;
};

}  // namespace meshwright::exec
