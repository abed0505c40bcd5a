// Compares Adafactor with transformers and torch.optim (values of tests/golden/make_adafactor.py),
// and parts of matrices with whole ones.
#include "exec/optimizer/adafactor.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "tests/catch.h"

using namespace meshwright::tests;

namespace {

// A parameter, or the part of one that a rank holds.
struct Held {
  AdafactorParameter about;
  std::vector<float> weights, gradients, second, factors;
  std::vector<double> sums, norms = {0, 0};
  std::int64_t first = 0;  // index of the part's first element
};

void add_over(std::vector<Held>& ranks, std::vector<double> Held::*sums) {
  for (std::size_t i = 0; i < (ranks[0].*sums).size(); ++i) {
    double all = 0;
    for (const Held& rank : ranks) all += (rank.*sums)[i];
    for (Held& rank : ranks) (rank.*sums)[i] = all;
  }
}

// Updates one parameter, of which each rank holds a part.
void step(const StepSettings& training, int number, std::vector<Held>& ranks) {
  ThreadPool pool(2);
  const OptimizerScalars scalars{number, training.learning_rate, 1};
  const auto each = [&](auto&& work) {
    for (Held& rank : ranks) {
      OptimizerSegment segment{0, std::ssize(rank.weights), true, rank.norms.data()};
      segment.first = rank.first;
      segment.adafactor = &rank.about;
      segment.factors = rank.factors.data();
      segment.factor_sums = rank.sums.data();
      work(training, scalars, std::span<const OptimizerSegment>(&segment, 1),
           OptimizerState{rank.weights.data(), rank.gradients.data(), nullptr, rank.second.data()},
           pool);
    }
  };
  for (Held& rank : ranks) {
    std::fill(rank.sums.begin(), rank.sums.end(), 0.0);
    std::fill(rank.norms.begin(), rank.norms.end(), 0.0);
  }
  each(adafactor_sums);
  add_over(ranks, &Held::sums);
  each(adafactor_norms);
  add_over(ranks, &Held::norms);
  each(optimizer_step);
}

float weight(std::int64_t i) { return static_cast<float>(std::sin(double(i + 1))); }
float gradient(std::int64_t i, int step) {
  return static_cast<float>(std::cos(double(i + 1) * step) * std::pow(10, double(i % 4) - 2));
}

// Returns a whole parameter: a matrix, or a vector if `rows` is 1.
Held whole_parameter(std::int64_t rows, std::int64_t columns) {
  Held made;
  made.about.elements = rows * columns;
  made.about.width = columns;
  const auto count = static_cast<std::size_t>(rows * columns);
  made.weights.resize(count), made.gradients.resize(count), made.second.resize(count);
  for (std::size_t i = 0; i < count; ++i) made.weights[i] = weight(std::int64_t(i));
  if (rows == 1) return made;
  made.about.rows = rows, made.about.columns = columns;
  made.factors.resize(static_cast<std::size_t>(rows + columns));
  made.sums.resize(made.factors.size());
  return made;
}

StepSettings settings_of(const nlohmann::json& of) {
  StepSettings training;
  training.optimizer = OptimizerKind::adafactor;
  training.learning_rate = of.at("learning_rate");
  training.weight_decay = of.value("weight_decay", 0.0);
  Adafactor& a = training.adafactor;
  a.clip_threshold = of.value("clip_threshold", 1.0);
  a.decay_rate = of.value("decay_rate", -0.8);
  a.scale_parameter = of.value("scale_parameter", false);
  a.relative_step = of.value("relative_step", false);
  return training;
}

}  // namespace

TEST_CASE("adafactor steps as transformers and torch.optim do", "[exec][optimizer]") {
  std::ifstream file(MESHWRIGHT_SOURCE_DIR "/tests/golden/adafactor.json");
  const auto golden = nlohmann::json::parse(file);
  CHECK(golden["cases"].size() == 5);
  for (const nlohmann::json& of : golden["cases"]) {
    nlohmann::json about = of;
    about.erase("steps");
    INFO(about.dump());
    const StepSettings training = settings_of(of);
    std::vector<std::vector<Held>> all = {{whole_parameter(5, 7)}, {whole_parameter(1, 6)}};
    int number = 0;
    for (const nlohmann::json& expected : of["steps"]) {
      ++number;
      for (std::size_t p = 0; p < all.size(); ++p) {
        Held& parameter = all[p][0];
        for (std::size_t i = 0; i < parameter.gradients.size(); ++i)
          parameter.gradients[i] = gradient(std::int64_t(i), number);
        step(training, number, all[p]);
        for (std::size_t i = 0; i < parameter.weights.size(); ++i)
          CHECK(parameter.weights[i] == Approx(expected[p][i].get<float>()).margin(2e-6));
      }
    }
  }
}

