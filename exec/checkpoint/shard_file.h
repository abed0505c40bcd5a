// One rank's file of a checkpoint (`rank-00003.shard`): "MWSHARD1", the header's length (8 bytes,
// little-endian), the header (JSON, padded with blanks), the data (little-endian).
//
// The data are fp32, or fp64 if the header has "type": "fp64".
//
//   {"format": 1, "states": ["weights", "first_moment", "second_moment", "average"], "pieces": [
//     {"name": "transformer.h.0.mlp.c_fc.weight", "shape": [768, 3072],
//      "runs": [0, 1536, 3072, 768], "offset": 0, "crc32c": ["0123abcd", ...]}]}
//
// A piece is a part of one whole parameter (unsplit, unpadded). `runs` is a list of (first element,
// elements, distance, repetitions). The data are those elements in this order, state after state,
// from byte `offset` of the data on. Pieces follow one another and fill the file, so what a header
// can claim is bounded by the file's size. For a matrix that Adafactor updates, the second moments
// are the factors of its rows, then those of its columns, then zeros.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exec/checkpoint/file.h"
#include "models/program/graph/tensor_type.h"

namespace meshwright::exec {

struct RepeatedRun {
  std::int64_t first = 0, count = 0, distance = 0, times = 1;
};

struct Piece {
  std::string name;
  Shape shape;  // the whole parameter's
  std::vector<RepeatedRun> runs;
  std::int64_t offset = 0;
  std::vector<std::uint32_t> checksums;  // by state

  std::int64_t elements() const;  // in one state
};

struct ShardHeader {
  std::vector<std::string> states;
  std::vector<Piece> pieces;
  Dtype type = Dtype::f32;      // the data's type: f32 or f64
  std::int64_t data_begin = 0;  // in the file
  std::uint32_t checksum = 0;   // CRC-32C of everything before the data
};

// Return the names of states in the order in which shards store them: weights, first_moment,
// second_moment, average. The first function returns all of them, the second one the weights and
// the states whose flag is set.
const std::vector<std::string>& state_names();
std::vector<std::string> state_names(bool first_moment, bool second_moment, bool average);
int index_of_state(const std::vector<std::string>& states, std::string_view name);  // -1: not there
inline constexpr std::string_view average_state = "average";

// Appends elements [first, first + count) to `runs`. Joins them with the last run if they directly
// follow it and it is not repeated, or if they repeat it at the same distance.
void append_run(std::vector<RepeatedRun>& runs, std::int64_t first, std::int64_t count);

// Returns everything that precedes the data. Its length does not depend on the values of the
// checksums.
std::string encode(const ShardHeader& header);

// Returns the header of a shard. Accepts any bytes. Throws InputError `where: what is wrong` if
// they are not a valid header. `begin` holds the file's first bytes, at least shard_header_bytes()
// of them if the file is that long.
ShardHeader parse_shard_header(std::string_view begin, std::int64_t file_bytes,
                               const std::string& where);
constexpr std::int64_t shard_preamble_bytes = 16;
// Returns the number of bytes before the data, according to the first 16 bytes. Throws InputError
// if these are invalid.
std::int64_t shard_header_bytes(std::string_view preamble, std::int64_t file_bytes,
                                const std::string& where);
ShardHeader read_shard_header(const File& file);

// The memory that holds the data of a piece. Its parts follow each other in the file.
struct PieceSource {
  struct Part {
    const void* data = nullptr;  // the first state's data
    std::int64_t count = 0;
  };
  Piece piece;  // offset and checksums are filled in by the writer
  std::vector<Part> parts;
  std::int64_t state_distance = 0;  // elements from a state to the next one
};

struct WrittenShard {
  std::int64_t bytes = 0;
  std::uint32_t header_checksum = 0;
};

// Writes the file, whose data have this type in memory too, and forces it to the disk. Throws
// RunError if that fails.
WrittenShard write_shard(const std::string& path, std::span<const PieceSource> pieces,
                         const std::vector<std::string>& state_names, Dtype type = Dtype::f32);

// Reads all data. Throws an InputError that names the piece if a checksum differs.
void check_data(const File& file, const ShardHeader& header);

}  // namespace meshwright::exec
