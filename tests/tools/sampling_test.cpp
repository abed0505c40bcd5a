// Tests how `generate` chooses tokens from logits.
#include <array>
#include <cmath>

#include "tests/catch.h"
#include "tools/session/generate.h"

using namespace meshwright::tests;

TEST_CASE("without a temperature the most likely token is taken, of equal ones the first",
          "[tools]") {
  CHECK(choose_token({-1, 3, 2, 3}, {}, 0) == 1);
  CHECK(choose_token({-7}, {}, 5) == 0);
}

TEST_CASE("tokens are drawn as often as their logits say", "[tools]") {
  // The shares are 1/7, 4/7 and 2/7 at temperature 1, and in the ratio 1 : 2 : sqrt(2) at
  // temperature 2.
  const std::vector<float> logits = {0, std::log(4.0F), std::log(2.0F)};
  constexpr int draws = 20'000;
  const auto shares = [&](double temperature, int top_k) {
    std::array<double, 3> counts{};
    for (int i = 0; i < draws; ++i) ++counts.at(choose_token(logits, {temperature, top_k, 9}, i));
    for (double& count : counts) count /= draws;
    return counts;
  };
  // The standard deviation of a share is at most 1 / (2 sqrt(20000)) = 0.0035.
  const auto near = [](double share) { return Approx(share).margin(0.018); };
  const auto usual = shares(1, 0), flat = shares(2, 0), two = shares(1, 2), one = shares(100, 1);
  CHECK(usual[0] == near(1.0 / 7));
  CHECK(usual[1] == near(4.0 / 7));
  CHECK(flat[1] == near(2 / (3 + std::sqrt(2.0))));
  CHECK(two[0] == 0);
  CHECK(two[1] == near(2.0 / 3));
  CHECK(one[1] == 1);
}

TEST_CASE("the seed and the place in the text decide what is drawn", "[tools]") {
  const std::vector<float> logits(1000, 0);
  const auto text = [&](std::uint64_t seed) {
    std::vector<std::int32_t> tokens;
    for (int i = 0; i < 8; ++i) tokens.push_back(choose_token(logits, {1, 0, seed}, i));
    return tokens;
  };
  CHECK(text(1) == text(1));
  CHECK(text(1) != text(2));
  CHECK(text(1)[0] != text(1)[1]);
}
