#include "exec/data/loader.h"

#include <algorithm>
#include <numeric>

#include "exec/runtime/philox.h"
#include "models/core/error.h"

namespace meshwright {

Loader::Loader(const LoaderOptions& options) : options_(options) {
  MESHWRIGHT_CHECK(options.sequence_length > 0 && options.vocabulary > 0,
                   "the loader knows the sequence and the vocabulary");
  window_.resize(static_cast<std::size_t>(options.sequence_length) + 1);
  first_sequence_.push_back(0);
  for (const std::string& path : options.files) {
    files_.emplace_back(path, options.format, options.vocabulary);
    sequences_ += (files_.back().size() - 1) / options.sequence_length;
    first_sequence_.push_back(sequences_);
  }
  if (!files_.empty() && sequences_ == 0)
    throw InputError(options.files[0] + ": has " + std::to_string(files_[0].size()) +
                     " tokens; one sequence needs " + std::to_string(options.sequence_length + 1) +
                     " (sequence_length + 1), and no file has that many");
}

void Loader::read(std::int64_t position, std::int32_t* tokens, std::int32_t* targets) {
  const std::int64_t s = options_.sequence_length;
  if (files_.empty()) {
    synthetic(position);
  } else {
    const std::int64_t epoch = position / sequences_, index = position % sequences_;
    const std::int64_t sequence = options_.shuffle ? shuffled(epoch, index) : index;
    const auto after = std::upper_bound(first_sequence_.begin(), first_sequence_.end(), sequence);
    const std::size_t file = static_cast<std::size_t>(after - first_sequence_.begin()) - 1;
    files_[file].read((sequence - first_sequence_[file]) * s, s + 1, window_.data());
  }
  if (tokens != nullptr) std::copy(window_.begin(), window_.end() - 1, tokens);
  if (targets != nullptr) std::copy(window_.begin() + 1, window_.end(), targets);
}

void Loader::synthetic(std::int64_t position) {
  const PhiloxStream stream(options_.seed, "tokens");
  const std::uint64_t blocks = (window_.size() + 3) / 4;
  const auto vocabulary = static_cast<std::uint64_t>(options_.vocabulary);
  for (std::uint64_t b = 0; b < blocks; ++b) {
    const PhiloxCounter bits = stream.block(static_cast<std::uint64_t>(position) * blocks + b);
    for (std::size_t lane = 0; lane < 4 && 4 * b + lane < window_.size(); ++lane)
      window_[4 * b + lane] = static_cast<std::int32_t>(bits[lane] * vocabulary >> 32);
  }
}

// Fisher and Yates' shuffle with the numbers of (data seed, epoch).
std::int64_t Loader::shuffled(std::int64_t epoch, std::int64_t index) {
  Epoch& found = epochs_[static_cast<std::size_t>(epoch % 2)];
  if (found.number != epoch) {
    const PhiloxStream stream(options_.data_seed, "epoch " + std::to_string(epoch));
    found.number = epoch;
    found.order.resize(static_cast<std::size_t>(sequences_));
    std::iota(found.order.begin(), found.order.end(), std::int64_t{0});
    for (std::size_t i = found.order.size(); i > 1; --i) {
      const PhiloxCounter bits = stream.block(i);
      const std::uint64_t wide = std::uint64_t{bits[0]} << 32 | bits[1];
      std::swap(found.order[i - 1], found.order[wide % i]);
    }
  }
  return found.order[static_cast<std::size_t>(index)];
}

std::int64_t first_sequence(std::int64_t step_position, std::int64_t global_batch, int replicas,
                            int replica, std::int64_t sequence_in_replica) {
  return step_position + global_batch / replicas * replica + sequence_in_replica;
}

}  // namespace meshwright
