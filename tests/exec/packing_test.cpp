// Tests how documents are packed into rows, and that the rows of a step are ordered for even work.
#include "exec/data/packing.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <string>

#include "exec/data/loader.h"
#include "models/program/graph/attributes.h"
#include "models/program/graph/documents.h"
#include "tests/catch.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;

namespace {

using Numbers = std::vector<std::int32_t>;

std::int64_t sum_of(const std::vector<std::int64_t>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::int64_t{0});
}

std::vector<std::int64_t> random_numbers(std::size_t count, std::int64_t most, unsigned int seed) {
  std::mt19937 generator(seed);
  std::vector<std::int64_t> numbers;
  for (std::size_t i = 0; i < count; ++i)
    numbers.push_back(1 + static_cast<std::int64_t>(generator() % static_cast<unsigned>(most)));
  return numbers;
}

LoaderOptions of_file(const std::string& path, TokenFormat format, int length, int batch) {
  LoaderOptions options;
  options.files = {path};
  options.format = format;
  options.sequence_length = length;
  options.vocabulary = 256;
  options.packing = true;
  options.global_batch = batch;
  return options;
}

PackedRow row_at(Loader& loader, std::int64_t position, int length) {
  PackedRow row;
  for (Numbers* each : {&row.tokens, &row.targets, &row.documents})
    each->resize(static_cast<std::size_t>(length));
  loader.read(position, {.tokens = row.tokens.data(),
                         .targets = row.targets.data(),
                         .documents = row.documents.data()});
  return row;
}

// Returns the documents of a row as text, such as "ab|cde|.", with a dot for each padding token.
std::string text_of(const PackedRow& row) {
  std::string text;
  for (std::size_t i = 0; i < row.tokens.size(); ++i) {
    if (i > 0 && row.documents[i] == static_cast<int>(i)) text += '|';
    text += row.tokens[i] == 0 ? '.' : static_cast<char>(row.tokens[i]);
  }
  return text;
}
std::string targets_of(const PackedRow& row) {
  std::string text;
  for (const std::int32_t target : row.targets)
    text += target == ignored_target ? '.' : static_cast<char>(target);
  return text;
}

}  // namespace

TEST_CASE("the longest documents come first, each where there is room", "[exec][data]") {
  using Rows = std::vector<std::vector<std::int64_t>>;
  CHECK(pack_rows(std::vector<std::int64_t>{3, 7, 2, 5, 8, 3}, 10) ==
        Rows{{4, 2}, {1, 0}, {3, 5}});  // 8 + 2, 7 + 3, 5 + 3
  CHECK(pack_rows(std::vector<std::int64_t>{3, 7, 2, 5, 8, 3}, 10, 3) ==
        Rows{{1, 0}, {2}, {4}, {3, 5}});  // 7 + 3, 2; then 8, 5 + 3
  CHECK(pack_rows({}, 10).empty());
}

TEST_CASE("every document is in one row, which it fits", "[exec][data]") {
  for (const std::int64_t window : {1, 7, 100, 10000}) {
    const std::vector<std::int64_t> places = random_numbers(500, 64, 3);
    std::set<std::int64_t> packed;
    std::size_t wide = 0;
    const auto rows = pack_rows(places, 64, window);
    for (const std::vector<std::int64_t>& row : rows) {
      std::int64_t taken = 0;
      for (const std::int64_t document : row) {
        taken += places[static_cast<std::size_t>(document)];
        CHECK(packed.insert(document).second);
      }
      CHECK(taken <= 64);
      if (taken < 60) ++wide;
    }
    CHECK(packed.size() == places.size());
    CHECK(rows == pack_rows(places, 64, window));
    // If all documents are in one window, first-fit decreasing takes at most 11/9 of the fewest
    // rows and one (Yue 1991).
    if (window == 10000)
      CHECK(static_cast<double>(rows.size()) <=
            11.0 / 9 * static_cast<double>((sum_of(places) + 63) / 64) + 1);
  }
}

TEST_CASE("ranks have even work, however many there are", "[exec][data]") {
  for (const std::size_t rows : {1U, 2U, 7U, 12U, 64U, 96U}) {
    const std::vector<std::int64_t> work = random_numbers(rows, 1000, 11);
    const std::vector<std::int64_t> order = balanced_order(work);
    CHECK(std::set<std::int64_t>(order.begin(), order.end()).size() == rows);
    CHECK(order.size() == rows);
    CHECK(balanced_order(work) == order);
    for (std::size_t ranks = 2; ranks <= rows / 4; ranks *= 2) {
      if (rows % ranks != 0) continue;
      const std::size_t own = rows / ranks;
      std::int64_t least = sum_of(work), most = 0;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        std::int64_t sum = 0;
        for (std::size_t i = rank * own; i < (rank + 1) * own; ++i)
          sum += work[static_cast<std::size_t>(order[i])];
        least = std::min(least, sum);
        most = std::max(most, sum);
      }
      INFO(rows << " rows, " << ranks << " ranks");
      // The work of two ranks differs by no more than that of one row may be.
      CHECK(most - least <= 1000);
      CHECK(static_cast<double>(most) <=
            1.1 * static_cast<double>(sum_of(work)) / static_cast<double>(ranks));
    }
  }
  // The pairs are 9 and 1, and 8 and 2, not 9 and 8.
  CHECK(balanced_order(std::vector<std::int64_t>{9, 8, 1, 2}) ==
        std::vector<std::int64_t>{0, 2, 1, 3});
}

