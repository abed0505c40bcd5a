#include "exec/checkpoint/huggingface.h"

#include <fmt/format.h>

#include <deque>
#include <set>

#include "exec/checkpoint/folder.h"
#include "models/core/error.h"
#include "models/graph/experts.h"

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
    std::vector<float> values;
    for (const PublishedTensor& each : published_tensors(name, shape)) {
      const std::string found = from.find(each.name);
      if (found.empty()) throw InputError("has no " + each.name + ", which the job's model has");
      unused.erase(found);
      std::vector<float> read = from.read(found, each.shape);
      if (values.empty())
        values = std::move(read);
      else
        values.insert(values.end(), read.begin(), read.end());
    }
    shards.add(name, shape, std::move(values));
  }
  shards.flush();
  commit(folder, manifest, 1);
  return {unused.begin(), unused.end()};
}

void export_weights(const Checkpoint& from, const std::map<std::string, Shape>& parameters,
                    const std::string& file) {
  struct Source {
    std::string parameter;
    std::int64_t begin;
  };
  std::map<std::string, Shape> published;
  std::map<std::string, Source> sources;
  for (const auto& [name, shape] : parameters)
    for (const PublishedTensor& part : published_tensors(name, shape)) {
      published[part.name] = part.shape;
      sources[part.name] = {name, part.begin};
    }
  const std::string header = safetensors_header(published);
  const File to = File::create(file);
  to.write(0, header.data(), static_cast<std::int64_t>(header.size()));
  auto offset = static_cast<std::int64_t>(header.size());
  std::vector<float> values;
  for (const auto& [name, shape] : published) {
    const Source& source = sources.at(name);
    const ParameterRun run{0, source.begin, shape.elements()};
    values.resize(static_cast<std::size_t>(run.count));
    from.read(source.parameter, 0, {&run, 1}, values.data());
    to.write(offset, values.data(), run.count * 4);
    offset += run.count * 4;
  }
  to.sync();
}

}  // namespace meshwright
