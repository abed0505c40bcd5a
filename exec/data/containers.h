// Files that hold text or tokens inside a format of their own, which nothing here unpacks.
#pragma once

#include <string>
#include <string_view>

namespace meshwright {

// An InputError that names the file, its format and how to get at what it holds, where it begins as
// files of Parquet, Arrow, NumPy, ZIP or Zstandard do. These marks are of four bytes or more, which
// tokens hardly are by chance.
void refuse_container(std::string_view begin, const std::string& path);

}  // namespace meshwright