TEST_CASE("pairs share rows, and padding is no work", "[exec][data]") {
  const TestFolder folder;
  const std::string path = folder.file("pairs.jsonl",
                                       "{\"prompt\": \"ab\", \"completion\": \"cd\"}\n"
                                       "{\"text\": \"uvwxyz\"}\n"
                                       "{\"prompt\": \"g\", \"completion\": \"h\"}\n"
                                       "{\"prompt\": \"mn\", \"completion\": \"opqrstklo\"}\n");
  Loader loader(of_file(path, TokenFormat::pairs, 10, 2));
  REQUIRE(loader.sequences() == 2);
  const PackedRow first = row_at(loader, 0, 10), second = row_at(loader, 1, 10);
  // A document's last token is only a target. The longest document came first.
  CHECK(text_of(first) == "mnopqrstkl");
  CHECK(targets_of(first) == ".opqrstklo");
  CHECK(text_of(second) == "uvwxy|abc|g|.");
  CHECK(targets_of(second) == "vwxyz.cdh.");
  CHECK(second.documents == Numbers{0, 0, 0, 0, 0, 5, 5, 5, 8, 9});
  CHECK(first.work() == 100);
  CHECK(second.work() == 25 + 9 + 1 + 1);
  CHECK(loader.counted_targets(0, 2) == 9 + 8);
  CHECK(*loader.document_share() == Approx((100 + 36) / 200.0));
  CHECK(text_of(row_at(loader, 2, 10)) == text_of(first));  // the next epoch
}

TEST_CASE("a token ends the documents of a file of tokens", "[exec][data]") {
  const TestFolder folder;
  const std::string path = folder.file("tokens", "ab!cdefg!hij!k!lmnop");
  LoaderOptions options = of_file(path, TokenFormat::bytes, 6, 1);
  options.document_end = '!';
  Loader loader(options);
  REQUIRE(loader.sequences() == 3);
  CHECK(text_of(row_at(loader, 0, 6)) == "ab!|cde");
  CHECK(targets_of(row_at(loader, 0, 6)) == "b!.def");
  CHECK(text_of(row_at(loader, 1, 6)) == "fg!|hij");
  CHECK(targets_of(row_at(loader, 1, 6)) == "g!.ij!");
  CHECK(text_of(row_at(loader, 2, 6)) == "!|k!|lmn");
  CHECK(targets_of(row_at(loader, 2, 6)) == ".!.mno");
  CHECK(loader.counted_targets(0, 3) == 5 + 5 + 4);
}

TEST_CASE("rows of a step come once each, whatever their order", "[exec][data]") {
  LoaderOptions options;
  options.sequence_length = 16;
  options.vocabulary = 50;
  options.packing = true;
  options.documents_per_row = 3;
  options.global_batch = 1;
  Loader one_by_one(options);
  options.global_batch = 8;
  Loader balanced(options);
  std::multiset<Numbers> expected, found;
  std::int64_t counted = 0;
  for (int position = 8; position < 16; ++position) {
    const PackedRow own = row_at(one_by_one, position, 16);
    expected.insert(own.tokens);
    counted += own.counted();
    CHECK(std::set<std::int32_t>(own.documents.begin(), own.documents.end()).size() == 3);
    CHECK(own.counted() == 16 - 2);
    found.insert(row_at(balanced, position, 16).tokens);
  }
  CHECK(found == expected);
  CHECK(balanced.counted_targets(8, 8) == counted);
  // A row does not depend on what was read before.
  Loader again(options);
  CHECK(row_at(again, 13, 16).tokens == row_at(balanced, 13, 16).tokens);
}

TEST_CASE("rows that are cut at random places have the work that is predicted", "[exec][data]") {
  for (const int documents : {1, 2, 5, 9}) {
    LoaderOptions options;
    options.sequence_length = 1000;
    options.vocabulary = 50;
    options.packing = true;
    options.documents_per_row = documents;
    Loader loader(options);
    double work = 0;
    constexpr int rows = 400;
    for (int position = 0; position < rows; ++position)
      work += static_cast<double>(row_at(loader, position, 1000).work()) / 1e6;
    INFO(documents);
    CHECK(work / rows == Approx(document_share(documents)).epsilon(0.06));
    CHECK(documents_of_share(document_share(documents)) == Approx(documents));
  }
}
