#include "exec/checkpoint/manifest.h"

#include <fmt/format.h>

#include <set>

#include "exec/checkpoint/file.h"
#include "exec/core/crc32c.h"
#include "models/core/error.h"
#include "models/core/fields.h"
#include "models/core/json.h"

namespace meshwright::exec {

namespace {

constexpr std::string_view last_line = "crc32c ";
constexpr std::int64_t limit = 64 << 20;                 // bytes of a manifest
constexpr std::int64_t largest = std::int64_t{1} << 53;  // count; doubles are exact so far
constexpr std::size_t longest_name = 255;                // bytes in the name of a file

std::int64_t count(Fields& fields, std::string_view key) {
  const auto value = fields.required<std::int64_t>(key);
  if (value < 0 || value > largest)
    fields.fail(key, fmt::format("{} is not a count from 0 to 2^53", value));
  return value;
}

std::uint64_t seed(Fields& fields) {
  const auto value = fields.required<std::int64_t>("seed");
  if (value < 0) fields.fail("seed", fmt::format("{} is negative", value));
  return static_cast<std::uint64_t>(value);
}

std::string name_of_file(Fields& fields, std::string_view key, const char* where) {
  auto name = fields.required<std::string>(key);
  if (name.empty() || name.size() > longest_name || name[0] == '.' ||
      name.find('/') != std::string::npos)
    fields.fail(key, fmt::format("is not the name of a file {} this folder", where));
  return name;
}

std::uint32_t checksum(Fields& fields, std::string_view key) {
  std::uint32_t value = 0;
  if (!parse_hex8(fields.required<std::string>(key), value))
    fields.fail(key, "expected eight hexadecimal digits");
  return value;
}

Manifest::ShardEntry parse_shard(Fields& fields) {
  Manifest::ShardEntry entry;
  entry.name = name_of_file(fields, "name", "in");
  entry.bytes = count(fields, "bytes");
  entry.header_checksum = checksum(fields, "header_crc32c");
  fields.done();
  return entry;
}

// Returns the text without its last line. Throws InputError if that line is not the checksum of the
// lines before it.
std::string_view checked(std::string_view text, const std::string& where) {
  const std::size_t line = last_line.size() + 8 + 1;
  std::uint32_t expected = 0;
  if (text.size() <= line || text.back() != '\n' ||
      text.substr(text.size() - line, last_line.size()) != last_line ||
      !parse_hex8(text.substr(text.size() - 9, 8), expected))
    throw InputError(where + ": is cut short (its last line is not its checksum)");
  text.remove_suffix(line);
  if (crc32c(text) != expected)
    throw InputError(fmt::format("{}: is not what was written (CRC-32C {}, not {})", where,
                                 hex8(crc32c(text)), hex8(expected)));
  return text;
}

}  // namespace

std::string encode(const Manifest& manifest) {
  json shards = json::array();
  for (const Manifest::ShardEntry& shard : manifest.shards)
    shards.push_back({{"name", shard.name},
                      {"bytes", shard.bytes},
                      {"header_crc32c", hex8(shard.header_checksum)}});
  json value = {{"format", 1},
                {"run", manifest.run},
                {"step", manifest.step},
                {"position", manifest.position},
                {"updates", manifest.updates},
                {"seed", manifest.seed},
                {"loss", manifest.loss},
                {"optimizer", manifest.optimizer},
                {"model", manifest.model},
                {"degrees", manifest.degrees},
                {"made_with", manifest.made_with},
                {"numbers", manifest.numbers},
                {"histories", manifest.histories},
                {"states", manifest.states},
                {"shards", shards}};
  if (!manifest.base.empty()) value["base"] = manifest.base;
  if (manifest.base_checksum != 0) value["base_crc32c"] = hex8(manifest.base_checksum);
  if (manifest.imported) value["imported"] = true;
  if (manifest.best_step >= 0)
    value["best"] = {{"step", manifest.best_step}, {"evaluation_loss", manifest.best_loss}};
  const std::string text = value.dump(1) + "\n";
  return text + std::string(last_line) + hex8(crc32c(text)) + "\n";
}

Manifest parse_manifest(std::string_view text, const std::string& where) {
  Fields fields(parse_json(std::string(checked(text, where)), where), where);
  if (const auto format = fields.required<std::int64_t>("format"); format != 1)
    fields.fail("format", fmt::format("{} is not known here; known: 1", format));
  Manifest manifest;
  manifest.run = fields.required<std::string>("run");
  // The run's identity becomes part of a folder's name.
  for (char c : manifest.run)
    if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9'))
      fields.fail("run", "expected lower-case letters and digits");
  manifest.step = count(fields, "step");
  manifest.position = count(fields, "position");
  manifest.updates = count(fields, "updates");
  if (manifest.updates > manifest.step)
    fields.fail("updates",
                fmt::format("{} are more than the {} steps", manifest.updates, manifest.step));
  manifest.seed = seed(fields);
  manifest.loss = fields.required<double>("loss");
  manifest.optimizer = fields.required<std::string>("optimizer");
  manifest.model = fields.required<std::string>("model");
  manifest.degrees = fields.required<std::string>("degrees");
  if (fields.has("made_with")) {  // older manifests lack it
    Fields made_with = fields.object("made_with");
    for (const std::string& key : made_with.keys())
      manifest.made_with[key] = made_with.required<std::string>(key);
  }
  Fields numbers = fields.object("numbers");
  for (const std::string& key : numbers.keys())
    manifest.numbers[key] = numbers.required<double>(key);
  if (fields.has("histories")) {  // older manifests lack it
    Fields histories = fields.object("histories");
    for (const std::string& key : histories.keys())
      manifest.histories[key] = histories.required<std::vector<double>>(key);
  }
  manifest.states = fields.required<std::vector<std::string>>("states");
  if (fields.has("base")) manifest.base = name_of_file(fields, "base", "beside");
  if (fields.has("base_crc32c")) manifest.base_checksum = checksum(fields, "base_crc32c");
  manifest.imported = fields.optional<bool>("imported", false);
  if (fields.has("best")) {
    Fields best = fields.object("best");
    manifest.best_step = count(best, "step");
    manifest.best_loss = best.required<double>("evaluation_loss");
    best.done();
    if (manifest.best_step > manifest.step) best.fail("step", "comes after this checkpoint's");
  }
  std::set<std::string> names;
  for (Fields& shard : fields.objects("shards")) {
    manifest.shards.push_back(parse_shard(shard));
    if (!names.insert(manifest.shards.back().name).second)
      shard.fail("name", manifest.shards.back().name + " is given twice");
  }
  fields.done();
  return manifest;
}

Manifest read_manifest(const std::string& folder) {
  const File file = File::open(folder + "/manifest.json");
  const std::int64_t bytes = file.size();
  if (bytes > limit) throw InputError(file.path() + ": is too large to be a manifest");
  return parse_manifest(file.read(0, bytes), file.path());
}

}  // namespace meshwright::exec
