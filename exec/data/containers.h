// Recognizes files that hold text or tokens inside another format, which this program does not
// unpack.
#pragma once

#include <string>
#include <string_view>

namespace meshwright::exec {

// The number of bytes that tell the formats apart.
constexpr int container_mark_bytes = 12;

// Throws InputError if `begin`, the first bytes of a file, are those of a Parquet, Arrow, NumPy,
// ZIP or Zstandard file. The error names the file, its format, and how to get at its contents.
// These marks have four bytes or more, so tokens hardly look like one by chance.
void refuse_container(std::string_view begin, const std::string& path);

}  // namespace meshwright::exec
