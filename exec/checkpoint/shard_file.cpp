#include "exec/checkpoint/shard_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "exec/core/crc32c.h"
#include "models/core/error.h"
#include "models/core/fields.h"
#include "models/core/json.h"

namespace meshwright::exec {

static_assert(std::endian::native == std::endian::little, "the data are little-endian");

namespace {

constexpr std::string_view magic = "MWSHARD1";
constexpr std::int64_t shard_header_limit = 256 << 20;  // bytes
constexpr std::int64_t element_limit = std::int64_t{1} << 48;
constexpr std::size_t data_alignment = 64;
constexpr std::int64_t block_bytes = 1 << 20;

// Returns the number of elements of a shape, or -1 if a size is below 1 or the elements are more
// than `element_limit`.
std::int64_t checked_elements(const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (std::int64_t size : shape) {
    if (size < 1 || size > element_limit / elements) return -1;
    elements *= size;
  }
  return elements;
}

bool lies_within(const RepeatedRun& run, std::int64_t elements) {
  if (run.first < 0 || run.count < 1 || run.times < 1 || run.distance < 0) return false;
  if (run.first > elements || run.count > elements - run.first) return false;
  if (run.times == 1) return true;
  if (run.distance < run.count) return false;  // runs of one pattern do not overlap
  const std::int64_t room = elements - run.first - run.count;
  return run.times - 1 <= room / run.distance;
}

std::vector<RepeatedRun> parse_runs(Fields& fields, std::int64_t elements) {
  const auto numbers = fields.required<std::vector<std::int64_t>>("runs");
  if (numbers.empty() || numbers.size() % 4 != 0)
    fields.fail("runs", "expected four numbers for each run");
  std::vector<RepeatedRun> runs;
  for (std::size_t i = 0; i < numbers.size(); i += 4) {
    runs.push_back({numbers[i], numbers[i + 1], numbers[i + 2], numbers[i + 3]});
    if (!lies_within(runs.back(), elements))
      fields.fail("runs", fmt::format("run {} is not within the {} elements", i / 4, elements));
  }
  return runs;
}

// Reads one piece of the header. `begin` is the byte of the data at which the previous piece ends
// and this one must begin.
Piece parse_piece(Fields& fields, std::size_t states, Dtype type, std::int64_t begin,
                  std::int64_t data_bytes) {
  Piece piece;
  piece.name = fields.required<std::string>("name");
  const auto shape = fields.required<std::vector<std::int64_t>>("shape");
  const std::int64_t elements = checked_elements(shape);
  if (shape.empty() || shape.size() > piece.shape.dims.size() || elements < 0)
    fields.fail("shape", "is not the shape of a parameter");
  for (std::int64_t size : shape) piece.shape[piece.shape.rank++] = size;
  piece.runs = parse_runs(fields, elements);
  piece.offset = fields.required<std::int64_t>("offset");
  std::int64_t held = 0;
  for (const RepeatedRun& run : piece.runs) {
    held += run.count * run.times;  // each at most `elements`
    if (held > elements) fields.fail("runs", fmt::format("more than {} elements", elements));
  }
  const std::int64_t bytes = bytes_of(held, type) * static_cast<std::int64_t>(states);
  if (piece.offset != begin)
    fields.fail("offset", fmt::format("expected {}, where the piece before ends", begin));
  if (bytes > data_bytes - begin)
    fields.fail("runs", fmt::format("{} bytes from {} on are not within the {} bytes of data",
                                    bytes, begin, data_bytes));
  for (const std::string& text : fields.required<std::vector<std::string>>("crc32c"))
    if (!parse_hex8(text, piece.checksums.emplace_back()))
      fields.fail("crc32c", "expected eight hexadecimal digits");
  if (piece.checksums.size() != states)
    fields.fail("crc32c", fmt::format("expected {} checksums", states));
  fields.done();
  return piece;
}

json to_json(const Piece& piece) {
  json shape = json::array(), runs = shape, checksums = shape;
  for (int dim = 0; dim < piece.shape.rank; ++dim) shape.push_back(piece.shape[dim]);
  for (const RepeatedRun& run : piece.runs)
    for (std::int64_t number : {run.first, run.count, run.distance, run.times})
      runs.push_back(number);
  for (std::uint32_t checksum : piece.checksums) checksums.push_back(hex8(checksum));
  return {{"name", piece.name},
          {"shape", shape},
          {"runs", runs},
          {"offset", piece.offset},
          {"crc32c", checksums}};
}

// Writes one state of a piece to the file from byte `offset` on. Returns the checksum of its data.
std::uint32_t write_state(const File& file, const PieceSource& source, int state, Dtype type,
                          std::int64_t offset) {
  std::uint32_t checksum = 0;
  for (const PieceSource::Part& part : source.parts) {
    const auto* data =
        static_cast<const char*>(part.data) + bytes_of(state * source.state_distance, type);
    for (std::int64_t left = bytes_of(part.count, type); left > 0;) {
      const std::int64_t bytes = std::min(left, block_bytes);
      checksum = crc32c(data, bytes, checksum);
      file.write(offset, data, bytes);
      offset += bytes, data += bytes, left -= bytes;
    }
  }
  return checksum;
}

}  // namespace

const std::vector<std::string>& state_names() {
  static const std::vector<std::string> names = {"weights", "first_moment", "second_moment",
                                                 std::string(average_state)};
  return names;
}

std::vector<std::string> state_names(bool first_moment, bool second_moment, bool average) {
  const bool kept[] = {true, first_moment, second_moment, average};
  std::vector<std::string> names;
  for (std::size_t i = 0; i < std::size(kept); ++i)
    if (kept[i]) names.push_back(state_names()[i]);
  return names;
}

int index_of_state(const std::vector<std::string>& states, std::string_view name) {
  const auto found = std::ranges::find(states, name);
  return found == states.end() ? -1 : static_cast<int>(found - states.begin());
}

std::int64_t Piece::elements() const {
  std::int64_t sum = 0;
  for (const RepeatedRun& run : runs) sum += run.count * run.times;
  return sum;
}

void append_run(std::vector<RepeatedRun>& runs, std::int64_t first, std::int64_t count) {
  if (!runs.empty()) {
    RepeatedRun& last = runs.back();
    if (last.times == 1 && last.first + last.count == first) {
      last.count += count;
      return;
    }
    const std::int64_t distance = first - (last.first + (last.times - 1) * last.distance);
    const bool continues = last.times == 1 ? distance > last.count : distance == last.distance;
    if (last.count == count && continues) {
      last.distance = distance;
      ++last.times;
      return;
    }
  }
  runs.push_back({first, count, 0, 1});
}

std::string encode(const ShardHeader& header) {
  json pieces = json::array();
  for (const Piece& piece : header.pieces) pieces.push_back(to_json(piece));
  json fields = {{"format", 1}, {"states", header.states}, {"pieces", pieces}};
  if (header.type == Dtype::f64) fields["type"] = "fp64";
  std::string text = fields.dump();
  const std::size_t unpadded = static_cast<std::size_t>(shard_preamble_bytes) + text.size();
  text.append((data_alignment - unpadded % data_alignment) % data_alignment, ' ');
  const std::uint64_t length = text.size();
  std::string all(magic);
  all.append(reinterpret_cast<const char*>(&length), sizeof length);
  return all + text;
}

std::int64_t shard_header_bytes(std::string_view preamble, std::int64_t file_bytes,
                                const std::string& where) {
  if (preamble.size() < static_cast<std::size_t>(shard_preamble_bytes))
    throw InputError(where + ": ends at byte " + std::to_string(file_bytes));
  if (preamble.substr(0, magic.size()) != magic)
    throw InputError(where + ": is not a file of a checkpoint (its first bytes are others)");
  std::uint64_t length = 0;
  std::memcpy(&length, preamble.data() + magic.size(), sizeof length);
  const auto room = static_cast<std::uint64_t>(
      std::clamp<std::int64_t>(file_bytes - shard_preamble_bytes, 0, shard_header_limit));
  if (length > room)
    throw InputError(fmt::format("{}: its header of {} bytes does not fit into the file's {}",
                                 where, length, file_bytes));
  return shard_preamble_bytes + static_cast<std::int64_t>(length);
}

ShardHeader parse_shard_header(std::string_view begin, std::int64_t file_bytes,
                               const std::string& where) {
  ShardHeader header;
  header.data_begin = shard_header_bytes(begin, file_bytes, where);
  const auto bytes = static_cast<std::size_t>(header.data_begin);
  if (begin.size() < bytes) throw InputError(where + ": ends within its header");
  header.checksum = crc32c(begin.substr(0, bytes));
  constexpr auto preamble = static_cast<std::size_t>(shard_preamble_bytes);
  Fields fields(parse_json(std::string(begin.substr(preamble, bytes - preamble)), where), where);
  if (const auto format = fields.required<std::int64_t>("format"); format != 1)
    fields.fail("format", fmt::format("{} is not known here; known: 1", format));
  header.states = fields.required<std::vector<std::string>>("states");
  const auto has = [&](std::string_view name) { return index_of_state(header.states, name) >= 0; };
  if (header.states != state_names(has("first_moment"), has("second_moment"), has(average_state)))
    fields.fail("states",
                "expected weights, and perhaps first_moment, second_moment and average, in this "
                "order");
  if (const auto type = fields.optional<std::string>("type", "fp32"); type == "fp64")
    header.type = Dtype::f64;
  else if (type != "fp32")
    fields.fail("type", "'" + type + "' is not known here; known: fp32 and fp64");
  const std::int64_t data_bytes = file_bytes - header.data_begin;
  const auto states = static_cast<std::int64_t>(header.states.size());
  std::int64_t end = 0;
  for (Fields& piece : fields.objects("pieces")) {
    header.pieces.push_back(parse_piece(piece, header.states.size(), header.type, end, data_bytes));
    end += bytes_of(header.pieces.back().elements(), header.type) * states;
  }
  if (end != data_bytes)
    fields.fail("pieces",
                fmt::format("hold {} bytes, but the file has {} bytes of data", end, data_bytes));
  fields.done();
  return header;
}

ShardHeader read_shard_header(const File& file) {
  const std::int64_t size = file.size();
  const std::string preamble = file.read(0, std::min(size, shard_preamble_bytes));
  const std::int64_t bytes = shard_header_bytes(preamble, size, file.path());
  return parse_shard_header(file.read(0, bytes), size, file.path());
}

WrittenShard write_shard(const std::string& path, std::span<const PieceSource> pieces,
                         const std::vector<std::string>& state_names, Dtype type) {
  ShardHeader header;
  header.states = state_names;
  header.type = type;
  const auto states = static_cast<int>(state_names.size());
  std::int64_t end = 0;
  for (const PieceSource& source : pieces) {
    Piece& piece = header.pieces.emplace_back(source.piece);
    piece.offset = end;
    piece.checksums.assign(states, 0);
    end += bytes_of(piece.elements(), type) * states;
  }
  const auto data_begin = static_cast<std::int64_t>(encode(header).size());
  const File file = File::create(path);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    Piece& piece = header.pieces[i];
    const std::int64_t bytes = bytes_of(piece.elements(), type);
    for (int state = 0; state < states; ++state)
      piece.checksums[state] =
          write_state(file, pieces[i], state, type, data_begin + piece.offset + state * bytes);
  }
  const std::string begin = encode(header);
  file.write(0, begin.data(), data_begin);
  file.sync();
  return {data_begin + end, crc32c(begin)};
}

void check_data(const File& file, const ShardHeader& header) {
  std::string block(block_bytes, '\0');
  for (const Piece& piece : header.pieces) {
    std::int64_t offset = header.data_begin + piece.offset;
    for (std::size_t state = 0; state < header.states.size(); ++state) {
      std::uint32_t checksum = 0;
      for (std::int64_t left = bytes_of(piece.elements(), header.type); left > 0;) {
        const std::int64_t bytes = std::min(left, block_bytes);
        file.read(offset, block.data(), bytes);
        checksum = crc32c(block.data(), bytes, checksum);
        offset += bytes, left -= bytes;
      }
      if (checksum != piece.checksums[state])
        throw InputError(fmt::format(
            "{}: the {} of {} are not what was written (CRC-32C {}, not {})", file.path(),
            header.states[state], piece.name, hex8(checksum), hex8(piece.checksums[state])));
    }
  }
}

}  // namespace meshwright::exec
