#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "exec/data/images.h"
#include "exec/data/loader.h"
#include "exec/data/mixture.h"
#include "models/core/error.h"
#include "models/job/job.h"
#include "models/program/graph/attributes.h"
#include "tests/catch.h"
#include "tests/message_of.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;

namespace {

std::string uint16_text(const std::vector<int>& tokens) {
  std::string text;
  for (int token : tokens) text += {static_cast<char>(token & 255), static_cast<char>(token >> 8)};
  return text;
}

std::string llmc_header(int version, int tokens) {
  std::string text(1024, '\0');
  const int fields[] = {20240520, version, tokens};
  for (int f = 0; f < 3; ++f)
    for (int byte = 0; byte < 4; ++byte)
      text[static_cast<std::size_t>(4 * f + byte)] = static_cast<char>(fields[f] >> (8 * byte));
  return text;
}

std::string little_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i));
  return text;
}

// Returns an index of Megatron-LM for documents with these numbers of tokens, one sequence each.
std::string megatron_index(unsigned type, int width, const std::vector<int>& documents) {
  std::string sizes, begins, firsts;
  std::uint64_t begin = 0;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    sizes += little_endian(static_cast<std::uint64_t>(documents[i]), 4);
    begins += little_endian(begin, 8);
    firsts += little_endian(i, 8);
    begin += static_cast<std::uint64_t>(documents[i] * width);
  }
  firsts += little_endian(documents.size(), 8);
  return std::string("MMIDIDX\0\0", 9) + little_endian(1, 8) + little_endian(type, 1) +
         little_endian(documents.size(), 8) + little_endian(documents.size() + 1, 8) + sizes +
         begins + firsts;
}

std::string refusal(const std::string& path, TokenFormat format, std::int64_t vocabulary) {
  try {
    TokenFile file(path, format, vocabulary);
  } catch (const InputError& error) {
    const std::string text = error.what();
    return text.starts_with(path + ": ") ? text.substr(path.size() + 2) : "no file name: " + text;
  }
  return "";
}

std::vector<std::int32_t> tokens_at(Loader& loader, std::int64_t position, int s) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(s));
  loader.read(position, {tokens.data(), nullptr, nullptr});
  return tokens;
}

LoaderOptions of_bytes(std::vector<std::string> files, int sequence_length) {
  LoaderOptions options;
  options.files = std::move(files);
  options.sequence_length = sequence_length;
  options.vocabulary = 256;
  return options;
}

}  // namespace

TEST_CASE("token files are read in all three formats", "[exec][data]") {
  const TestFolder folder;
  const auto all = [](const TokenFile& file) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(file.size()));
    file.read(0, file.size(), tokens.data());
    return tokens;
  };
  const std::string bytes = folder.file("text", "a\xff\n");
  CHECK(all(TokenFile(bytes, TokenFormat::bytes, 256)) == std::vector{97, 255, 10});
  const std::string flat = folder.file("flat.bin", uint16_text({1, 50256, 300}));
  CHECK(all(TokenFile(flat, TokenFormat::uint16, 50257)) == std::vector{1, 50256, 300});
  const std::string llmc = folder.file("llmc.bin", llmc_header(1, 2) + uint16_text({7, 40000}));
  CHECK(all(TokenFile(llmc, TokenFormat::uint16, 65536)) == std::vector{7, 40000});
  const std::string wide = folder.file("wide.bin", std::string("\x01\x02\x03\x00\xff\0\0\0", 8));
  CHECK(all(TokenFile(wide, TokenFormat::uint32, 1 << 18)) == std::vector{0x30201, 255});
  // Reads more tokens than are read at once, and from the middle of the file.
  std::vector<int> many(10000);
  std::iota(many.begin(), many.end(), 0);
  const TokenFile file(folder.file("many", uint16_text(many)), TokenFormat::uint16, 10000);
  CHECK(all(file) == many);
  std::int32_t some[3000];
  file.read(6999, 3000, some);
  CHECK(std::equal(some, some + 3000, many.begin() + 6999));
}

