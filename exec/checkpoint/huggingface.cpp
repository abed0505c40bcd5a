#include "exec/checkpoint/huggingface.h"

#include <fmt/format.h>

#include <deque>
#include <set>

#include "exec/checkpoint/folder.h"
#include "models/core/error.h"

namespace meshwright {

namespace {

// Parameters are collected until they are this many bytes: what a shard holds is in memory once.
constexpr std::int64_t shard_bytes = 1 << 30;

class ShardCollector {
 public:
  ShardCollector(std::string folder, Manifest& manifest)
      : folder_(std::move(folder)), manifest_(manifest) {}

  void add(const std::string& name, const Shape& shape, std::vector<float> values) {
    const auto count = static_cast<std::int64_t>(values.size());
    values_.push_back(std::move(values));
    PieceSource source;
    source.piece = {name, shape, {{0, count, 0, 1}}, 0, {}};
    source.parts = {{values_.back().data(), count}};
    sources_.push_back(std::move(source));
    bytes_ += count * 4;
    if (bytes_ >= shard_bytes) flush();
  }

  void flush() {
    if (sources_.empty()) return;
    const std::string name = fmt::format("rank-{:05}.shard", manifest_.shards.size());
    const WrittenShard written = write_shard(folder_ + "/" + name, sources_, 1);
    manifest_.shards.push_back({name, written.bytes, written.header_checksum});
    sources_.clear(), values_.clear();
    bytes_ = 0;
  }

 private:
  std::string folder_;
  Manifest& manifest_;
  std::vector<PieceSource> sources_;
  std::deque<std::vector<float>> values_;
  std::int64_t bytes_ = 0;
};

}  // namespace

std::vector<std::string> import_weights(const Safetensors& from,
                                        const std::map<std::string, Shape>& parameters,
                                        const Manifest& about, const std::string& folder) {
  const std::vector<std::string> stored = from.names();
  std::set<std::string> unused(stored.begin(), stored.end());
  Manifest manifest = about;
  manifest.states = {state_names()[0]};
  const std::string part = part_folder(folder, manifest.step);
  make_folder(part);
  ShardCollector shards(part, manifest);
  for (const auto& [name, shape] : parameters) {
    const std::string found = from.find(name);
    if (found.empty()) throw InputError("has no " + name + ", which the job's model has");
    unused.erase(found);
    shards.add(name, shape, from.read(found, shape));
  }
  shards.flush();
  commit(folder, manifest, 1);
  return {unused.begin(), unused.end()};
}

void export_weights(const Checkpoint& from, const std::map<std::string, Shape>& parameters,
                    const std::string& file) {
  const std::string header = safetensors_header(parameters);
  const File to = File::create(file);
  to.write(0, header.data(), static_cast<std::int64_t>(header.size()));
  auto offset = static_cast<std::int64_t>(header.size());
  std::vector<float> values;
  for (const auto& [name, shape] : parameters) {
    const ParameterRun whole{0, 0, shape.elements()};
    values.resize(static_cast<std::size_t>(whole.count));
    from.read(name, 0, {&whole, 1}, values.data());
    to.write(offset, values.data(), whole.count * 4);
    offset += whole.count * 4;
  }
  to.sync();
}

}  // namespace meshwright
