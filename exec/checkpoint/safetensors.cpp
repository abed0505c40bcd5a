#include "exec/checkpoint/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>

#include "exec/checkpoint/scaled_weights.h"
#include "models/core/error.h"
#include "models/core/fields.h"
#include "models/core/json.h"

namespace meshwright::exec {

namespace {

constexpr std::int64_t header_limit = 100'000'000;  // bytes; the format's own limit
constexpr std::size_t most_dimensions = 32;

struct StoredType {
  std::string_view name;
  std::int64_t bytes;
  float (*value)(const char* bytes);  // null: not read without scales
};

float from_f64(const char* bytes) {
  double value = 0;
  std::memcpy(&value, bytes, sizeof value);
  return static_cast<float>(value);
}

float from_f32(const char* bytes) {
  float value = 0;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

float from_bf16(const char* bytes) {
  std::uint16_t half = 0;
  std::memcpy(&half, bytes, sizeof half);
  return std::bit_cast<float>(std::uint32_t{half} << 16);
}

float from_f16(const char* bytes) {
  std::uint16_t half = 0;
  std::memcpy(&half, bytes, sizeof half);
  const int exponent = half >> 10 & 31, fraction = half & 1023;
  const float sign = (half & 0x8000) != 0 ? -1.0F : 1.0F;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  return sign * std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
}

constexpr StoredType stored_types[] = {
    {"F64", 8, from_f64},    {"F32", 4, from_f32},    {"F16", 2, from_f16}, {"BF16", 2, from_bf16},
    {"I64", 8, nullptr},     {"U64", 8, nullptr},     {"I32", 4, nullptr},  {"U32", 4, nullptr},
    {"I16", 2, nullptr},     {"U16", 2, nullptr},     {"I8", 1, nullptr},   {"U8", 1, nullptr},
    {"F8_E4M3", 1, nullptr}, {"F8_E5M2", 1, nullptr}, {"BOOL", 1, nullptr}};

const StoredType* type_of(std::string_view name) {
  const auto found = std::find_if(std::begin(stored_types), std::end(stored_types),
                                  [&](const StoredType& type) { return type.name == name; });
  return found == std::end(stored_types) ? nullptr : found;
}

// Returns the bytes of a tensor whose elements have `each` bytes. Returns -1 if multiplying by the
// dimensions would exceed `limit`, so that nothing overflows.
std::int64_t bytes_of(const std::vector<std::int64_t>& shape, std::int64_t each,
                      std::int64_t limit) {
  std::int64_t bytes = each;
  for (std::int64_t size : shape)
    if (size == 0) return 0;
  for (std::int64_t size : shape) {
    if (size < 0 || size > limit / bytes) return -1;
    bytes *= size;
  }
  return bytes;
}

StoredTensor parse_tensor(Fields fields, std::int64_t data_bytes) {
  StoredTensor tensor;
  tensor.dtype = fields.required<std::string>("dtype");
  tensor.shape = fields.required<std::vector<std::int64_t>>("shape");
  if (tensor.shape.size() > most_dimensions) fields.fail("shape", "has too many dimensions");
  for (std::int64_t size : tensor.shape)
    if (size < 0) fields.fail("shape", fmt::format("{} is negative", size));
  const auto offsets = fields.required<std::vector<std::int64_t>>("data_offsets");
  if (offsets.size() != 2 || offsets[0] < 0 || offsets[1] < offsets[0] || offsets[1] > data_bytes)
    fields.fail("data_offsets",
                fmt::format("is not a part of the file's {} bytes of data", data_bytes));
  tensor.begin = offsets[0], tensor.end = offsets[1];
  const StoredType* type = type_of(tensor.dtype);
  if (type != nullptr &&
      bytes_of(tensor.shape, type->bytes, data_bytes) != tensor.end - tensor.begin)
    fields.fail("data_offsets",
                fmt::format("{} bytes are not those of {} elements of {}",
                            tensor.end - tensor.begin, json(tensor.shape).dump(), tensor.dtype));
  fields.done();
  return tensor;
}

// Throws InputError unless the tensors fill the data one after the other, as the format demands.
void check_no_gaps(const std::map<std::string, StoredTensor>& tensors, std::int64_t data_bytes,
                   const std::string& where) {
  std::vector<std::pair<std::int64_t, std::int64_t>> parts;
  for (const auto& [name, tensor] : tensors) parts.emplace_back(tensor.begin, tensor.end);
  std::ranges::sort(parts);
  std::int64_t next = 0;
  for (const auto& [begin, end] : parts) {
    if (begin != next) break;
    next = end;
  }
  if (next != data_bytes)
    throw InputError(fmt::format("{}: its tensors do not fill its {} bytes of data (see byte {})",
                                 where, data_bytes, next));
}

// Ends of names: first the one that this project uses, then another one that files may have
// instead, from transformers or from older files.
constexpr std::pair<std::string_view, std::string_view> spellings[] = {
    {"LayerNorm.weight", "LayerNorm.gamma"},
    {"LayerNorm.bias", "LayerNorm.beta"},
    {"cls.predictions.bias", "cls.predictions.decoder.bias"},
    {"lm_head.bias", "lm_head.decoder.bias"},
    {"embed_out.weight", "lm_head.weight"}};

}  // namespace

std::map<std::string, StoredTensor> parse_safetensors_header(std::string_view header,
                                                             std::int64_t data_bytes,
                                                             const std::string& where) {
  Fields fields(parse_json(std::string(header), where), where);
  std::map<std::string, StoredTensor> tensors;
  for (const std::string& name : fields.keys())
    if (name != "__metadata__") tensors[name] = parse_tensor(fields.object(name), data_bytes);
  check_no_gaps(tensors, data_bytes, where);
  return tensors;
}

void Safetensors::open(const std::string& path) {
  File file = File::open(path);
  const std::int64_t size = file.size();
  std::uint64_t length = 0;
  if (size < 8) throw InputError(path + ": is too short to be a safetensors file");
  file.read(0, &length, sizeof length);
  if (length > static_cast<std::uint64_t>(std::min(size - 8, header_limit)))
    throw InputError(fmt::format("{}: its header of {} bytes does not fit into the file's {} bytes",
                                 path, length, size));
  const std::int64_t begin = 8 + static_cast<std::int64_t>(length);
  for (auto& [name, tensor] : parse_safetensors_header(file.read(8, begin - 8), size - begin, path))
    if (!places_.emplace(name, Place{sources_.size(), std::move(tensor)}).second)
      throw InputError(path + ": " + name + " is in another file too");
  sources_.push_back({std::move(file), begin});
}

// Joins each tensor of few bits with its scales, which are stored as another tensor: NAME in
// F8_E4M3 with NAME_scale_inv, and NAME_blocks in MXFP4 with NAME_scales.
void Safetensors::join_scales() {
  for (const std::string& name : names()) {
    const auto place = places_.find(name);
    if (place == places_.end()) continue;  // scales that have been joined already
    if (place->second.tensor.dtype == "F8_E4M3") {
      if (auto found = places_.extract(name + "_scale_inv"); !found.empty())
        scales_[name] = found.mapped();
    } else if (name.ends_with("_blocks")) {
      join_mxfp4(name);
    }
  }
}

void Safetensors::join_mxfp4(const std::string& blocks) {
  const std::string name = blocks.substr(0, blocks.rfind('_')), scales = name + "_scales";
  const std::vector<std::int64_t> shape = places_.at(blocks).tensor.shape;
  if (!places_.contains(scales) || places_.contains(name) || shape.size() != 4 || shape[3] != 16 ||
      std::ranges::find(shape, 0) != shape.end() ||
      places_.at(scales).tensor.shape != std::vector(shape.begin(), shape.end() - 1) ||
      places_.at(scales).tensor.dtype != "U8" || places_.at(blocks).tensor.dtype != "U8")
    return;
  scales_[name] = places_.extract(scales).mapped();
  Place& joined = places_[name] = places_.extract(blocks).mapped();
  joined.tensor.dtype = "MXFP4";
  joined.tensor.shape = {shape[0], 32 * shape[2], shape[1]};
}

Safetensors::Safetensors(const std::string& path) {
  namespace fs = std::filesystem;
  const std::string single = path + "/model.safetensors", index = single + ".index.json";
  if (!fs::is_directory(path) || fs::exists(single)) {
    open(fs::is_directory(path) ? single : path);
    join_scales();
    return;
  }
  if (!fs::exists(index))
    throw InputError(path + ": has neither model.safetensors nor model.safetensors.index.json");
  Fields fields = read_json_file(index);
  Fields map = fields.object("weight_map");
  std::set<std::string> files;
  for (const std::string& name : map.keys()) {
    const auto file = map.required<std::string>(name);
    if (file.empty() || file.find('/') != std::string::npos)
      map.fail(name, "is not the name of a file in this folder");
    files.insert(file);
  }
  for (const std::string& file : files) open(path + "/" + file);
  join_scales();
}

std::string Safetensors::find(const std::string& name) const {
  std::vector<std::string> candidates{name};
  for (const auto& [known, other] : spellings)
    if (name.ends_with(known))
      candidates.push_back(name.substr(0, name.size() - known.size()) + std::string(other));
  for (const std::string& candidate : candidates) {
    if (places_.contains(candidate)) return candidate;
    const std::string shorter = candidate.substr(candidate.find('.') + 1);
    if (places_.contains(shorter)) return shorter;
    // In some models that also read images, the language model's tensors have this prefix.
    if (const std::string longer = "language_model." + candidate; places_.contains(longer))
      return longer;
  }
  return "";
}

std::vector<float> Safetensors::read(const std::string& stored_name, const Shape& shape) const {
  const Place& place = places_.at(stored_name);
  const Source& source = sources_[place.source];
  const StoredType* type = type_of(place.tensor.dtype);
  const std::vector<std::int64_t> wanted(shape.dims.begin(), shape.dims.begin() + shape.rank);
  if (place.tensor.shape != wanted)
    throw InputError(fmt::format("{}: {} is {}, the job's model has it as {}", source.file.path(),
                                 stored_name, json(place.tensor.shape).dump(),
                                 json(wanted).dump()));
  if (const auto scales = scales_.find(stored_name); scales != scales_.end())
    return read_scaled(stored_name, place, scales->second);
  if (type == nullptr || type->value == nullptr)
    throw InputError(fmt::format(
        "{}: {} is of type {}; known: F32, F16, BF16 and F64, F8_E4M3 with scales beside it "
        "(..._scale_inv), and MXFP4 (..._blocks and ..._scales)",
        source.file.path(), stored_name, place.tensor.dtype));
  const std::string bytes = bytes_of(place);
  const auto each = static_cast<std::size_t>(type->bytes);
  std::vector<float> values(bytes.size() / each);  // parse_tensor() has checked their number
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = type->value(bytes.data() + i * each);
  return values;
}

std::string Safetensors::bytes_of(const Place& place) const {
  const Source& source = sources_[place.source];
  return source.file.read(source.data_begin + place.tensor.begin,
                          place.tensor.end - place.tensor.begin);
}

std::vector<float> Safetensors::read_scaled(const std::string& name, const Place& place,
                                            const Place& scales) const {
  const std::vector<std::int64_t>& shape = place.tensor.shape;
  if (place.tensor.dtype == "MXFP4")
    return from_mxfp4(bytes_of(place), bytes_of(scales), shape[0], shape[2], shape[1] / 32);
  std::vector<std::int64_t> blocks;
  for (const std::int64_t size : shape) blocks.push_back((size + fp8_block - 1) / fp8_block);
  if (place.tensor.dtype != "F8_E4M3" || shape.size() != 2 || scales.tensor.dtype != "F32" ||
      scales.tensor.shape != blocks)
    throw InputError(fmt::format(
        "{}: {} is {} of {} with scales {} of {}; known: matrices in F8_E4M3 with a scale in F32 "
        "for each {} x {} of their elements",
        sources_[place.source].file.path(), name, json(shape).dump(), place.tensor.dtype,
        json(scales.tensor.shape).dump(), scales.tensor.dtype, fp8_block, fp8_block));
  return from_fp8_blocks(bytes_of(place), bytes_of(scales), shape[0], shape[1]);
}

std::vector<std::string> Safetensors::names() const {
  std::vector<std::string> names;
  for (const auto& [name, place] : places_) names.push_back(name);
  return names;
}

std::string safetensors_header(const std::map<std::string, Shape>& tensors) {
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  std::int64_t end = 0;
  for (const auto& [name, shape] : tensors) {
    const std::int64_t begin = end;
    end += shape.elements() * 4;
    const std::vector<std::int64_t> sizes(shape.dims.begin(), shape.dims.begin() + shape.rank);
    header[name] = {{"dtype", "F32"}, {"shape", sizes}, {"data_offsets", {begin, end}}};
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  const std::uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

}  // namespace meshwright::exec
