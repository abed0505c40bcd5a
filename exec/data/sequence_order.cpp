#include "exec/data/sequence_order.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <tuple>
#include <utility>

#include "exec/core/philox.h"
#include "models/core/error.h"

namespace meshwright::exec {

SequenceOrder::SequenceOrder(const LoaderOptions& options, const std::vector<std::int64_t>& sizes)
    : shuffle_(options.shuffle), seed_(options.data_seed) {
  for (const std::int64_t size : sizes) first_sequence_.push_back(sequences() + size);
  if (!options.weights.empty()) {
    for (std::size_t file = 0; file < sizes.size(); ++file)
      if (sizes[file] == 0)
        throw InputError(options.files[file] +
                         ": is too short for one sequence; a mixture takes some of every file: "
                         "leave it out, with its weight");
    mixture_.emplace(options.weights);
  }
  epochs_.resize(mixture_ ? sizes.size() : 1);
}

SequencePlace SequenceOrder::at(std::int64_t position) {
  if (sequences() == 0) return {0, position};
  std::size_t file = 0;
  std::int64_t count = sequences();
  if (mixture_) {
    std::tie(file, position) = mixture_->at(position);
    count = first_sequence_[file + 1] - first_sequence_[file];
  }
  const std::int64_t epoch = position / count, index = position % count;
  const std::int64_t sequence = shuffle_ ? shuffled(file, epoch, index, count) : index;
  if (mixture_) return {file, sequence};
  const auto after = std::upper_bound(first_sequence_.begin(), first_sequence_.end(), sequence);
  return {static_cast<std::size_t>(after - first_sequence_.begin()) - 1, sequence - *(after - 1)};
}

// Returns the sequence at `index` in the shuffled order of an epoch of `sequences` sequences.
// `whose` is the file that the order belongs to. Without a mixture, one order covers all files. The
// order is Fisher and Yates' shuffle with the random numbers of (data seed, epoch), and in a
// mixture of the file too.
std::int64_t SequenceOrder::shuffled(std::size_t whose, std::int64_t epoch, std::int64_t index,
                                     std::int64_t sequences) {
  Epoch& found = epochs_[whose][epoch % 2];
  if (found.number != epoch) {
    const PhiloxStream stream(seed_,
                              "epoch " + std::to_string(epoch) +
                                  (mixture_ ? " of file " + std::to_string(whose) : std::string()));
    found.number = epoch;
    found.order.resize(sequences);
    std::iota(found.order.begin(), found.order.end(), std::int64_t{0});
    for (std::size_t i = found.order.size(); i > 1; --i) {
      const PhiloxCounter bits = stream.block(i);
      const std::uint64_t wide = std::uint64_t{bits[0]} << 32 | bits[1];
      std::swap(found.order[i - 1], found.order[wide % i]);
    }
  }
  return found.order[index];
}

}  // namespace meshwright::exec