TEST_CASE("a file that is changed under a run is named", "[exec][data]") {
  const TestFolder folder;
  const std::string path = folder.file("text", std::string(100, 'a'));
  TokenFile file(path, TokenFormat::bytes, 'c');
  std::int32_t tokens[100];
  file.read(0, 100, tokens);
  std::filesystem::resize_file(path, 60);
  file.read(50, 10, tokens);
  CHECK(message_of([&] { file.read(50, 20, tokens); }) ==
        path + ": ends at byte 60, it had 100 when the run began; put it back as it was");
  CHECK_THROWS_AS(file.read(90, 1, tokens), RunError);
  write_content(path, std::string(70, 'a') + std::string(30, 'c'));
  file.read(0, 70, tokens);
  CHECK(message_of([&] { file.read(69, 2, tokens); }) ==
        path +
            ": token 99 at position 70 is not in the model's vocabulary of 99; tokens are 0 to "
            "98; the file was changed");
  const std::string images = folder.file("images", std::string("\1ab\1cd", 6));
  ImageFile pictures(images, 2, 2);
  write_content(images, std::string("\1ab\2cd", 6));
  pictures.read(0, tokens);
  CHECK(message_of([&] { pictures.read(1, tokens); }) ==
        images +
            ": label 2 of image 1 is not one of the model's 2 classes; labels are 0 to 1; the "
            "file was changed");
  std::filesystem::resize_file(images, 4);
  CHECK(message_of([&] { pictures.read(1, tokens); }) ==
        images + ": ends at byte 4, it had 6 when the run began; put it back as it was");
}

