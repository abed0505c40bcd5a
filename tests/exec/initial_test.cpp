#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "exec/core/philox.h"
#include "exec/core/sha256.h"
#include "exec/runtime/initial.h"
#include "exec/runtime/parameter_runs.h"
#include "tests/catch.h"

using namespace meshwright::tests;

namespace {

// Returns a parameter that is split over `degree` ranks, such as a fused q|k|v weight [8, 3*h]
// split by columns, or a vocabulary of 5 padded to 8 and split by rows.
Parameter cut_parameter(Shape global, Shape padded, Cut cut, int degree) {
  Parameter parameter;
  parameter.name = "transformer.h.0.attn.c_attn.weight";
  parameter.global_shape = global;
  parameter.padded_shape = padded;
  parameter.shape = padded;
  parameter.cut = std::move(cut);
  if (degree > 1) {
    parameter.is_cut = true;
    parameter.shape[parameter.cut.dim] /= degree;
  }
  return parameter;
}

std::vector<float> initial(const Parameter& parameter, int rank, int degree) {
  std::vector<float> values(static_cast<std::size_t>(parameter.shape.elements()));
  fill_initial(parameter, {7, 4, {rank, degree}}, 0, parameter.shape.elements(), values.data());
  return values;
}

}  // namespace

TEST_CASE("Philox4x32-10 gives the published test vectors", "[exec][runtime]") {
  // The known answers that Salmon et al. publish with their library.
  CHECK(philox({0, 0, 0, 0}, {0, 0}) ==
        PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  constexpr std::uint32_t ones = 0xffffffff;
  CHECK(philox({ones, ones, ones, ones}, {ones, ones}) ==
        PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("initial values have the mean and deviation that they should", "[exec][runtime]") {
  Parameter parameter;
  parameter.name = "wte.weight";
  parameter.global_shape = parameter.padded_shape = parameter.shape = {1000, 1000};
  const double n = 1e6;
  for (const auto& [kind, deviation] :
       {std::pair{Initial::normal, 0.02}, {Initial::residual_normal, 0.02 / std::sqrt(8.0)}}) {
    parameter.initial = kind;
    double sum = 0, squares = 0;
    for (float x : initial(parameter, 0, 1)) sum += x, squares += double(x) * x;
    // The bounds are five standard errors: deviation / sqrt(n) for the mean, and sqrt(2 / n),
    // relative, for the variance.
    CHECK(std::abs(sum / n) < 5 * deviation / std::sqrt(n));
    CHECK(squares / n == Approx(deviation * deviation).epsilon(5 * std::sqrt(2 / n)));
  }
  parameter.initial = Initial::ones;
  CHECK(initial(parameter, 0, 1)[12345] == 1.0f);
  parameter.initial = Initial::zeros;
  CHECK(initial(parameter, 0, 1)[12345] == 0.0f);
}

TEST_CASE("a different name, seed or element gives another value", "[exec][runtime]") {
  Parameter parameter;
  parameter.name = "a";
  parameter.global_shape = parameter.padded_shape = parameter.shape = {8};
  const std::vector<float> first = initial(parameter, 0, 1);
  for (int i = 1; i < 8; ++i) CHECK(first[0] != first[static_cast<std::size_t>(i)]);
  parameter.name = "b";
  CHECK(initial(parameter, 0, 1) != first);
  std::vector<float> other(8);
  parameter.name = "a";
  fill_initial(parameter, {8, 4, {}}, 0, 8, other.data());
  CHECK(other != first);
  // Any part can be computed alone.
  fill_initial(parameter, {7, 4, {}}, 3, 4, other.data());
  CHECK(std::vector<float>(other.begin(), other.begin() + 4) ==
        std::vector<float>(first.begin() + 3, first.begin() + 7));
}

TEST_CASE("an expert's initial values are those of its published tensor", "[exec][runtime]") {
  Parameter experts;
  experts.name = "model.layers.1.block_sparse_moe.experts.*.w2.weight";
  experts.global_shape = experts.padded_shape = experts.shape = {4, 3, 5};
  experts.cut = {0, {4}};
  experts.of_experts = true;
  const std::vector<float> whole = initial(experts, 0, 1);
  for (int e = 0; e < 4; ++e) {
    Parameter one;
    one.name = "model.layers.1.block_sparse_moe.experts." + std::to_string(e) + ".w2.weight";
    one.global_shape = one.padded_shape = one.shape = {3, 5};
    CHECK(initial(one, 0, 1) ==
          std::vector<float>(whole.begin() + 15 * e, whole.begin() + 15 * (e + 1)));
  }
  Parameter share = experts;  // the last two experts, on the second of two ranks
  share.is_cut_by_experts = true;
  share.shape = {2, 3, 5};
  CHECK(whole_place(places_of(share, {0, 1, 1, 2}), 4).place == 34);
  share.is_cut = true;  // one column, on the second of five tensor ranks
  share.shape = {2, 3, 1};
  share.cut = {2, {5}};
  for (std::int64_t i = 0; i < 6; ++i)
    CHECK(whole_place(places_of(share, {1, 5, 1, 2}), i).place == 30 + 5 * i + 1);
  experts.is_cut = true;
  experts.shape = {2, 3, 5};
  CHECK(initial(experts, 1, 2) == std::vector<float>(whole.begin() + 30, whole.end()));
}

TEST_CASE("the ranks of a tensor group hold slices of the whole", "[exec][runtime]") {
  struct Case {
    Shape global, padded;
    Cut cut;
  };
  const Case cases[] = {
      {{6, 24}, {6, 24}, {1, {8, 8, 8}}},  // q|k|v, [in, out]
      {{24, 6}, {24, 6}, {0, {8, 8, 8}}},  // q|k|v, [out, in]
      {{24}, {24}, {0, {16, 4, 4}}},       // a fused bias with grouped queries
      {{5, 6}, {8, 6}, {0, {8}}},          // a padded vocabulary
      {{6, 5}, {6, 8}, {1, {8}}},
  };
  for (const Case& c : cases)
    for (int degree : {1, 2, 4}) {
      CAPTURE(c.global[0], c.global.rank, degree);
      const std::vector<float> whole = initial(cut_parameter(c.global, c.global, {}, 1), 0, 1);
      std::vector<int> seen(whole.size(), 0);
      std::int64_t padding = 0;
      for (int rank = 0; rank < degree; ++rank) {
        const Parameter parameter = cut_parameter(c.global, c.padded, c.cut, degree);
        const WholePlaces places = places_of(parameter, {rank, degree});
        const std::vector<float> values = initial(parameter, rank, degree);
        std::int64_t local = 0;
        for (const ParameterRun& run : runs_of(parameter, {rank, degree})) {
          REQUIRE(run.local == local);
          local += run.count;
          for (std::int64_t i = 0; i < run.count; ++i) {
            const float value = values[static_cast<std::size_t>(run.local + i)];
            if (run.global < 0) {
              CHECK(value == 0.0f);
              ++padding;
            } else {
              CHECK(value == whole[static_cast<std::size_t>(run.global + i)]);
              const WholePlace place = whole_place(places, run.local + i);
              CHECK(place.place == run.global + i);
              CHECK(place.count >= 1);
              if (i + place.count < run.count)  // the run goes on as another row, or segment
                CHECK(whole_place(places, run.local + i + place.count).place ==
                      place.place + place.count);
              ++seen[static_cast<std::size_t>(run.global + i)];
            }
          }
        }
        REQUIRE(local == parameter.shape.elements());
      }
      CHECK(seen == std::vector<int>(whole.size(), 1));
      CHECK(padding == c.padded.elements() - c.global.elements());
    }
  // The runs of q|k|v on 2 ranks, written out: rank 1 of [24] in segments 16, 4, 4 holds 8-15,
  // 18-19, 22-23.
  const Parameter bias = cut_parameter({24}, {24}, {0, {16, 4, 4}}, 2);
  const std::vector<ParameterRun> runs = runs_of(bias, {1, 2});
  REQUIRE(runs.size() == 3);
  CHECK((runs[0].global == 8 && runs[0].count == 8));
  CHECK((runs[1].global == 18 && runs[1].local == 8 && runs[1].count == 2));
  CHECK((runs[2].global == 22 && runs[2].local == 10));
}

TEST_CASE("any part of a cut tensor has the runs of the whole", "[exec][runtime]") {
  // This is q|k|v of a padded [5, 12] on rank 1 of 2: columns 2-3, 6-7, 10-11 of 5 published rows.
  const Parameter parameter = cut_parameter({5, 12}, {6, 12}, {1, {4, 4, 4}}, 2);
  const std::vector<float> whole = initial(parameter, 1, 2);
  for (std::int64_t begin = 0; begin < 36; ++begin)
    for (std::int64_t count = 0; begin + count <= 36; ++count) {
      std::vector<float> part(static_cast<std::size_t>(count));
      fill_initial(parameter, {7, 4, {1, 2}}, begin, count, part.data());
      const auto from = whole.begin() + begin;
      REQUIRE(std::equal(part.begin(), part.end(), from));
      std::int64_t seen = 0;
      visit_runs(parameter, {1, 2}, begin, count, [&](const ParameterRun& run) {
        REQUIRE(run.local == begin + seen);
        seen += run.count;
      });
      REQUIRE(seen == count);
    }
}

TEST_CASE("SHA-256 gives the published test vectors, however the text is cut", "[exec][runtime]") {
  const auto digest = [](const std::string& text, std::size_t piece) {
    Sha256 sum;
    for (std::size_t at = 0; at < text.size(); at += piece)
      sum.add(text.data() + at, std::min(piece, text.size() - at));
    return sum.hex();
  };
  // These are FIPS 180-4's examples.
  CHECK(digest("", 1) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(digest("abc", 3) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 5) ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  for (std::size_t piece : {1, 63, 64, 65, 1000})
    CHECK(digest(std::string(1000000, 'a'), piece) ==
          "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}
