#include "exec/data/containers.h"

#include "models/core/error.h"

namespace meshwright::exec {

namespace {

struct Container {
  std::string_view begin, name, remedy;
  std::string_view at_8 = {};  // the bytes from offset 8 on
};
using namespace std::string_view_literals;
constexpr std::string_view as_lines =
    "write its text as JSON lines, and `meshwright tokenize` them into a token file";
constexpr Container containers[] = {
    {"PAR1"sv, "a Parquet file", as_lines},
    {"ARROW1"sv, "an Arrow file", as_lines},
    // The length of the first message's metadata lies between the two.
    {"\xff\xff\xff\xff"sv, "an Arrow stream", as_lines, "\x10\0\0\0"sv},
    {"\x93NUMPY"sv, "a NumPy file with a header", "write its numbers alone (numpy's `tofile`)"},
    {"PK\x03\x04"sv, "a ZIP archive", "unpack it"},
    {"\x28\xb5\x2f\xfd"sv, "compressed by Zstandard", "unpack it"},
};

}  // namespace

void refuse_container(std::string_view begin, const std::string& path) {
  for (const Container& each : containers)
    if (begin.starts_with(each.begin) &&
        (each.at_8.empty() || (begin.size() > 8 && begin.substr(8).starts_with(each.at_8))))
      throw InputError(path + ": is " + std::string(each.name) + ", which is not read; " +
                       std::string(each.remedy));
}

}  // namespace meshwright::exec
