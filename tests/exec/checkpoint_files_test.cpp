// Tests the formats of a checkpoint's files, whose readers must accept any bytes.
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>

#include "exec/checkpoint/file.h"
#include "exec/checkpoint/folder.h"
#include "exec/checkpoint/load.h"
#include "exec/checkpoint/manifest.h"
#include "exec/checkpoint/shard_file.h"
#include "exec/core/crc32c.h"
#include "models/core/error.h"
#include "tests/catch.h"
#include "tests/message_of.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;

namespace {

// Elements [first, first + count) of a parameter `w` of six elements, whose values are their own
// indices.
struct Part {
  std::int64_t first, count;
};

// Writes a checkpoint of one state with these pieces and returns its folder.
std::string saved_parts(const TestFolder& folder, const std::vector<Part>& parts,
                        const std::vector<std::string>& states = {"weights"}) {
  static const std::vector<float> values = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  std::vector<PieceSource> sources;
  for (const auto& [first, count] : parts) {
    PieceSource& source = sources.emplace_back();
    source.piece.name = "w";
    source.piece.shape = {2, 3};
    source.piece.runs = {{first, count, 0, 1}};
    source.parts = {{values.data() + first, count}};
  }
  std::filesystem::remove_all(step_folder(folder.path(), 1));
  make_folder(part_folder(folder.path(), 1));
  const WrittenShard written =
      write_shard(part_folder(folder.path(), 1) + "/rank-00000.shard", sources, {"weights"});
  Manifest manifest;
  manifest.step = 1;
  manifest.states = states;
  manifest.shards = {{"rank-00000.shard", written.bytes, written.header_checksum}};
  CHECK(commit(folder.path(), manifest, 1).empty());
  return step_folder(folder.path(), 1);
}

}  // namespace

TEST_CASE("a checkpoint holds each element of its parameters once", "[checkpoint]") {
  const TestFolder folder;
  const std::map<std::string, Shape> parameters = {{"w", Shape{2, 3}}};
  const auto refused = [&](const std::vector<Part>& parts) {
    const std::string place = saved_parts(folder, parts);
    const std::string said = message_of([&] { Checkpoint(place).check_holds(parameters); });
    const std::string begin =
        place + "/manifest.json: does not hold each element of w once (see element ";
    return said.starts_with(begin) ? said.substr(begin.size()) : said;
  };
  CHECK(refused({{0, 6}}) == "");
  CHECK(refused({{4, 2}, {0, 4}}) == "");
  CHECK(refused({{0, 4}}) == "4)");
  CHECK(refused({{1, 5}}) == "0)");
  CHECK(refused({{0, 2}, {3, 3}}) == "2)");
  CHECK(refused({{0, 4}, {3, 3}}) == "3)");
  CHECK(refused({{0, 6}, {0, 6}}) == "0)");
  CHECK(refused({{0, 6}, {5, 1}}) == "5)");
  const Checkpoint some(saved_parts(folder, {{1, 2}, {4, 2}}));
  float to[6] = {};
  const ParameterRun held[] = {{0, 4, 2}, {2, 1, 2}};
  some.read("w", 0, held, to);
  CHECK(std::vector<float>(to, to + 4) == std::vector<float>{4, 5, 1, 2});
  const ParameterRun all[] = {{0, 0, 6}};
  CHECK(message_of([&] {
          some.read("w", 0, all, to);
        }).ends_with("/manifest.json: holds 4 of 6 elements of w"));
  CHECK(message_of([&] {
          some.read("v", 0, all, to);
        }).ends_with("/manifest.json: holds 0 of 6 elements of v"));
  CHECK(message_of([&] {
          Checkpoint other(saved_parts(folder, {{0, 6}}, {"weights", "first_moment"}));
        }).ends_with("rank-00000.shard: holds other states than manifest.json says"));
}

