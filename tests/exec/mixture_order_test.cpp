// Tests the order in which a mixture takes its files, against a reference that finds the file
// furthest behind with exact fractions.
#include <numeric>
#include <vector>

#include "exec/data/mixture.h"
#include "tests/catch.h"

using namespace meshwright::tests;

namespace {

std::vector<std::size_t> first_files(const std::vector<double>& weights, int count) {
  const Mixture mixture(weights);
  std::vector<std::size_t> files;
  for (int position = 0; position < count; ++position) files.push_back(mixture.at(position).first);
  return files;
}

}  // namespace

TEST_CASE("among files that are equally far behind, a mixture takes the first", "[exec][data]") {
  using Files = std::vector<std::size_t>;
  CHECK(first_files({1, 1}, 6) == Files{0, 1, 0, 1, 0, 1});
  CHECK(first_files({1, 2, 1}, 8) == Files{1, 0, 2, 1, 1, 0, 2, 1});
  CHECK(first_files({2, 1, 1}, 8) == Files{0, 1, 2, 0, 0, 1, 2, 0});
}
