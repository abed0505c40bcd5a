// Reads NAME.idx of Megatron-LM's indexed datasets (IndexedDataset, version 1). All numbers are
// little-endian. After the magic word it holds the version (64 bits), the type of the tokens (8),
// and the numbers of sequences and of documents (64 each). Then come each sequence's number of
// tokens (32 bits each), each sequence's first byte in NAME.bin (64), and each document's first
// sequence (64). The tokens of NAME.bin are read as one stream, in the file's order.
#pragma once

#include <cstdint>
#include <string>

namespace meshwright::exec {

std::string megatron_name(const std::string& path);  // without .bin or .idx

// Returns the bytes of a token: 1, 2 or 4. Throws an InputError that names the index if it is
// missing, damaged, of another type, or for a file of another size than `bin_bytes`.
int megatron_width(const std::string& index, std::int64_t bin_bytes);

}  // namespace meshwright::exec