TEST_CASE("more files of data than the usual limit of open files", "[exec][data]") {
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit few{40, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
  const TestFolder folder;
  const std::string path = folder.file("text", "abcd");
  std::vector<TokenFile> files;
  for (int i = 0; i < 60; ++i) files.emplace_back(path, TokenFormat::bytes, 256);
  files.clear();
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST_CASE("bad token files are refused with their name and the place", "[exec][data]") {
  const TestFolder folder;
  const auto u16 = TokenFormat::uint16;
  CHECK(refusal(folder.path() + "/none", u16, 9) == "cannot be read (No such file or directory)");
  CHECK(refusal(folder.path(), u16, 9) == "is not a regular file");
  const std::string pipe = folder.file("pipe");  // nobody writes it
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(refusal(pipe, u16, 9) == "is not a regular file");
  CHECK(refusal(folder.file("empty", ""), TokenFormat::bytes, 256) ==
        "is empty; a data file holds at least one token");
  CHECK(refusal(folder.file("odd", "abc"), u16, 65536) ==
        "has 3 bytes, an odd number; uint16 tokens take 2 bytes each (or is the format bytes?)");
  CHECK(refusal(folder.file("version", llmc_header(2, 0)), u16, 9) ==
        "its header has version 2; only version 1 is known");
  CHECK(refusal(folder.file("cut", llmc_header(1, 3) + uint16_text({1, 2})), u16, 9) ==
        "its header says 3 tokens, but it holds 2; it is truncated or damaged");
  CHECK(refusal(folder.file("more", llmc_header(1, 3) + uint16_text({1, 2, 3, 4})), u16, 9) ==
        "its header says 3 tokens, but it holds 4; it is truncated or damaged");
  CHECK(refusal(folder.file("big", uint16_text({1, 2, 50257})), u16, 50257) ==
        "token 50257 at position 2 is not in the model's vocabulary of 50257; tokens are 0 to "
        "50256");
  CHECK(refusal(folder.file("bytes", "ab\x80"), TokenFormat::bytes, 128) ==
        "token 128 at position 2 is not in the model's vocabulary of 128; tokens are 0 to 127");
  // The token is far beyond the first block that is scanned.
  std::vector<int> many(200000, 5);
  many[150001] = 9;
  CHECK(refusal(folder.file("far", uint16_text(many)), u16, 9)
            .starts_with("token 9 at position 150001"));
  // A stream as pyarrow writes it has a mark, the length of the first message, and the place of its
  // table.
  const std::string stream("\xff\xff\xff\xff\x70\0\0\0\x10\0\0\0", 12);
  CHECK(refusal(folder.file("a.arrows", stream), TokenFormat::bytes, 256)
            .starts_with("is an Arrow stream, which is not read"));
  CHECK(refusal(folder.file("a.parquet", "PAR1 and more"), TokenFormat::bytes, 256) ==
        "is a Parquet file, which is not read; write its text as JSON lines, and `meshwright "
        "tokenize` them into a token file");
  CHECK(refusal(folder.file("a.npy", "\x93NUMPY\x01" + std::string(121, 'x')), u16, 65536) ==
        "is a NumPy file with a header, which is not read; write its numbers alone (numpy's "
        "`tofile`)");
  CHECK(refusal(folder.file("a.txt", "PAR is no mark"), TokenFormat::bytes, 256) == "");
  CHECK_THROWS_AS(Loader(of_bytes({folder.file("short", "abcd")}, 4)), InputError);
}

TEST_CASE("sequences do not cross files, partial ones are dropped, epochs wrap", "[exec][data]") {
  // With s = 3, "abcdefgh" has the windows abc|d and def|g, and gh is left. "uvwxyz" has only
  // uvw|x, because xyz lacks its last target. An epoch has 3 sequences, so position 3 is the first
  // again.
  const TestFolder folder;
  LoaderOptions options = of_bytes({folder.file("1", "abcdefgh"), folder.file("2", "uvwxyz")}, 3);
  Loader loader(options);
  REQUIRE(loader.sequences() == 3);
  const char* expected[] = {"abcd", "defg", "uvwx", "abcd"};
  for (int position = 0; position < 4; ++position) {
    std::int32_t tokens[3], targets[3];
    loader.read(position, {tokens, targets, nullptr});
    for (int i = 0; i < 3; ++i) {
      CHECK(tokens[i] == expected[position][i]);
      CHECK(targets[i] == expected[position][i + 1]);
    }
  }
}

TEST_CASE("a shuffled epoch is a permutation, another one each time", "[exec][data]") {
  const TestFolder folder;
  std::string text(101, ' ');
  std::iota(text.begin(), text.end(), '\0');  // sequence k of s = 1 is token k
  const std::string path = folder.file("numbers", text);
  const auto shuffled = [&](std::uint64_t seed) {
    LoaderOptions options = of_bytes({path}, 1);
    options.shuffle = true;
    options.data_seed = seed;
    return options;
  };
  const auto epoch = [&](std::uint64_t seed, std::int64_t number) {
    Loader loader(shuffled(seed));
    std::vector<std::int32_t> order;
    for (std::int64_t i = 0; i < 100; ++i)
      order.push_back(tokens_at(loader, number * 100 + i, 1)[0]);
    return order;
  };
  const std::vector<std::int32_t> first = epoch(1, 0);
  CHECK(std::set(first.begin(), first.end()).size() == 100);
  CHECK(first == epoch(1, 0));
  CHECK(first != epoch(1, 1));
  CHECK(first != epoch(2, 0));
  // Going back and forth over the boundary changes nothing.
  Loader loader(shuffled(1));
  const std::vector<std::int32_t> second = epoch(1, 1);
  for (int i = 0; i < 3; ++i) {
    CHECK(tokens_at(loader, 99, 1)[0] == first[99]);
    CHECK(tokens_at(loader, 100, 1)[0] == second[0]);
  }
}

TEST_CASE("the tokens ahead are those behind the targets, as far as a sequence goes", "[data]") {
  LoaderOptions options;
  options.sequence_length = 5;
  options.vocabulary = 1000;
  Loader loader(options);
  std::vector<std::int32_t> tokens(5), targets(5), read(5), wanted(5);
  for (std::int64_t position = 0; position < 3; ++position) {
    loader.read(position, {tokens.data(), targets.data()});
    std::vector<std::int32_t> text = tokens;
    text.push_back(targets.back());
    for (std::size_t depth = 1; depth <= 5; ++depth) {
      SequenceInputs into;
      into.ahead[depth - 1] = {read.data(), wanted.data()};
      loader.read(position, into);
      for (std::size_t i = 0; i < 5; ++i) {
        CHECK(read[i] == (i + depth < 6 ? text[i + depth] : 0));
        CHECK(wanted[i] == (i + depth + 1 < 6 ? text[i + depth + 1] : ignored_target));
      }
    }
  }
}

TEST_CASE("synthetic tokens depend on seed and sequence, and cover the vocabulary",
          "[exec][data]") {
  LoaderOptions options;
  options.sequence_length = 1000;
  options.vocabulary = 7;
  Loader loader(options);
  CHECK(loader.sequences() == 0);
  const auto tokens = tokens_at(loader, 5, 1000);
  CHECK(std::set(tokens.begin(), tokens.end()) == std::set{0, 1, 2, 3, 4, 5, 6});
  CHECK(tokens != tokens_at(loader, 6, 1000));
  options.seed = 1;
  Loader other(options);
  CHECK(tokens != tokens_at(other, 5, 1000));
}

TEST_CASE("replicas take contiguous blocks of a step's sequences", "[exec][data]") {
  // With 12 sequences a step and 3 replicas, replica 2 begins with number 8 of them, counted from
  // 0.
  CHECK(first_sequence(24, 12, 3, 0, 0) == 24);
  CHECK(first_sequence(24, 12, 3, 2, 0) == 32);
  CHECK(first_sequence(24, 12, 3, 2, 3) == 35);
}

TEST_CASE("masked positions hide what stood there", "[exec][data]") {
  LoaderOptions options;
  options.sequence_length = 20;
  options.vocabulary = 1000;
  options.targets = Targets::masked;
  options.predicted = 6;
  options.mask_token = 103;
  Loader masked(options);
  options.targets = Targets::next;
  Loader plain(options);
  int masks = 0, kept = 0, places[20] = {};
  constexpr int sequences = 2000;
  for (int position = 0; position < sequences; ++position) {
    std::int32_t tokens[20], hidden[6], at[6], original[20], again[20];
    masked.read(position, {tokens, nullptr, nullptr});
    masked.read(position, {nullptr, hidden, at});
    masked.read(position, {again, nullptr, nullptr});
    plain.read(position, {original, nullptr, nullptr});
    REQUIRE(std::equal(tokens, tokens + 20, again));
    for (int i = 0; i < 6; ++i) {
      REQUIRE((i == 0 || at[i] > at[i - 1]));
      REQUIRE(hidden[i] == original[at[i]]);
      masks += tokens[at[i]] == 103 ? 1 : 0;
      kept += tokens[at[i]] == hidden[i] ? 1 : 0;
      ++places[at[i]];
      tokens[at[i]] = hidden[i];
    }
    REQUIRE(std::equal(tokens, tokens + 20, original));
  }
  // If 12000 hidden tokens are drawn, 80 % become masks and 10 % stay, within four standard
  // deviations (44 and 33). A random token is one of these in 1 of 500 cases. Each place is drawn
  // 600 times, with a standard deviation of 20.5.
  CHECK(std::abs(masks - 9600) < 180);
  CHECK(std::abs(kept - 1200) < 140);
  for (const int times : places) CHECK(std::abs(times - 600) < 100);
}

TEST_CASE("a decoder's sequence is a pair of windows", "[exec][data]") {
  const TestFolder folder;
  LoaderOptions options =
      of_bytes({folder.file("1", "abcdefABCDEFg"), folder.file("2", "uvwxyz")}, 3);
  options.targets = Targets::pair;
  options.start_token = 7;
  Loader loader(options);
  REQUIRE(loader.sequences() == 3);  // abc|def, ABC|DEF (g is left), uvw|xyz
  const char* expected[] = {"abcdef", "ABCDEF", "uvwxyz", "abcdef"};
  for (int position = 0; position < 4; ++position) {
    std::int32_t source[3], target[3], read[3];
    loader.read(position, {source, target, nullptr, read});
    for (int i = 0; i < 3; ++i) {
      CHECK(source[i] == expected[position][i]);
      CHECK(target[i] == expected[position][i + 3]);
      CHECK(read[i] == (i == 0 ? 7 : target[i - 1]));
    }
  }
  options.files = {folder.file("short", "abcde")};
  CHECK(message_of([&] { Loader other(options); })
            .ends_with("short: has 5 tokens; one sequence needs 6 (2 x sequence_length), and no "
                       "file has that many"));
}

TEST_CASE("images are records of a label and its pixels", "[exec][data]") {
  const TestFolder folder;
  LoaderOptions options;
  options.targets = Targets::label;
  options.pixels = 4;
  options.sequence_length = 5;
  options.vocabulary = 10;
  options.files = {folder.file("1", std::string("\x03"
                                                "abcd"
                                                "\x09"
                                                "efgh")),
                   folder.file("2", std::string("\x00wxyz", 5))};
  Loader loader(options);
  REQUIRE(loader.sequences() == 3);
  const std::string expected[] = {"abcd", "efgh", "wxyz", "abcd"};
  const int labels[] = {3, 9, 0, 3};
  for (int position = 0; position < 4; ++position) {
    std::int32_t pixels[4], label = -1, place = -1;
    loader.read(position, {pixels, &label, &place});
    CHECK(std::equal(pixels, pixels + 4, expected[position].begin()));
    CHECK(label == labels[position]);
    CHECK(place == 0);
  }
  // With 256 classes, a label is one byte. With more, it is two bytes, the lower one first.
  options.vocabulary = 256;
  options.files = {folder.file("full", std::string("\xff\x01\x02\x03\x04", 5))};
  Loader full(options);
  CHECK(full.sequences() == 1);
  std::int32_t class_of_it = -1;
  full.read(0, {nullptr, &class_of_it, nullptr});
  CHECK(class_of_it == 255);
  options.vocabulary = 1000;
  options.files = {folder.file("wide", std::string("\xe7\x03\xff\x80\x01\x02", 6))};
  std::int32_t pixels[4], label = -1;
  Loader(options).read(0, {pixels, &label, nullptr});
  CHECK(label == 999);
  CHECK(pixels[0] == 255);
  const auto refused = [&](const std::string& content) {
    options.files = {folder.file("bad", content)};
    return message_of([&] { Loader other(options); });
  };
  CHECK(refused("seven..").ends_with(
      "bad: has 7 bytes, no multiple of the 6 of a record: a label of 2 and 4 pixels"));
  CHECK(refused("\xe8\x03"
                "abcd")
            .ends_with("bad: label 1000 of image 0 is not one of the model's 1000 classes; labels "
                       "are 0 to 999"));
  CHECK(refused("").ends_with("bad: is empty; a data file holds at least one image"));
  // Without files, pixels and classes have any value.
  options.files.clear();
  options.pixels = 4000;
  options.vocabulary = 2;
  Loader synthetic(options);
  std::set<int> values, classes;
  std::vector<std::int32_t> image(4000);
  for (int position = 0; position < 20; ++position) {
    synthetic.read(position, {image.data(), &label, nullptr});
    values.insert(image.begin(), image.end());
    classes.insert(label);
  }
  CHECK(values.size() == 256);
  CHECK((*values.begin() == 0 && *values.rbegin() == 255));
  CHECK(classes == std::set{0, 1});
}

TEST_CASE("random answers lie inside their sequence", "[exec][data]") {
  LoaderOptions options;
  options.sequence_length = 5;
  options.vocabulary = 9;
  options.targets = Targets::span;
  Loader loader(options);
  std::set<std::pair<int, int>> seen;
  for (int position = 0; position < 400; ++position) {
    std::int32_t answer[2];
    loader.read(position, {nullptr, answer, nullptr});
    REQUIRE((0 <= answer[0] && answer[0] <= answer[1] && answer[1] < 5));
    seen.insert({answer[0], answer[1]});
  }
  CHECK(seen.size() == 15);  // 5 * 6 / 2
}

TEST_CASE("Megatron-LM's indexed datasets are read by their index", "[exec][data]") {
  const TestFolder folder;
  const auto all = [&](const std::string& name, std::int64_t vocabulary) {
    const TokenFile file(name, TokenFormat::megatron, vocabulary);
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(file.size()));
    file.read(0, file.size(), tokens.data());
    return tokens;
  };
  folder.file("narrow.bin", uint16_text({1, 50256, 300, 7, 9}));
  folder.file("narrow.idx", megatron_index(8, 2, {3, 2}));
  for (const char* name : {"/narrow", "/narrow.bin", "/narrow.idx"})
    CHECK(all(folder.path() + name, 50257) == std::vector{1, 50256, 300, 7, 9});
  folder.file("wide.bin", std::string("\x01\x02\x03\x00\xff\0\0\0", 8));
  folder.file("wide.idx", megatron_index(4, 4, {0, 1, 1}));
  CHECK(all(folder.path() + "/wide", 1 << 18) == std::vector{0x30201, 255});
  // Megatron-Core wrote this file (tests/golden/make_megatron_dataset.py).
  CHECK(all(MESHWRIGHT_SOURCE_DIR "/tests/golden/megatron/documents", 50257) ==
        std::vector{1, 50256, 300, 7, 9, 11});
  folder.file("bytes.bin", "ab");
  folder.file("bytes.idx", megatron_index(1, 1, {2}));
  CHECK(all(folder.path() + "/bytes", 256) == std::vector{97, 98});

  const auto refused = [&](const std::string& index) {
    folder.file("bad.bin", uint16_text({1, 2, 3}));
    folder.file("bad.idx", index);
    const std::string text = message_of([&] { all(folder.path() + "/bad", 9); });
    const std::string name = folder.path() + "/bad.idx: ";
    return text.starts_with(name) ? text.substr(name.size()) : "another file: " + text;
  };
  CHECK(refused("MM") == "is too short for an index of Megatron-LM");
  CHECK(refused(std::string(64, 'x')) ==
        "is no index of Megatron-LM: it does not begin with MMIDIDX");
  CHECK(refused(megatron_index(7, 2, {3})) == "holds float32; tokens are uint8, uint16 or int32");
  CHECK(refused(megatron_index(9, 2, {3})) == "has the type 9; types are 1 to 8: is it damaged?");
  CHECK(refused(megatron_index(8, 2, {4})) ==
        "its sequences have 8 bytes, but " + folder.path() +
            "/bad.bin has 6; the two do not belong together, or one is truncated");
  const std::string good = megatron_index(8, 2, {1, 2});
  CHECK(refused(good.substr(0, good.size() - 1)) ==
        "says 2 sequences and 3 documents, for which it is too short; it is truncated");
  std::string moved = good;
  moved[34 + 2 * 4 + 8] = 4;  // the second sequence's first byte
  CHECK(refused(moved) == "sequence 1 does not begin where the one before it ends; it is damaged");
  std::string newer = good;
  newer[9] = 2;
  CHECK(refused(newer) == "has version 2; only version 1 is known");
  CHECK(message_of([&] {
          all(folder.path() + "/narrow", 50256);
        }).starts_with(folder.path() + "/narrow.bin: token 50256 at position 1 "));
  std::filesystem::remove(folder.path() + "/bad.idx");
  CHECK(message_of([&] { all(folder.path() + "/bad", 9); }) ==
        folder.path() + "/bad.idx: cannot be read (No such file or directory)");
}

TEST_CASE("a mixture has its weights in every stretch, evenly spread", "[exec][data]") {
  const std::vector<double> weights = {1, 2.5, 0.001, 6};
  const Mixture mixture(weights);
  std::vector<std::int64_t> counts(4, 0), stretch(4, 0);
  const double sum = 9.501;
  for (std::int64_t position = 0; position < 2 * mixture_stretch; ++position) {
    const auto [file, before] = mixture.at(position);
    REQUIRE(before == counts[file]);  // no sequence is left out or comes twice
    ++counts[file];
    for (std::size_t f = 0; f < 4; ++f)
      REQUIRE(std::abs(static_cast<double>(counts[f]) -
                       weights[f] / sum * static_cast<double>(position + 1)) < 2);
    if (position + 1 == mixture_stretch) stretch = counts;
  }
  for (std::size_t f = 0; f < 4; ++f) CHECK(counts[f] == 2 * stretch[f]);
  CHECK(std::accumulate(stretch.begin(), stretch.end(), std::int64_t{0}) == mixture_stretch);
  CHECK(stretch[2] == 7);  // 65,536 * 0.001 / 9.501 is 6.9
}

TEST_CASE("files of a mixture have epochs of their own", "[exec][data]") {
  const TestFolder folder;
  LoaderOptions options;
  options.files = {folder.file("few", "abc"), folder.file("many", "0123456789")};
  options.weights = {2, 1};
  options.sequence_length = 1;
  options.vocabulary = 256;
  const auto read = [&](std::int64_t from, int count) {
    Loader loader(options);
    std::string text;
    for (int i = 0; i < count; ++i) text += static_cast<char>(tokens_at(loader, from + i, 1)[0]);
    return text;
  };
  // There are two letters of "ab" for each digit (c is only a target). The ninth digit is followed
  // by the first one.
  const std::string plain = read(0, 30);
  std::string letters, digits;
  for (const char c : plain) (c < 'a' ? digits : letters) += c;
  CHECK(letters == "abababababababababab");
  CHECK(digits == "0123456780");
  for (int i = 0; i + 3 <= 30; i += 3) {
    const std::string three = plain.substr(static_cast<std::size_t>(i), 3);
    CHECK(std::ranges::count_if(three, [](char c) { return c < 'a'; }) == 1);
  }
  CHECK(read(17, 8) == plain.substr(17, 8));  // a resumed run reads the same
  options.shuffle = true;
  const std::string shuffled = read(0, 27);
  std::string first;
  for (const char c : shuffled)
    if (c < 'a') first += c;
  CHECK(std::set(first.begin(), first.end()).size() == 9);
  CHECK(first != "012345678");
  options.files[0] = folder.file("short", "a");
  CHECK(message_of([&] { Loader loader(options); }) ==
        options.files[0] +
            ": is too short for one sequence; a mixture takes some of every file: leave it out, "
            "with its weight");
}
