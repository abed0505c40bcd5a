#include "exec/checkpoint/huggingface.h"

#include <fmt/format.h>

#include <deque>
#include <set>

#include "exec/checkpoint/folder.h"
#include "models/core/error.h"
#include "models/program/graph/experts.h"

namespace meshwright::exec {

namespace {

// Imported parameters are collected in memory until they have at least this many bytes, and are
// then written as one shard.
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
    const WrittenShard written = write_shard(folder_ + "/" + name, sources_, manifest_.states);
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

// Returns the values of a parameter, read from the published tensors that hold it. Erases the names
// of these tensors from `unused`.
std::vector<float> read_published(const Safetensors& from, const std::string& name,
                                  const Shape& shape, const PublishedPart* place,
                                  std::set<std::string>& unused) {
  const auto read = [&](const std::string& published, const Shape& published_shape) {
    const std::string found = from.find(published);
    if (found.empty()) throw InputError("has no " + published + ", which the job's model has");
    unused.erase(found);
    return from.read(found, published_shape);
  };
  std::vector<float> values;
  if (place != nullptr) {
    const std::vector<float> whole = read(place->whole, shape_of_whole(*place, shape));
    for (const ElementRun& run : runs_of(*place, shape)) {
      const float* const first = whole.data() + run.of_whole;
      for (std::int64_t i = 0; i < run.count; ++i) values.push_back(first[i * run.step]);
    }
    return values;
  }
  for (const PublishedTensor& each : published_tensors(name, shape)) {
    std::vector<float> one = read(each.name, each.shape);
    if (values.empty())
      values = std::move(one);
    else
      values.insert(values.end(), one.begin(), one.end());
  }
  return values;
}

const PublishedPart* part_named(const PublishedParts& parts, const std::string& name) {
  const auto found = parts.find(name);
  return found == parts.end() ? nullptr : &found->second;
}

// A published tensor's shape, and the parameters that its elements come from.
struct PublishedSource {
  struct Piece {
    std::string parameter;
    ElementRun run;  // of_whole: index in the published tensor
  };
  Shape shape;
  std::vector<Piece> pieces;
};

std::map<std::string, PublishedSource> sources_of(const std::map<std::string, Shape>& parameters,
                                                  const PublishedParts& parts) {
  std::map<std::string, PublishedSource> sources;
  for (const auto& [name, shape] : parameters) {
    if (const PublishedPart* place = part_named(parts, name)) {
      PublishedSource& source = sources[place->whole];
      source.shape = shape_of_whole(*place, shape);
      for (const ElementRun& run : runs_of(*place, shape)) source.pieces.push_back({name, run});
      continue;
    }
    for (const PublishedTensor& each : published_tensors(name, shape))
      sources[each.name] = {each.shape, {{name, {each.begin, 0, each.shape.elements()}}}};
  }
  return sources;
}

}  // namespace

std::vector<std::string> read_weights(const Safetensors& from,
                                      const std::map<std::string, Shape>& parameters,
                                      const PublishedParts& parts, const MadeParameters& others,
                                      const TakeWeights& take) {
  const std::vector<std::string> stored = from.names();
  std::set<std::string> unused(stored.begin(), stored.end());
  for (const auto& [name, shape] : parameters) {
    const auto made = others.find(name);
    take(name, shape,
         made != others.end() ? made->second()
                              : read_published(from, name, shape, part_named(parts, name), unused));
  }
  return {unused.begin(), unused.end()};
}

std::vector<std::string> import_weights(const Safetensors& from,
                                        const std::map<std::string, Shape>& parameters,
                                        const Manifest& about, const std::string& folder,
                                        const PublishedParts& parts, const MadeParameters& others) {
  Manifest manifest = about;
  manifest.imported = true;
  manifest.states = state_names(false, false, false);
  const std::string part = part_folder(folder, manifest.step);
  make_folder(part);
  ShardCollector shards(part, manifest);
  std::vector<std::string> unused =
      read_weights(from, parameters, parts, others,
                   [&](const std::string& name, const Shape& shape, std::vector<float> values) {
                     shards.add(name, shape, std::move(values));
                   });
  shards.flush();
  mark_as_imported(folder);
  commit(folder, manifest, 1);
  return unused;
}

void export_weights(const Checkpoint& from, const std::map<std::string, Shape>& parameters,
                    const std::string& file, const PublishedParts& parts, int state) {
  export_weights(
      [&](const std::string& name, const ParameterRun& run, float* to) {
        const ParameterRun from_begin{0, run.global, run.count};
        from.read(name, state, {&from_begin, 1}, to);
      },
      parameters, file, parts);
}

void export_weights(const WeightReader& read, const std::map<std::string, Shape>& parameters,
                    const std::string& file, const PublishedParts& parts) {
  const std::map<std::string, PublishedSource> sources = sources_of(parameters, parts);
  std::map<std::string, Shape> published;
  for (const auto& [name, source] : sources) published[name] = source.shape;
  const std::string header = safetensors_header(published);
  const File to = File::create(file);
  to.write(0, header.data(), static_cast<std::int64_t>(header.size()));
  auto offset = static_cast<std::int64_t>(header.size());
  std::vector<float> values, apart;
  for (const auto& [name, source] : sources) {
    const std::int64_t count = source.shape.elements();
    values.resize(count);
    for (const auto& [parameter, piece] : source.pieces) {
      float* const to_place = values.data() + piece.of_whole;
      if (piece.step == 1) {
        read(parameter, {0, piece.of_part, piece.count}, to_place);
        continue;
      }
      apart.resize(piece.count);
      read(parameter, {0, piece.of_part, piece.count}, apart.data());
      for (std::size_t i = 0; i < apart.size(); ++i)
        to_place[static_cast<std::int64_t>(i) * piece.step] = apart[i];
    }
    to.write(offset, values.data(), count * 4);
    offset += count * 4;
  }
  to.sync();
}

}  // namespace meshwright::exec