TEST_CASE("data in fp64 are read in full, and in the type that is asked for", "[checkpoint]") {
  const TestFolder folder;
  const std::vector<double> values = {1.0 / 3, -2.0 / 3, 1e300, 5e-324, 4, 0.1};  // two states
  std::vector<PieceSource> sources(2);
  for (std::size_t i = 0; i < 2; ++i) {
    sources[i].piece.name = i == 0 ? "a" : "b";
    sources[i].piece.shape = {i == 0 ? 2 : 1};
    sources[i].piece.runs = {{0, sources[i].piece.shape[0], 0, 1}};
    sources[i].parts = {{values.data() + 2 * i, sources[i].piece.shape[0]}};
    sources[i].state_distance = 3;
  }
  make_folder(part_folder(folder.path(), 1));
  const std::string path = part_folder(folder.path(), 1) + "/rank-00000.shard";
  const std::vector<std::string> states = {"weights", "first_moment"};
  const WrittenShard written = write_shard(path, sources, states, Dtype::f64);
  Manifest manifest;
  manifest.step = 1;
  manifest.states = states;
  manifest.shards = {{"rank-00000.shard", written.bytes, written.header_checksum}};
  REQUIRE(commit(folder.path(), manifest, 1).empty());
  const Checkpoint found(step_folder(folder.path(), 1));
  found.check_shard(0);
  const ParameterRun both[] = {{0, 0, 2}};
  for (int state = 0; state < 2; ++state) {
    std::vector<double> exact(2);
    std::vector<float> rounded(2);
    found.read("a", state, both, exact.data());
    CHECK(exact == std::vector<double>(values.data() + 3 * state, values.data() + 3 * state + 2));
    found.read("a", state, both, rounded.data());
    CHECK(rounded == std::vector<float>(exact.begin(), exact.end()));
  }
  std::vector<double> wide(6);  // read from a file in fp32
  const ParameterRun all[] = {{0, 0, 6}};
  Checkpoint(saved_parts(folder, {{0, 6}})).read("w", 0, all, wide.data());
  CHECK(wide == std::vector<double>{0, 1, 2, 3, 4, 5});
}

TEST_CASE("CRC-32C of known texts", "[checkpoint]") {
  CHECK(crc32c("123456789") == 0xe3069283);            // the check value of the catalogue
  CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aa);  // RFC 3720, B.4
  CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43);
  const std::string text = "the quick brown fox jumps over the lazy dog";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    const std::uint32_t before = crc32c(text.data(), cut);
    CHECK(crc32c(text.data() + cut, text.size() - cut, before) == crc32c(text));
    CHECK(crc32c_by_table(text.data(), cut, 0) == before);
  }
}

