// The part of Loader for packed rows: it fills rows, and orders the rows of a step.
#include <algorithm>
#include <cmath>
#include <set>

#include "exec/core/philox.h"
#include "exec/data/loader.h"

namespace meshwright {

namespace {

// Returns `count` different random indices from 1 to length - 1, ascending (Floyd's sample).
std::vector<std::int32_t> random_cuts(std::uint64_t seed, std::int64_t position,
                                      std::int64_t length, std::int64_t count) {
  const PhiloxStream stream(seed, "documents");
  std::set<std::int32_t> cuts;
  for (std::int64_t last = length - count; last < length; ++last) {
    const auto draw = static_cast<std::uint64_t>(position * length + last);
    const auto place = static_cast<std::int32_t>(
        1 + (stream.block(draw)[0] * static_cast<std::uint64_t>(last) >> 32));
    if (!cuts.insert(place).second) cuts.insert(static_cast<std::int32_t>(last));
  }
  return {cuts.begin(), cuts.end()};
}

}  // namespace

void Loader::fill_packed(std::int64_t position) {
  if (options_.files.empty()) {
    synthetic(position);
    const std::int64_t length = options_.sequence_length;
    const auto documents = static_cast<std::int64_t>(std::lround(options_.documents_per_row));
    row_.split_at(window_, random_cuts(options_.seed, position, length,
                                       std::clamp<std::int64_t>(documents, 1, length) - 1));
    return;
  }
  if (pairs_.empty()) {
    fill_window(position);
    return row_.split(window_, options_.document_end);
  }
  const auto [file, row] = place_of(sequence_at(position));
  row_ = {};
  for (const std::int64_t pair : packed_pairs_[file][static_cast<std::size_t>(row)])
    row_.append(pairs_[file].tokens_of(pair), pairs_[file].counts_of(pair));
  row_.pad(options_.sequence_length);
}

const Loader::PackedStep& Loader::packed_step(std::int64_t number) {
  PackedStep& step = packed_steps_[static_cast<std::size_t>(number % 2)];
  if (step.number == number) return step;
  std::vector<std::int64_t> work, counted;
  for (std::int64_t i = 0; i < options_.global_batch; ++i) {
    fill_packed(number * options_.global_batch + i);
    work.push_back(row_.work());
    counted.push_back(row_.counted());
  }
  step.order = balanced_order(work);
  step.counted.clear();
  for (const std::int64_t row : step.order)
    step.counted.push_back(counted[static_cast<std::size_t>(row)]);
  step.number = number;
  return step;
}

std::int64_t Loader::balanced(std::int64_t position) {
  const std::int64_t batch = options_.global_batch, number = position / batch;
  return number * batch + packed_step(number).order[static_cast<std::size_t>(position % batch)];
}

std::optional<double> Loader::document_share() {
  if (!options_.packing || options_.files.empty()) return std::nullopt;
  const std::int64_t rows = std::min<std::int64_t>(sequences_, 256);
  const double whole = static_cast<double>(options_.sequence_length) * options_.sequence_length;
  double work = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    fill_packed(i * (sequences_ / rows));
    work += static_cast<double>(row_.work());
  }
  return work / (whole * static_cast<double>(rows));
}

}  // namespace meshwright
