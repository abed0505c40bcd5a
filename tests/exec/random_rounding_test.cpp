#include "exec/optimizer/random_rounding.h"

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "exec/core/philox.h"
#include "exec/optimizer/optimizer.h"
#include "tests/catch.h"

using namespace meshwright::tests;

namespace {

float number_of(std::uint32_t bits) { return std::bit_cast<float>(bits); }
float value_of(BFloat16 number) { return reference_value(number); }

// Returns a word by the definition: place p of the whole parameter has word p % 4 of block p / 4.
std::uint32_t reference_word(std::uint64_t key, std::int64_t update, std::int64_t place) {
  const std::uint64_t block = static_cast<std::uint64_t>(place) / 4;
  const PhiloxCounter four =
      philox({std::uint32_t(block), std::uint32_t(block >> 32), std::uint32_t(update), 0},
             {std::uint32_t(key), std::uint32_t(key >> 32)});
  return four[static_cast<std::size_t>(place % 4)];
}

std::vector<std::uint32_t> words_of(const RandomRounding& rounding, std::int64_t update,
                                    std::int64_t first, std::int64_t count) {
  std::vector<std::uint32_t> words(static_cast<std::size_t>(count));
  random_words(rounding, update, first, count, words.data());
  return words;
}

// A parameter of [6, 10] in two segments along its second dimension, on rank 1 of 2.
WholePlaces columns_of_two() {
  WholePlaces places;
  places.held = 5;
  places.whole = 10;
  places.segments = 2;
  places.begin[1] = 2;  // the first segment has 4 columns, the second 6
  places.shift[0] = 2;  // columns 2 and 3
  places.shift[1] = 5;  // columns 7, 8 and 9
  return places;
}

}  // namespace

TEST_CASE("the share of random numbers that round up is the distance to the lower neighbour",
          "[exec][optimizer]") {
  for (const std::uint32_t sign : {0U, 0x80000000U})
    for (const std::uint32_t upper : {0x3f80U, 0x0000U, 0x007fU, 0x3fffU, 0x7f00U})
      for (const std::uint32_t lower : {0U, 1U, 0x1234U, 0x8000U, 0xffffU}) {
        const float number = number_of(sign | upper << 16 | lower);
        const BFloat16 below{static_cast<std::uint16_t>(sign >> 16 | upper)},
            above{static_cast<std::uint16_t>(below.bits + 1)};
        std::uint32_t carried = 0;
        for (std::uint32_t random = 0; random < 65536; ++random) {
          const BFloat16 got = rounded_at_random(number, static_cast<std::uint16_t>(random));
          REQUIRE((got.bits == below.bits || got.bits == above.bits));
          carried += got.bits == above.bits ? 1 : 0;
        }
        CHECK(carried == lower);
        // So the mean over all random numbers is the number itself: it is lower / 65536 of the way
        // from the lower neighbour to the upper one.
        const double mean = double(value_of(below)) +
                            (double(value_of(above)) - double(value_of(below))) * lower / 65536;
        CHECK(mean == double(number));
      }
}

TEST_CASE("NaN, infinity and exact numbers are rounded to themselves", "[exec][optimizer]") {
  for (const std::uint16_t random : {std::uint16_t(0), std::uint16_t(0xffff)}) {
    CHECK(rounded_at_random(number_of(0x7f800000), random).bits == 0x7f80);
    CHECK(rounded_at_random(number_of(0xff800000), random).bits == 0xff80);
    CHECK(rounded_at_random(-0.0F, random).bits == 0x8000);
    for (const std::uint32_t nan : {0x7f800001U, 0x7fffffffU, 0xffffffffU, 0xff800001U})
      CHECK(std::isnan(value_of(rounded_at_random(number_of(nan), random))));
    const std::vector<float> numbers = {1.5F, number_of(0x7f800001), -0.25F};
    const std::vector<std::uint32_t> words(3, random * 0x10001U);
    std::vector<BFloat16> rounded(3);
    narrow_at_random(numbers.data(), 3, words.data(), 16, rounded.data());
    for (std::size_t i = 0; i < 3; ++i)
      CHECK(rounded[i].bits == rounded_at_random(numbers[i], random).bits);
  }
}

