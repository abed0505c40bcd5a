#include "exec/checkpoint/load.h"

#include <fmt/format.h>

#include <algorithm>

#include "exec/core/crc32c.h"
#include "models/core/error.h"

namespace meshwright::exec {

namespace {

std::string text_of(const Shape& shape) {
  std::string text;
  for (int dim = 0; dim < shape.rank; ++dim)
    text += (dim > 0 ? "x" : "") + std::to_string(shape[dim]);
  return text;
}

// Reads `count` numbers of the type `type` from byte `offset` of the file on, and converts them.
template <typename Real>
void read_numbers(WindowReader& reader, Dtype type, std::int64_t offset, std::int64_t count,
                  Real* to) {
  const auto read_as = [&](auto stored) {
    if constexpr (std::is_same_v<decltype(stored), Real>)
      return reader.read(offset, to, bytes_of(count, type));
    std::vector<decltype(stored)> numbers(count);
    reader.read(offset, numbers.data(), bytes_of(count, type));
    std::ranges::transform(numbers, to, [](auto number) { return static_cast<Real>(number); });
  };
  type == Dtype::f64 ? read_as(double{}) : read_as(float{});
}

}  // namespace

Checkpoint::Checkpoint(const std::string& folder)
    : folder_(folder), manifest_(read_manifest(folder)) {
  for (const Manifest::ShardEntry& entry : manifest_.shards) {
    File file = File::open(folder + "/" + entry.name);
    if (const std::int64_t bytes = file.size(); bytes != entry.bytes)
      throw InputError(
          fmt::format("{}: has {} bytes instead of {}", file.path(), bytes, entry.bytes));
    ShardHeader header = read_shard_header(file);
    if (header.checksum != entry.header_checksum)
      throw InputError(file.path() + ": its header is not what was written");
    if (header.states != manifest_.states)
      throw InputError(file.path() + ": holds other states than manifest.json says");
    for (std::size_t i = 0; i < header.pieces.size(); ++i)
      places_[header.pieces[i].name].push_back({shards_.size(), i});
    shards_.push_back({std::move(file), std::move(header)});
  }
}

void Checkpoint::check_shard(std::size_t index) const {
  check_data(shards_[index].file, shards_[index].header);
}

std::uint32_t Checkpoint::checksum_of(const std::set<std::string>& parameters) const {
  std::string text;
  for (const std::string& name : parameters)
    if (const auto found = places_.find(name); found != places_.end())
      for (const Place& place : found->second)
        for (const std::uint32_t checksum : piece(place).checksums) text += hex8(checksum);
  return crc32c(text);
}

std::vector<std::string> Checkpoint::names() const {
  std::vector<std::string> names;
  for (const auto& [name, places] : places_) names.push_back(name);
  return names;
}

std::vector<Checkpoint::Interval> Checkpoint::intervals_of(const Piece& piece) {
  std::vector<Interval> intervals;
  std::int64_t at = 0;
  for (const RepeatedRun& run : piece.runs)
    for (std::int64_t i = 0; i < run.times; ++i, at += run.count)
      intervals.push_back({run.first + i * run.distance, run.count, at});
  std::ranges::sort(intervals,
                    [](const Interval& a, const Interval& b) { return a.first < b.first; });
  return intervals;
}

void Checkpoint::check_holds(const std::map<std::string, Shape>& parameters) const {
  const std::string manifest = folder_ + "/manifest.json";
  for (const auto& [name, places] : places_)
    if (!parameters.contains(name))
      throw InputError(
          fmt::format("{}: is of another model: {} is not in the job's", manifest, name));
  for (const auto& [name, shape] : parameters) {
    const auto found = places_.find(name);
    if (found == places_.end())
      throw InputError(fmt::format("{}: is of another model: has no {}", manifest, name));
    std::vector<Interval> all;
    for (const Place& place : found->second) {
      if (piece(place).shape != shape)
        throw InputError(fmt::format("{}: is of another model: {} is {}, the job's is {}", manifest,
                                     name, text_of(piece(place).shape), text_of(shape)));
      const std::vector<Interval> more = intervals_of(piece(place));
      all.insert(all.end(), more.begin(), more.end());
    }
    std::ranges::sort(all, [](const Interval& a, const Interval& b) { return a.first < b.first; });
    all.push_back({shape.elements(), 0, 0});
    std::int64_t next = 0;
    for (const Interval& interval : all) {
      if (interval.first != next)
        throw InputError(fmt::format("{}: does not hold each element of {} once (see element {})",
                                     manifest, name, std::min(interval.first, next)));
      next += interval.count;
    }
  }
}

template <typename Real>
std::int64_t Checkpoint::read_piece(const Place& place, int state,
                                    std::span<const ParameterRun> runs, Real* to) const {
  const Shard& shard = shards_[place.shard];
  const Piece& from = piece(place);
  const Dtype type = shard.header.type;
  const std::int64_t data =
      shard.header.data_begin + from.offset + state * bytes_of(from.elements(), type);
  WindowReader reader(shard.file);
  const std::vector<Interval> intervals = intervals_of(from);
  auto next = intervals.begin();
  std::int64_t count = 0;
  for (const ParameterRun& run : runs) {
    while (next != intervals.end() && next->first + next->count <= run.global) ++next;
    for (auto each = next; each != intervals.end() && each->first < run.global + run.count;
         ++each) {
      const std::int64_t first = std::max(each->first, run.global);
      const std::int64_t end = std::min(each->first + each->count, run.global + run.count);
      read_numbers(reader, type, data + bytes_of(each->at + (first - each->first), type),
                   end - first, to + run.local + (first - run.global));
      count += end - first;
    }
  }
  return count;
}

template <typename Real>
void Checkpoint::read(const std::string& name, int state, std::span<const ParameterRun> runs,
                      Real* to) const {
  std::vector<ParameterRun> ascending(runs.begin(), runs.end());
  std::ranges::sort(
      ascending, [](const ParameterRun& a, const ParameterRun& b) { return a.global < b.global; });
  std::int64_t wanted = 0, count = 0;
  for (const ParameterRun& run : ascending) wanted += run.count;
  const auto found = places_.find(name);
  if (found != places_.end())
    for (const Place& place : found->second) count += read_piece(place, state, ascending, to);
  if (count != wanted)
    throw InputError(fmt::format("{}/manifest.json: holds {} of {} elements of {}", folder_, count,
                                 wanted, name));
}

template void Checkpoint::read(const std::string&, int, std::span<const ParameterRun>,
                               float*) const;
template void Checkpoint::read(const std::string&, int, std::span<const ParameterRun>,
                               double*) const;

}  // namespace meshwright::exec
