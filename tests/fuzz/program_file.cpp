// Fuzzes the reader of Programs in JSON (models/program/program_json.h).
#include <nlohmann/json.hpp>

#include "models/program/program_json.h"
#include "tests/fuzz/fuzz.h"

using namespace meshwright::tests;

namespace {

std::optional<std::vector<Program>> read(const std::string& text) {
  const std::string file = "programs.json";
  return fuzz::read_or_refused(file + ": ",
                               [&] { return read_programs(Fields(parse_json(text, file), file)); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto stages = read(std::string(fuzz::text_of(data, size)));
  if (!stages) return 0;
  const nlohmann::json written = to_json(*stages);
  const auto again = read(written.dump());
  MESHWRIGHT_CHECK(again && to_json(*again) == written, "Programs written are read as the same");
  return 0;
}