TEST_CASE("a checkpoint of more shards than the usual limit of open files", "[checkpoint]") {
  const TestFolder folder;
  const std::string place = saved_parts(folder, {{0, 6}});
  Manifest manifest = read_manifest(place);
  const Manifest::ShardEntry one = manifest.shards[0];
  manifest.shards.clear();
  for (int rank = 0; rank < 60; ++rank) {
    manifest.shards.push_back({"shard" + std::to_string(rank), one.bytes, one.header_checksum});
    std::filesystem::copy_file(place + "/" + one.name, place + "/" + manifest.shards.back().name);
  }
  write_content(place + "/manifest.json", encode(manifest));
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit few{40, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
  CHECK(message_of([&] { CHECK(Checkpoint(place).shards() == 60); }) == "");
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST_CASE("a file that ends too early, is missing or is no file is damage", "[checkpoint]") {
  const TestFolder folder;
  const std::string path = folder.file("file", std::string(100, 'x'));
  const File file = File::open(path);
  CHECK(file.read(90, 10) == std::string(10, 'x'));
  CHECK_THROWS_AS(file.read(90, 11), InputError);
  CHECK(message_of([&] { file.read(90, 11); }) == path + ": ends at byte 100");
  std::filesystem::resize_file(path, 50);  // after it was opened
  char bytes[20];
  WindowReader window(file);
  window.read(20, bytes, 20);
  CHECK(message_of([&] { window.read(60, bytes, 20); }) == path + ": ends at byte 60");
  CHECK_THROWS_AS(File::open(folder.file("none")), InputError);
  CHECK_THROWS_AS(File::open(path + "/below"), InputError);
  CHECK(message_of([&] { File::open(folder.path()); }) ==
        folder.path() + ": is not a regular file");
  const std::string pipe = folder.file("pipe");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(message_of([&] { File::open(pipe); }) == pipe + ": is not a regular file");
}

TEST_CASE("runs at equal distances are one entry", "[checkpoint]") {
  std::vector<RepeatedRun> runs;
  append_run(runs, 0, 2);
  append_run(runs, 2, 2);  // follows: [0, 4)
  append_run(runs, 10, 4);
  append_run(runs, 20, 4);
  append_run(runs, 30, 3);
  REQUIRE(runs.size() == 2);
  CHECK(runs[0].first == 0);
  CHECK(runs[0].count == 4);
  CHECK(runs[0].distance == 10);
  CHECK(runs[0].times == 3);
  CHECK(runs[1].first == 30);
  CHECK(runs[1].count == 3);
}

TEST_CASE("hostile headers are refused with their place", "[checkpoint]") {
  const auto header = [](const std::string& json) {
    const std::uint64_t length = json.size();
    return "MWSHARD1" + std::string(reinterpret_cast<const char*>(&length), 8) + json;
  };
  const auto refused = [&](const std::string& bytes, std::int64_t more = 1000) {
    return message_of(
        [&] { parse_shard_header(bytes, static_cast<std::int64_t>(bytes.size()) + more, "f"); });
  };
  const auto entry = [](const std::string& shape, const std::string& runs,
                        const std::string& offset) {
    return R"({"name": "w", "shape": )" + shape + R"(, "runs": )" + runs + R"(, "offset": )" +
           offset + R"(, "crc32c": ["00000000"]})";
  };
  const auto pieces = [&](const std::string& list, std::int64_t data_bytes) {
    return refused(header(R"({"format": 1, "states": ["weights"], "pieces": [)" + list + "]}"),
                   data_bytes);
  };
  const auto piece = [&](const std::string& shape, const std::string& runs,
                         const std::string& offset = "0", std::int64_t data_bytes = 24) {
    return pieces(entry(shape, runs, offset), data_bytes);
  };
  CHECK(piece("[2, 3]", "[0, 6, 0, 1]") == "");
  CHECK(piece("[2, 3]", "[0, 1, 2, 3]", "0", 12) == "");
  // Pieces must describe exactly what the file holds: they follow one another and fill the file.
  const std::string three = entry("[2, 3]", "[0, 1, 2, 3]", "0");
  CHECK(pieces(three + "," + entry("[2, 3]", "[1, 1, 2, 3]", "12"), 24) == "");
  for (const std::string offset : {"0", "8", "16"})
    CHECK(pieces(three + "," + entry("[2, 3]", "[1, 1, 2, 3]", offset), 24) ==
          "f: /pieces/1/offset: expected 12, where the piece before ends");
  CHECK(pieces(three, 16) == "f: /pieces: hold 12 bytes, but the file has 16 bytes of data");
  CHECK(pieces("", 4) == "f: /pieces: hold 0 bytes, but the file has 4 bytes of data");
  for (const std::int64_t less : {0, 8, 23})
    CHECK(piece("[2, 3]", "[0, 6, 0, 1]", "0", less) ==
          "f: /pieces/0/runs: 24 bytes from 0 on are not within the " + std::to_string(less) +
              " bytes of data");
  CHECK(refused("") == "f: ends at byte 1000");
  CHECK(refused("MWSHARD2" + std::string(8, '\0')) ==
        "f: is not a file of a checkpoint (its first bytes are others)");
  CHECK(refused("MWSHARD1" + std::string(8, '\xff')).find("does not fit into the file's 1016") !=
        std::string::npos);
  CHECK(refused("MWSHARD1" + std::string(1, '\x7f') + std::string(7, '\0')) ==
        "f: ends within its header");
  CHECK(refused(header("{")).find("f: ") == 0);
  CHECK(refused(header("[]")).find("f: ") == 0);
  CHECK(refused(header(R"({"format": 2})")).find("f: /format: 2 is not known") == 0);
  const std::string within = "f: /pieces/0/runs: run 0 is not within the 6 elements";
  for (const std::string runs :
       {"[0, 7, 0, 1]", "[6, 1, 0, 1]", "[-1, 2, 0, 1]", "[0, 0, 0, 1]", "[0, 1, 1, 0]",
        "[0, 2, 1, 2]", "[0, 1, 2, 4]", "[0, 9223372036854775807, 0, 1]",
        "[9223372036854775807, 1, 0, 1]", "[0, 1, 9223372036854775807, 2]",
        "[0, 1, 1, 9223372036854775807]"})
    CHECK(piece("[2, 3]", runs) == within);
  CHECK(piece("[2, 3]", "[0, 6, 0, 1, 0, 6, 0, 1]") == "f: /pieces/0/runs: more than 6 elements");
  CHECK(piece("[2, 3]", "[0, 6, 0]") == "f: /pieces/0/runs: expected four numbers for each run");
  for (const std::string shape : {"[]", "[0]", "[-2, 3]", "[1, 1, 1, 1, 6]",
                                  "[9223372036854775807, 2]", "[4294967296, 4294967296]"})
    CHECK(piece(shape, "[0, 6, 0, 1]") == "f: /pieces/0/shape: is not the shape of a parameter");
  for (const std::string offset : {"-4", "2", "4", "9223372036854775804"})
    CHECK(piece("[2, 3]", "[0, 6, 0, 1]", offset) ==
          "f: /pieces/0/offset: expected 0, where the piece before ends");
}

TEST_CASE("the counts of a manifest are whole, or refused", "[checkpoint]") {
  Manifest manifest;
  manifest.states = {"weights"};
  const auto refused = [&](std::int64_t step, std::int64_t position, std::int64_t updates,
                           std::int64_t bytes) {
    manifest.step = step, manifest.position = position, manifest.updates = updates;
    manifest.shards = {{"rank-00000.shard", bytes, 0}};
    return message_of([&] {
      const Manifest back = parse_manifest(encode(manifest), "m");
      CHECK(back.step == step);
      CHECK(back.position == position);
      CHECK(back.updates == updates);
      CHECK(back.shards[0].bytes == bytes);
    });
  };
  constexpr std::int64_t most = std::int64_t{1} << 53;
  for (const std::int64_t good :
       {std::int64_t{0}, std::int64_t{1} << 31, (std::int64_t{1} << 32) + 2, most})
    CHECK(refused(good, good, good, good) == "");
  for (const std::int64_t bad : {std::int64_t{-1}, most + 1, INT64_MAX, INT64_MIN}) {
    const std::string what = std::to_string(bad) + " is not a count from 0 to 2^53";
    CHECK(refused(bad, 0, 0, 0) == "m: /step: " + what);
    CHECK(refused(0, bad, 0, 0) == "m: /position: " + what);
    CHECK(refused(0, 0, bad, 0) == "m: /updates: " + what);
    CHECK(refused(0, 0, 0, bad) == "m: /shards/0/bytes: " + what);
  }
  CHECK(refused(3, 0, 4, 0) == "m: /updates: 4 are more than the 3 steps");
  CHECK(refused(4, 0, 3, 0) == "");
  manifest.seed = INT64_MAX;
  CHECK(parse_manifest(encode(manifest), "m").seed == INT64_MAX);
}

TEST_CASE("hostile manifests are refused with their place", "[checkpoint]") {
  Manifest manifest;
  manifest.run = "r";
  manifest.numbers["loss_scale"] = 65536;
  manifest.made_with["training.global_batch"] = "8";
  manifest.base = "step-00000000";
  manifest.base_checksum = 0x89abcdef;
  manifest.imported = true;
  manifest.states = {"weights"};
  manifest.shards = {{"rank-00000.shard", 12, 34}};
  const std::string good = encode(manifest);
  const Manifest back = parse_manifest(good, "m");
  CHECK(back.shards[0].header_checksum == 34);
  CHECK(back.numbers.at("loss_scale") == 65536);
  CHECK(back.made_with == manifest.made_with);
  CHECK(back.base_checksum == manifest.base_checksum);
  CHECK(back.imported);
  for (std::size_t cut = 0; cut < good.size(); ++cut)
    CHECK(message_of([&] { parse_manifest(good.substr(0, cut), "m"); }).find("m: ") == 0);
  const auto with_sum = [](std::string json) {
    return json + "crc32c " + hex8(crc32c(json)) + "\n";
  };
  CHECK(message_of([&] { parse_manifest(with_sum("{}\n"), "m"); }).find("m: /format: ") == 0);
  manifest.run = "../r";
  CHECK(message_of([&] { parse_manifest(encode(manifest), "m"); }) ==
        "m: /run: expected lower-case letters and digits");
  manifest.run = "r";
  for (const std::string& name :
       {std::string("../other"), std::string(".hidden"), std::string(), std::string(256, 'a')}) {
    manifest.shards[0].name = name;
    CHECK(message_of([&] { parse_manifest(encode(manifest), "m"); }) ==
          "m: /shards/0/name: is not the name of a file in this folder");
  }
  manifest.shards = {{"one", 12, 34}, {"two", 12, 34}, {"one", 12, 34}};
  CHECK(message_of([&] { parse_manifest(encode(manifest), "m"); }) ==
        "m: /shards/2/name: one is given twice");
}