// Each rounding gives the lower neighbour, plus one step with probability p, the number's position
// between the two. By Hoeffding's inequality, the mean of n roundings is further than t steps from
// p with a probability of at most 2 exp(-2 n t^2). With n = 65536 and t = 1/64 this is 2.5e-14.
TEST_CASE("the mean of many roundings is the number", "[exec][optimizer]") {
  constexpr std::int64_t n = 65536;
  const double most = 1.0 / 64;
  const RandomRounding rounding{rounding_key(7, "h.0.attn.weight"), {}};
  const auto share_of_ups = [&](std::int64_t update, std::int64_t first, int shift, double p) {
    const float number = number_of(0x3f800000U + std::uint32_t(p * 65536));
    const auto words = words_of(rounding, update, first, n);
    const std::vector<float> numbers(n, number);
    std::vector<BFloat16> rounded(n);
    narrow_at_random(numbers.data(), n, words.data(), shift, rounded.data());
    std::int64_t ups = 0;
    for (const BFloat16 each : rounded) ups += each.bits - 0x3f80;
    return double(ups) / n;
  };
  for (const double p : {0.125, 0.5, 0.75})
    for (const int shift : {0, 16}) {
      CHECK(std::abs(share_of_ups(1, 0, shift, p) - p) < most);
      CHECK(std::abs(share_of_ups(1'000'000, 12'345, shift, p) - p) < most);
      // Checks the share for one element over many updates.
      std::int64_t ups = 0;
      for (std::int64_t update = 1; update <= n; ++update) {
        const std::uint32_t word = reference_word(rounding.key, update, 5);
        ups += rounded_at_random(number_of(0x3f800000U + std::uint32_t(p * 65536)),
                                 static_cast<std::uint16_t>(word >> shift))
                   .bits -
               0x3f80;
      }
      CHECK(std::abs(double(ups) / n - p) < most);
    }
  // Both halves of a word carry as often as two independent ones would. The mean of the products,
  // of p = 1/4, has the same bound.
  std::int64_t both = 0;
  for (const std::uint32_t word : words_of(rounding, 3, 0, n))
    both += (word & 0x8000U) != 0 && (word & 0x80000000U) != 0 ? 1 : 0;
  CHECK(std::abs(double(both) / n - 0.25) < most);
}

TEST_CASE("random words follow from seed, name, update and place in the whole parameter alone",
          "[exec][optimizer]") {
  constexpr std::int64_t count = 60;
  const RandomRounding whole{rounding_key(3, "wte.weight"), {}};
  const auto words = words_of(whole, 9, 0, count);
  for (std::int64_t i = 0; i < count; ++i)
    CHECK(words[std::size_t(i)] == reference_word(whole.key, 9, i));
  // Parts have the same words, wherever they begin.
  for (const std::int64_t first : {1, 3, 4, 17})
    CHECK(words_of(whole, 9, first, 20) ==
          std::vector<std::uint32_t>(words.begin() + first, words.begin() + first + 20));
  // This rank has columns 2, 3, 7, 8 and 9 of rows of 10.
  const RandomRounding cut{whole.key, columns_of_two()};
  constexpr std::int64_t columns[] = {2, 3, 7, 8, 9};
  const auto own = words_of(cut, 9, 0, 30);
  for (std::int64_t i = 0; i < 30; ++i)
    CHECK(own[std::size_t(i)] == words[std::size_t(i / 5 * 10 + columns[i % 5])]);
  CHECK(words_of(cut, 9, 13, 9) == std::vector<std::uint32_t>(own.begin() + 13, own.begin() + 22));
  // Experts of other ranks come before.
  RandomRounding later = whole;
  later.places.first = 24;
  CHECK(words_of(later, 9, 1, 20) ==
        std::vector<std::uint32_t>(words.begin() + 25, words.begin() + 45));
  CHECK(words_of(whole, 10, 0, count) != words);
  CHECK(words_of({rounding_key(4, "wte.weight"), {}}, 9, 0, count) != words);
  CHECK(words_of({rounding_key(3, "wpe.weight"), {}}, 9, 0, count) != words);
  // These places are beyond 2^32, in rows that are longer than that.
  WholePlaces large;
  large.inner = std::int64_t{3} << 32;
  large.held = 2;
  large.whole = 4;
  large.shift[0] = 2;
  CHECK(whole_place(large, 7 * large.inner + 11).place == (3 * 4 + 1 + 2) * large.inner + 11);
  CHECK(whole_place(large, 6 * large.inner + 11).count == 2 * large.inner - 11);
}

namespace {

// A bucket with moments in bf16, and its steps.
struct Stepped {
  std::vector<float> weights;
  std::vector<std::uint16_t> first, second;
  std::vector<float> update;  // muon

  explicit Stepped(std::size_t count)
      : weights(count, 0.5F), first(count), second(count), update(count) {}
  OptimizerState state(const std::vector<float>& gradients, OptimizerKind kind) {
    OptimizerState state{weights.data(), gradients.data(), first.data(), second.data()};
    state.moment_type = Dtype::bf16;
    state.moments_at_random = true;
    if (kind == OptimizerKind::muon) state.update = update.data();
    return state;
  }
  bool operator==(const Stepped&) const = default;
};

std::vector<float> gradients_of(std::size_t count, std::int64_t step) {
  std::vector<float> gradients(count);
  for (std::size_t i = 0; i < count; ++i)
    gradients[i] = float(std::cos(double(i + 1) * double(step)));
  return gradients;
}

void bring_up_to_date(const StepSettings& training, std::int64_t step,
                      std::vector<OptimizerSegment> segments, const OptimizerState& state,
                      int threads) {
  ThreadPool pool(threads);
  const OptimizerScalars scalars{step, 0.01, 0.5};
  std::vector<double> norms(2 * segments.size());
  for (std::size_t i = 0; i < segments.size(); ++i) segments[i].norms = norms.data() + 2 * i;
  if (training.optimizer == OptimizerKind::muon)
    return muon_momentum(training, scalars, segments, state, pool);
  if (training.optimizer == OptimizerKind::lamb)
    lamb_norms(training, scalars, segments, state, pool);
  optimizer_step(training, scalars, segments, state, pool);
}

}  // namespace

// Moments equal those that an fp32 step makes of the stored values, rounded by the word of their
// place.
TEST_CASE("moments are rounded at random once a step, by every optimizer", "[exec][optimizer]") {
  constexpr std::size_t n = 9001;
  StepSettings training;
  training.optimizer = GENERATE(OptimizerKind::adamw, OptimizerKind::adam, OptimizerKind::sgd,
                                OptimizerKind::lamb, OptimizerKind::lion, OptimizerKind::muon);
  training.weight_decay = 0.1;
  const RandomRounding rounding{rounding_key(1, "a"), {.first = 77}};
  OptimizerSegment all{0, n, true};
  all.rounding = &rounding;
  all.first = 2;
  Stepped at_random(n);
  std::vector<float> first(n), second(n);
  for (std::int64_t step = 1; step <= 3; ++step) {
    const std::vector<float> gradients = gradients_of(n, step);
    widen(at_random.first.data(), Dtype::bf16, n, first.data());
    widen(at_random.second.data(), Dtype::bf16, n, second.data());
    std::vector<float> weights = at_random.weights, update(n);
    OptimizerState whole{weights.data(), gradients.data(), first.data(), second.data()};
    if (training.optimizer == OptimizerKind::muon) whole.update = update.data();
    bring_up_to_date(training, step, {all}, whole, 1);
    bring_up_to_date(training, step, {all}, at_random.state(gradients, training.optimizer), 2);
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint32_t word = reference_word(rounding.key, step, std::int64_t(i) + 79);
      REQUIRE(at_random.first[i] == rounded_at_random(first[i], std::uint16_t(word)).bits);
      if (moments_of(training.optimizer) == 2)
        REQUIRE(at_random.second[i] ==
                rounded_at_random(second[i], std::uint16_t(word >> 16)).bits);
    }
    // The update uses the moments before they are rounded, except lamb's, which reads them again.
    if (training.optimizer != OptimizerKind::lamb) CHECK(at_random.weights == weights);
  }
}

TEST_CASE("parts of a parameter are rounded at random as the whole is", "[exec][optimizer]") {
  constexpr std::size_t n = 10'007;
  StepSettings training;
  training.optimizer = GENERATE(OptimizerKind::adamw, OptimizerKind::lion);
  const RandomRounding rounding{rounding_key(1, "a"), {}};
  const auto segment = [&](std::int64_t begin, std::int64_t end) {
    OptimizerSegment made{begin, end - begin, true};
    made.rounding = &rounding;
    made.first = begin;
    return made;
  };
  Stepped whole(n), parts(n);
  for (std::int64_t step = 1; step <= 3; ++step) {
    const std::vector<float> gradients = gradients_of(n, step);
    bring_up_to_date(training, step, {segment(0, n)}, whole.state(gradients, training.optimizer),
                     1);
    bring_up_to_date(training, step, {segment(0, 5), segment(5, 4099), segment(4099, n)},
                     parts.state(gradients, training.optimizer), 3);
    CHECK(parts == whole);
  }
}

// Without gradients a second moment falls by beta2 each step. A step of bf16 is 2^-8 of it or less,
// so if it is rounded to nearest, a change by 1/1000 is lost. Rounded at random, its mean falls:
// each of the 700 roundings, in steps of at most 2^-8 below 1, adds a variance of at most 2^-18 (a
// step squared, times p (1 - p) <= 1/4). The mean over n = 10000 elements has a deviation of at
// most sqrt(700 x 2^-18 / n) = 5.2e-4, of which six are allowed.
TEST_CASE("second moments fall where they are rounded at random", "[exec][optimizer]") {
  constexpr std::size_t n = 10'000;
  constexpr std::int64_t steps = 700;
  StepSettings training;
  training.beta2 = 0.999;
  const RandomRounding rounding{rounding_key(1, "a"), {}};
  OptimizerSegment all{0, n, true};
  all.rounding = &rounding;
  const std::vector<float> gradients(n);
  for (const bool at_random : {true, false}) {
    Stepped each(n);
    const std::vector<float> ones(n, 1.0F);
    narrow(ones.data(), Dtype::bf16, n, each.second.data());
    for (std::int64_t step = 1; step <= steps; ++step) {
      OptimizerState state = each.state(gradients, OptimizerKind::adamw);
      state.moments_at_random = at_random;
      bring_up_to_date(training, step, {all}, state, 1);
    }
    std::vector<float> second(n);
    widen(each.second.data(), Dtype::bf16, n, second.data());
    const double mean = std::accumulate(second.begin(), second.end(), 0.0) / n;
    if (at_random)
      CHECK(std::abs(mean - std::pow(0.999, steps)) < 6 * 5.2e-4);
    else
      CHECK(mean == 1);
  }
}