// If gradients are zero, only the decay moves the weights, and the average follows them.
TEST_CASE("adafactor decays matrices by the rate, and averages what is left", "[exec][optimizer]") {
  StepSettings training;
  training.optimizer = OptimizerKind::adafactor;
  training.learning_rate = 0.5;
  training.weight_decay = 0.25;
  training.ema_decay = 0.75;
  training.adafactor.decay_rate = -0.8;
  ThreadPool pool(2);
  for (const bool decays : {true, false})
    for (const bool relative : {true, false}) {
      training.adafactor.relative_step = relative;
      Held held = whole_parameter(3, 2000);  // more than a tile
      std::vector<float> average(held.weights.size());
      for (std::size_t i = 0; i < average.size(); ++i) average[i] = std::sin(static_cast<float>(i));
      std::vector<double> weights(held.weights.begin(), held.weights.end());
      std::vector<double> means(average.begin(), average.end());
      for (int number = 1; number <= 9; ++number) {
        const OptimizerScalars scalars{number, training.learning_rate, 1};
        std::fill(held.sums.begin(), held.sums.end(), 0.0);
        std::fill(held.norms.begin(), held.norms.end(), 0.0);
        OptimizerSegment segment{0, std::ssize(held.weights), decays, held.norms.data()};
        segment.adafactor = &held.about;
        segment.factors = held.factors.data();
        segment.factor_sums = held.sums.data();
        OptimizerState state{held.weights.data(), held.gradients.data(), nullptr,
                             held.second.data()};
        state.average = average.data();
        const std::span<const OptimizerSegment> one(&segment, 1);
        adafactor_sums(training, scalars, one, state, pool);
        adafactor_norms(training, scalars, one, state, pool);
        optimizer_step(training, scalars, one, state, pool);
        const double rate = relative ? std::min(0.5, 1 / std::sqrt(double(number))) : 0.5;
        double apart = 0;
        for (std::size_t i = 0; i < weights.size(); ++i) {
          if (decays) weights[i] *= 1 - rate * 0.25;
          means[i] = 0.75 * means[i] + 0.25 * weights[i];
          apart = std::max(
              {apart, std::abs(held.weights[i] - weights[i]), std::abs(average[i] - means[i])});
        }
        INFO("decays " << decays << " relative " << relative << " step " << number);
        REQUIRE(apart < 1e-5);
      }
    }
}

// Splits a matrix as ranks may hold it: by rows, by columns in two segments, or by neighbouring
// elements.
TEST_CASE("parts of a matrix step as the whole by adafactor", "[exec][optimizer]") {
  constexpr std::int64_t rows = 40, columns = 96;
  StepSettings training;
  training.optimizer = OptimizerKind::adafactor;
  training.learning_rate = 0.1, training.weight_decay = 0.1;
  training.adafactor.scale_parameter = true;
  std::vector<Held> whole = {whole_parameter(rows, columns)};
  const int way = GENERATE(0, 1, 2);
  std::vector<Held> parts;
  std::vector<std::vector<std::int64_t>> places;  // where each part's elements are in the matrix
  for (int rank = 0; rank < 2; ++rank) {
    Held part = whole_parameter(rows, columns);
    if (way == 0) part.about.places.first = rank * rows / 2 * columns;
    if (way == 1) {
      WholePlaces& p = part.about.places;
      p.held = columns / 2, p.whole = columns, p.segments = 2;
      p.begin[1] = 16;
      p.shift[0] = 16 * rank, p.shift[1] = 16 + 32 * rank;  // of 32 and 64 columns
      part.about.width = columns / 2;
    }
    if (way == 2) part.first = rank == 0 ? 0 : 1000;
    const std::int64_t count = way < 2     ? rows * columns / 2
                               : rank == 0 ? 1000
                                           : rows * columns - 1000;
    std::vector<std::int64_t>& own = places.emplace_back();
    for (std::int64_t i = 0; i < count; ++i)
      own.push_back(whole_place(part.about.places, part.first + i).place);
    for (auto* each : {&part.weights, &part.gradients, &part.second})
      each->resize(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < own.size(); ++i) part.weights[i] = weight(own[i]);
    parts.push_back(std::move(part));
  }
  for (int number = 1; number <= 3; ++number) {
    for (std::size_t i = 0; i < whole[0].gradients.size(); ++i)
      whole[0].gradients[i] = gradient(std::int64_t(i), number);
    for (std::size_t p = 0; p < 2; ++p)
      for (std::size_t i = 0; i < places[p].size(); ++i)
        parts[p].gradients[i] = gradient(places[p][i], number);
    step(training, number, whole);
    step(training, number, parts);
    std::vector<int> seen(rows * columns);
    for (std::size_t p = 0; p < 2; ++p)
      for (std::size_t i = 0; i < places[p].size(); ++i) {
        const auto at = static_cast<std::size_t>(places[p][i]);
        ++seen[at];
        CHECK(parts[p].weights[i] == Approx(whole[0].weights[at]).margin(1e-6));
      }
    CHECK(seen == std::vector<int>(rows * columns, 1));
    for (std::size_t i = 0; i < whole[0].factors.size(); ++i)
      for (const Held& part : parts) CHECK(part.factors[i] == Approx(whole[0].factors[i]));
  }
}
