// Compares the optimizer's kernels on the emulated device with exec/optimizer.
#include "exec/backends/cuda/optimizer/optimizer.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "exec/core/half.h"
#include "exec/optimizer/learning_rate.h"
#include "exec/optimizer/loss_scale.h"
#include "exec/optimizer/remainders.h"
#include "tests/catch.h"
#include "tests/exec/device_array.h"
#include "tests/exec/tested_device.h"

using namespace meshwright::tests;

namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
constexpr OptimizerKind all_kinds[] = {OptimizerKind::adamw, OptimizerKind::adam,
                                       OptimizerKind::sgd, OptimizerKind::lamb,
                                       OptimizerKind::lion};

// Weights, moments and gradients of one bucket, on which both sides run the step.
struct Elements {
  std::vector<float> weights, first, second, gradients;
  std::vector<std::uint16_t> narrow_gradients, working;
  Dtype gradient_type, working_type;  // f32: no working copy

  // Gradients are multiples of 1/8 from 1/8 on. They have few digits, so that products with powers
  // of two and sums of a few of them are exact.
  Elements(std::size_t count, Dtype gradient, Dtype copy)
      : weights(count),
        first(count, 0.25F),
        second(count, 0.0625F),
        gradients(count),
        narrow_gradients(count),
        working(count, 0xFFFF),
        gradient_type(gradient),
        working_type(copy) {
    for (std::size_t i = 0; i < count; ++i) weights[i] = float(std::sin(double(i)));
    new_gradients(1);
  }
  void new_gradients(std::size_t step) {
    for (std::size_t i = 0; i < gradients.size(); ++i)
      gradients[i] = float(1 + i * step % 13) * (i % 3 == 0 ? -0.125F : 0.125F);
    if (gradient_type != Dtype::f32)
      narrow(gradients.data(), gradient_type, std::ssize(gradients), narrow_gradients.data());
  }
  std::int64_t size() const { return std::ssize(weights); }
};

void step_on_cpu(const StepSettings& training, const OptimizerScalars& scalars,
                 const std::vector<OptimizerSegment>& segments, Elements& b) {
  ThreadPool pool(1);
  OptimizerState state{b.weights.data(), b.gradients.data(), b.first.data(), b.second.data()};
  if (b.gradient_type != Dtype::f32) state.gradients = b.narrow_gradients.data();
  state.gradient_type = b.gradient_type;
  state.working_type = b.working_type;
  if (b.working_type != Dtype::f32) state.working = b.working.data();
  if (training.optimizer == OptimizerKind::lamb)
    lamb_norms(training, scalars, segments, state, pool);
  optimizer_step(training, scalars, segments, state, pool);
}

// The bucket in device memory, with every array `offset` elements past an aligned address.
class OnDevice {
 public:
  OnDevice(const Elements& b, const std::vector<OptimizerSegment>& segments, std::size_t offset = 0)
      : made_(cuda::device_segments(segments)),
        segments_(made_),
        weights_(b.weights, offset),
        first_(b.first, offset),
        second_(b.second, offset),
        gradients_(b.gradients, offset),
        narrow_gradients_(b.narrow_gradients, offset),
        working_(b.working, offset),
        partial_(std::vector<double>(static_cast<std::size_t>(
            cuda::lamb_scratch_bytes(cuda::segments_at(nullptr, made_)) / 8 + 1))) {
    state_ = {weights_.data(), gradients_.data(), first_.data(), second_.data()};
    if (b.gradient_type != Dtype::f32) state_.gradients = narrow_gradients_.data();
    state_.gradient_type = b.gradient_type;
    state_.working_type = b.working_type;
    if (b.working_type != Dtype::f32) state_.working = working_.data();
  }

  void step(const StepSettings& training, const UpdateScalars* scalars, cudaStream_t stream) const {
    const cuda::DeviceSegments segments = cuda::segments_at(segments_.data(), made_);
    if (training.optimizer == OptimizerKind::lamb)
      cuda::lamb_norms(training, scalars, segments, state_, partial_.data(), stream);
    cuda::optimizer_step(training, scalars, segments, state_, stream);
  }
  void put(const Elements& b) {
    weights_.set(b.weights), first_.set(b.first), second_.set(b.second);
    gradients_.set(b.gradients), narrow_gradients_.set(b.narrow_gradients);
  }
  Elements get(Elements b) const {
    b.weights = weights_.get(), b.first = first_.get(), b.second = second_.get();
    b.working = working_.get();
    return b;
  }

 private:
  std::vector<cuda::DeviceSegment> made_;
  DeviceArray<cuda::DeviceSegment> segments_;
  DeviceArray<float> weights_, first_, second_, gradients_;
  DeviceArray<std::uint16_t> narrow_gradients_, working_;
  DeviceArray<double> partial_;
  OptimizerState state_;
};

// The inputs and outputs of a step other than its buckets.
struct Scalars {
  DeviceArray<UpdateScalars> of_update{{UpdateScalars{}}};
  DeviceArray<double> loss{{1.0}}, squared_norm{{1.0}};
  DeviceArray<float> loss_scale{{0.0F}};

  UpdateScalars get() const { return of_update.get()[0]; }
  void set(const UpdateScalars& scalars) { of_update.set({scalars}); }
  void learning_rate(double rate) {
    UpdateScalars scalars = get();
    scalars.learning_rate = rate;
    set(scalars);
  }
  void prepare(const StepSettings& training, cudaStream_t stream = nullptr) const {
    cuda::prepare_update(training, loss.data(), squared_norm.data(), of_update.data(), stream);
  }
  void move_scale(const LossScale& rule, cudaStream_t stream = nullptr) const {
    cuda::update_loss_scale(rule, loss.data(), squared_norm.data(), of_update.data(),
                            loss_scale.data(), stream);
  }
};

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

bool same_factors(const Factors& a, const Factors& b) { return std::memcmp(&a, &b, sizeof a) == 0; }

// Returns parameters of odd sizes that begin anywhere, with gaps. One spans several chunks of
// threads.
std::vector<OptimizerSegment> odd_segments() {
  return {{0, 1, true},      {1, 6, false},      {9, 3, true},      {12, 4, true},    {17, 0, true},
          {17, 1021, false}, {1040, 9000, true}, {10043, 2, false}, {10047, 65, true}};
}
constexpr std::size_t odd_count = 10115;

// Returns settings with which every product and sum of the moments is exact, so that it makes no
// difference which of them are rounded together.
StepSettings exact_training(OptimizerKind kind) {
  StepSettings training;
  training.optimizer = kind;
  training.beta1 = 0.5;
  training.beta2 = 0.75;
  training.momentum = 0.5;
  training.epsilon = 0;
  training.learning_rate = 0x1p-7;
  return training;
}

}  // namespace

TEST_CASE("where products are exact a step on the device has the CPU's bits", "[exec][cuda]") {
  const Dtype gradient_type = GENERATE(Dtype::f32, Dtype::f16, Dtype::bf16);
  const Dtype working_type = GENERATE(Dtype::f32, Dtype::f16, Dtype::bf16);
  const std::size_t offset = GENERATE(0, 1, 4);
  const double clip = GENERATE(0, 1);  // clips each element
  for (const OptimizerKind kind :
       {OptimizerKind::adamw, OptimizerKind::adam, OptimizerKind::sgd, OptimizerKind::lion}) {
    StepSettings training = exact_training(kind);
    training.gradient_clip_value = clip;
    const auto segments = odd_segments();
    Elements expected(odd_count, gradient_type, working_type);
    OnDevice device(expected, segments, offset);
    Scalars scalars;
    for (int step = 1; step <= 3; ++step) {
      expected.new_gradients(static_cast<std::size_t>(step));
      const Elements before = device.get(expected);
      device.put(expected);
      scalars.learning_rate(training.learning_rate);
      scalars.prepare(training);
      reverse_threads(step == 2);
      device.step(training, scalars.of_update.data(), nullptr);
      const Elements found = device.get(expected);
      reverse_threads(false);
      step_on_cpu(training, {step, training.learning_rate, 1}, segments, expected);
      CHECK(same_bits(found.weights, expected.weights));
      CHECK(same_bits(found.first, expected.first));
      CHECK((moments_of(kind) == 1 || same_bits(found.second, expected.second)));
      CHECK(found.working == expected.working);
      CHECK(found.weights[7] == before.weights[7]);  // between two segments
      CHECK(found.weights[18] != before.weights[18]);
    }
  }
}

namespace {

// The types in which masters and moments are kept.
struct Kept {
  Dtype weights, moments;
  bool moments_at_random = false;
};
constexpr Kept kept_in[] = {{Dtype::f32, Dtype::bf16},        {Dtype::i16, Dtype::f32},
                            {Dtype::i16, Dtype::bf16},        {Dtype::bf16, Dtype::f32},
                            {Dtype::bf16, Dtype::bf16},       {Dtype::f16, Dtype::f32},
                            {Dtype::f32, Dtype::bf16, true},  {Dtype::i16, Dtype::bf16, true},
                            {Dtype::bf16, Dtype::bf16, true}, {Dtype::f16, Dtype::bf16, true}};

// Returns roundings of a whole parameter, of columns of one in two segments, and of parts whose
// offsets are not multiples of four.
std::vector<RandomRounding> roundings() {
  WholePlaces columns, rows, later;
  columns.inner = 4, columns.held = 10, columns.whole = 20;
  columns.segments = 2, columns.begin[1] = 7, columns.shift[0] = 7, columns.shift[1] = 10;
  rows.held = 3, rows.whole = 6, rows.shift[0] = 3, rows.first = 50;
  later.first = 77;
  std::vector<RandomRounding> all;
  for (const WholePlaces& places : {WholePlaces{}, columns, rows, later})
    all.push_back({rounding_key(5, "a") + all.size(), places});
  return all;
}

std::vector<OptimizerSegment> odd_segments_of(const std::vector<RandomRounding>& roundings) {
  std::vector<OptimizerSegment> segments = odd_segments();
  for (std::size_t i = 0; i < segments.size(); ++i) {
    segments[i].rounding = &roundings[i % roundings.size()];
    segments[i].first = static_cast<std::int64_t>(4 * i + i / 4);
  }
  return segments;
}

// Returns the values in a 16-bit type.
std::vector<std::uint16_t> narrowed(const std::vector<float>& values, Dtype type) {
  std::vector<std::uint16_t> result(values.size());
  narrow(values.data(), type, std::ssize(values), result.data());
  return result;
}

}  // namespace

TEST_CASE("states that are kept in 16 bits have the CPU's bits on the device", "[exec][cuda]") {
  const Kept kept = GENERATE(from_range(std::begin(kept_in), std::end(kept_in)));
  const OptimizerKind kind =
      GENERATE(OptimizerKind::adamw, OptimizerKind::adam, OptimizerKind::sgd, OptimizerKind::lion);
  const std::size_t offset = GENERATE(0, 1);
  StepSettings training = exact_training(kind);
  training.ema_decay = 0.5;  // half a difference is exact
  const std::vector<RandomRounding> rounded = roundings();
  const auto segments = odd_segments_of(rounded);
  const Elements begin(odd_count, Dtype::bf16, Dtype::bf16);
  std::vector<float> average = begin.weights;
  const DeviceArray<float> d_average(average, offset);
  const bool has_copy = kept.weights == Dtype::f32 || kept.weights == Dtype::i16;
  // The arrays of both sides are masters, their bf16 copy or the weights themselves, remainders,
  // and moments.
  std::vector<float> masters = begin.weights, first = begin.first, second = begin.second;
  std::vector<std::uint16_t> weights =
      narrowed(begin.weights, has_copy ? Dtype::bf16 : kept.weights);
  std::vector<std::uint16_t> remainders(odd_count), first_16 = narrowed(first, Dtype::bf16),
                                                    second_16 = narrowed(second, Dtype::bf16);
  if (has_copy)
    split(masters.data(), std::ssize(masters), reinterpret_cast<BFloat16*>(weights.data()),
          reinterpret_cast<std::int16_t*>(remainders.data()));
  DeviceArray<float> d_masters(masters, offset), d_first(first, offset), d_second(second, offset);
  DeviceArray<std::uint16_t> d_weights(weights, offset), d_remainders(remainders, offset),
      d_first_16(first_16, offset), d_second_16(second_16, offset);
  DeviceArray<std::uint16_t> d_gradients(begin.narrow_gradients, offset);
  const auto state_of = [&](auto& m, auto& w, auto& r, auto& f, auto& s, auto& f16, auto& s16,
                            const void* gradients) {
    OptimizerState state;
    state.weights = kept.weights == Dtype::f32   ? static_cast<void*>(m.data())
                    : kept.weights == Dtype::i16 ? static_cast<void*>(r.data())
                                                 : static_cast<void*>(w.data());
    const bool narrow_moments = kept.moments == Dtype::bf16;
    state.first_moment = narrow_moments ? static_cast<void*>(f16.data()) : f.data();
    state.second_moment = narrow_moments ? static_cast<void*>(s16.data()) : s.data();
    state.gradients = gradients;
    state.weights_type = kept.weights;
    state.gradient_type = state.working_type = Dtype::bf16;
    state.moment_type = kept.moments;
    state.moments_at_random = kept.moments_at_random;
    if (has_copy) state.working = w.data();
    return state;
  };
  OptimizerState on_cpu = state_of(masters, weights, remainders, first, second, first_16, second_16,
                                   begin.narrow_gradients.data());
  OptimizerState on_device = state_of(d_masters, d_weights, d_remainders, d_first, d_second,
                                      d_first_16, d_second_16, d_gradients.data());
  on_cpu.average = average.data();
  on_device.average = d_average.data();
  const auto made = cuda::device_segments(segments);
  const DeviceArray<cuda::DeviceSegment> device_segments(made);
  const cuda::DeviceSegments of_bucket = cuda::segments_at(device_segments.data(), made);
  Scalars scalars;
  ThreadPool pool(1);
  for (int step = 1; step <= 2; ++step) {
    scalars.learning_rate(training.learning_rate);
    scalars.prepare(training);
    const OptimizerScalars of_step{step, training.learning_rate, 1};
    cuda::optimizer_step(training, scalars.of_update.data(), of_bucket, on_device, nullptr);
    optimizer_step(training, of_step, segments, on_cpu, pool);
    CHECK(d_weights.get() == weights);
    CHECK(d_remainders.get() == remainders);
    CHECK(same_bits(d_masters.get(), masters));
    CHECK(same_bits(d_first.get(), first));
    CHECK(same_bits(d_second.get(), second));
    CHECK(d_first_16.get() == first_16);
    CHECK(d_second_16.get() == second_16);
    CHECK(same_bits(d_average.get(), average));
  }
  CHECK(average[0] != begin.weights[0]);
  CHECK(average[7] == begin.weights[7]);  // between two segments
}

// Covers the moments of muon and lamb, for which the device has other kernels.
TEST_CASE("moments of matrices and of lamb are rounded at random as on a CPU", "[exec][cuda]") {
  const OptimizerKind kind = GENERATE(OptimizerKind::muon, OptimizerKind::lamb);
  const StepSettings training = exact_training(kind);
  const std::vector<RandomRounding> rounded = roundings();
  auto segments = odd_segments_of(rounded);
  const Elements begin(odd_count, Dtype::f32, Dtype::f32);
  std::vector<std::uint16_t> first = narrowed(begin.first, Dtype::bf16),
                             second = narrowed(begin.second, Dtype::bf16);
  std::vector<float> weights = begin.weights, update(odd_count);
  const std::vector<float> gradients = begin.gradients;
  const DeviceArray<float> d_weights(weights), d_gradients(gradients), d_update(update);
  const DeviceArray<std::uint16_t> d_first(first), d_second(second);
  const auto state_of = [&](const auto& w, const auto& g, const auto& f, const auto& s,
                            const auto& u) {
    OptimizerState state{const_cast<float*>(w.data()), g.data(),
                         const_cast<std::uint16_t*>(f.data()),
                         const_cast<std::uint16_t*>(s.data())};
    state.moment_type = Dtype::bf16;
    state.moments_at_random = true;
    if (kind == OptimizerKind::muon) state.update = const_cast<float*>(u.data());
    return state;
  };
  const OptimizerState on_cpu = state_of(weights, gradients, first, second, update);
  const OptimizerState on_device = state_of(d_weights, d_gradients, d_first, d_second, d_update);
  const auto made = cuda::device_segments(segments);
  const DeviceArray<cuda::DeviceSegment> device_segments(made);
  const cuda::DeviceSegments of_bucket = cuda::segments_at(device_segments.data(), made);
  const DeviceArray<double> partial(
      std::vector<double>(static_cast<std::size_t>(cuda::lamb_scratch_bytes(of_bucket) / 8 + 1)));
  double norms[2] = {};
  for (OptimizerSegment& segment : segments) segment.norms = norms;
  Scalars scalars;
  ThreadPool pool(1);
  for (int step = 1; step <= 3; ++step) {
    scalars.prepare(training);
    const UpdateScalars* of_update = scalars.of_update.data();
    if (kind == OptimizerKind::muon) {
      cuda::muon_momentum(of_update, of_bucket, on_device, nullptr);
      muon_momentum(training, {step, 0, 1}, segments, on_cpu, pool);
    } else {
      cuda::lamb_norms(training, of_update, of_bucket, on_device, partial.data(), nullptr);
      lamb_norms(training, {step, 0, 1}, segments, on_cpu, pool);
    }
    CHECK(d_first.get() == first);
    CHECK(d_second.get() == second);
    CHECK(same_bits(d_update.get(), update));
  }
}

// If products and sums are inexact, results may differ, because a compiler may round a product and
// a sum together.
TEST_CASE("a step on the device is within two units in the last place of the CPU's",
          "[exec][cuda]") {
  const OptimizerKind kind = GENERATE(from_range(std::begin(all_kinds), std::end(all_kinds)));
  const Dtype type = GENERATE(Dtype::f32, Dtype::f16, Dtype::bf16);
  StepSettings training;
  training.optimizer = kind;
  training.weight_decay = 0.1;
  training.gradient_clip = 3;
  constexpr double norm = 7.5;
  const double of_mean = type == Dtype::f16 ? 2.5 : 1;
  double host_norms[9][2] = {};
  auto segments = odd_segments();
  auto on_device = segments;
  DeviceArray<double> norms(std::vector<double>(18));
  for (std::size_t i = 0; i < segments.size(); ++i) {
    segments[i].norms = host_norms[i];
    on_device[i].norms = norms.data() + 2 * i;
  }
  Elements expected(odd_count, type, type);
  OnDevice device(expected, on_device);
  Scalars scalars;
  UpdateScalars begin;
  begin.gradient_clip = training.gradient_clip;
  begin.of_mean = of_mean;
  scalars.set(begin);
  scalars.squared_norm.set({norm * norm});
  for (int step = 1; step <= 4; ++step) {
    const double rate = 0.01 / step;
    expected.new_gradients(static_cast<std::size_t>(step));
    const Elements before = expected;
    device.put(expected);  // both sides start each step from the same numbers
    norms.set(std::vector<double>(18));
    std::memset(host_norms, 0, sizeof host_norms);
    scalars.learning_rate(rate);
    scalars.prepare(training);
    device.step(training, scalars.of_update.data(), nullptr);
    const Elements found = device.get(expected);
    const OptimizerScalars on_cpu{step, rate,
                                  clip_factor(norm * of_mean, training.gradient_clip) * of_mean};
    step_on_cpu(training, on_cpu, segments, expected);
    CHECK(scalars.get().step == step);
    CHECK(same_factors(scalars.get().factors, factors_of(training, on_cpu)));
    // Returns the largest difference in units in the last place of the largest number in a sum. An
    // update is about as large as the learning rate.
    const auto worst = [](const std::vector<float>& a, const std::vector<float>& b,
                          const std::vector<float>& c, double least) {
      double found_worst = 0;
      for (std::size_t i = 0; i < a.size(); ++i) {
        const double largest = std::max({std::fabs(double(b[i])), std::fabs(double(c[i])), least});
        const double unit = std::ldexp(1.0, std::ilogb(largest) - 23);
        found_worst = std::max(found_worst, std::fabs(double(a[i]) - double(b[i])) / unit);
      }
      return found_worst;
    };
    CHECK(worst(found.weights, expected.weights, before.weights, rate) <= 2);
    // The moment, the clipped gradient and what weight decay adds may be of opposite signs.
    std::vector<float> terms = before.first;
    for (std::size_t i = 0; i < odd_count; ++i)
      terms[i] =
          std::fabs(terms[i]) + std::fabs(before.gradients[i] * float(on_cpu.gradient_factor));
    CHECK(worst(found.first, expected.first, terms, 1e-30) <= 2);
    if (moments_of(kind) == 2)
      CHECK(worst(found.second, expected.second, before.second, 1e-30) <= 2);
    std::vector<std::uint16_t> rounded(odd_count);
    if (type != Dtype::f32) round_masters(found.weights.data(), type, found.size(), rounded.data());
    for (const OptimizerSegment& segment : segments)
      for (std::int64_t i = segment.begin; type != Dtype::f32 && i < segment.begin + segment.count;
           ++i)
        REQUIRE(found.working[std::size_t(i)] == rounded[std::size_t(i)]);
  }
}

TEST_CASE("lamb's norms on the device are sums over all counted segments of a parameter",
          "[exec][cuda]") {
  StepSettings training = exact_training(OptimizerKind::lamb);
  training.weight_decay = 0.5;
  // Parameter 0 has three pieces, one of which another rank counts. Parameter 1 has one piece.
  const std::vector<std::pair<OptimizerSegment, int>> pieces = {
      {{3, 4999, true, nullptr, true}, 0},
      {{5002, 1000, false, nullptr, true}, 1},
      {{6003, 999, true, nullptr, false}, 0},
      {{7002, 3000, true, nullptr, true}, 0}};
  double expected_norms[2][2] = {{5, 7}, {0, 0}};  // added to
  DeviceArray<double> norms(std::vector<double>{5, 7, 0, 0});
  std::vector<OptimizerSegment> segments, on_device;
  for (const auto& [segment, parameter] : pieces) {
    segments.push_back(segment);
    segments.back().norms = expected_norms[parameter];
    on_device.push_back(segment);
    on_device.back().norms = norms.data() + 2 * parameter;
  }
  Elements expected(odd_count, Dtype::f32, Dtype::f32);
  const OnDevice device(expected, on_device, GENERATE(0, 1));
  Scalars scalars;
  scalars.learning_rate(training.learning_rate);
  scalars.prepare(training);
  reverse_threads(GENERATE(false, true));
  device.step(training, scalars.of_update.data(), nullptr);
  const std::vector<double> found = norms.get();
  reverse_threads(false);
  step_on_cpu(training, {1, training.learning_rate, 1}, segments, expected);
  // About ten thousand numbers of one sign are added in double, in another order.
  CHECK(found[0] == Approx(expected_norms[0][0]).epsilon(1e-12));
  CHECK(found[2] == Approx(expected_norms[1][0]).epsilon(1e-12));
  // The product of an update and the decay may be rounded together with its sum.
  CHECK(found[1] == Approx(expected_norms[0][1]).epsilon(1e-7));
  CHECK(found[3] == Approx(expected_norms[1][1]).epsilon(1e-7));
  CHECK(found[0] > 6);
  const Elements stepped = device.get(expected);
  for (const std::size_t i : {3U, 5001U, 5002U, 6003U, 10001U})
    CHECK(stepped.weights[i] == Approx(expected.weights[i]).epsilon(1e-6));
  CHECK(stepped.weights[6002] == expected.weights[6002]);
}

TEST_CASE("the device's loss scale moves as the rule says, and overflows are no steps",
          "[exec][cuda]") {
  const LossScale rule{GENERATE(true, false), 64, 2, 8, 3, 2};
  StepSettings training;
  training.precision = Precision::fp16;
  training.loss_scale = rule;
  Scalars scalars;
  UpdateScalars begin;
  begin.loss_scale = first_state(training);
  begin.gradient_clip = 1;
  scalars.set(begin);
  LossScaleState expected = begin.loss_scale;
  std::int64_t updates = 0;
  const std::string script = "xx..x...xxxxx......n.x.";
  for (const char c : script) {
    const double squared = c == 'x' ? infinite : c == 'n' ? std::nan("") : 36.0;
    const bool overflow = c != '.';
    const double scale = expected.scale;
    scalars.squared_norm.set({squared});
    scalars.learning_rate(0.5);
    scalars.move_scale(rule);
    scalars.prepare(training);
    const UpdateScalars found = scalars.get();
    expected = after_step(rule, expected, overflow);
    updates += overflow ? 0 : 1;
    CHECK(found.loss_scale == expected);
    CHECK(found.inverse_scale == 1 / scale);
    CHECK((found.skips != 0) == overflow);
    CHECK((found.updates != 0) == !overflow);
    CHECK(found.step == updates);
    CHECK(scalars.loss_scale.get()[0] == static_cast<float>(expected.scale));
    if (overflow) continue;
    CHECK(found.gradient_factor == clip_factor(6 / scale, 1) / scale);
    CHECK(same_factors(found.factors, factors_of(training, {static_cast<int>(updates), 0.5,
                                                            found.gradient_factor})));
  }
  CHECK(updates == 13);
}

TEST_CASE("a skipped step, and one whose loss or norm is not finite, change nothing",
          "[exec][cuda]") {
  struct Step {
    double loss, squared_norm;
    bool scales_loss, skips;
  };
  const Step step = GENERATE(Step{1, infinite, true, true}, Step{infinite, 1, true, false},
                             Step{std::nan(""), infinite, true, false},
                             Step{1, infinite, false, false}, Step{std::nan(""), 1, false, false});
  for (const OptimizerKind kind : all_kinds) {
    StepSettings training = exact_training(kind);
    DeviceArray<double> norms({3, 4});
    const std::vector<OptimizerSegment> segments = {{0, 5000, true, norms.data()}};
    const Elements bucket(5001, Dtype::bf16, Dtype::bf16);
    const OnDevice device(bucket, segments);
    Scalars scalars;
    UpdateScalars begin;
    begin.step = 17;
    begin.learning_rate = 1;
    begin.loss_scale = {256, 2, 1, 5};
    begin.updates = 1;  // the step before
    scalars.set(begin);
    scalars.loss_scale.set({256});
    scalars.loss.set({step.loss});
    scalars.squared_norm.set({step.squared_norm});
    const LossScale rule{true, 64, 2, 8, 100, 1};
    if (step.scales_loss) scalars.move_scale(rule);
    scalars.prepare(training);
    device.step(training, scalars.of_update.data(), nullptr);
    const Elements found = device.get(bucket);
    CHECK(same_bits(found.weights, bucket.weights));
    CHECK(same_bits(found.first, bucket.first));
    CHECK(same_bits(found.second, bucket.second));
    CHECK(found.working == bucket.working);
    CHECK(norms.get() == std::vector<double>{3, 4});
    const UpdateScalars after = scalars.get();
    CHECK(after.updates == 0);
    CHECK(after.step == 17);
    CHECK((after.skips != 0) == step.skips);
    CHECK(after.loss_scale ==
          (step.skips ? after_step(rule, begin.loss_scale, true) : begin.loss_scale));
    CHECK(scalars.loss_scale.get()[0] == static_cast<float>(after.loss_scale.scale));
  }
}

TEST_CASE("a captured step goes on by itself: scale, skips and corrections are the device's",
          "[exec][cuda]") {
  StepSettings training = exact_training(OptimizerKind::adamw);
  const LossScale rule{true, 4, 2, 1, 2, 1};
  const auto segments = odd_segments();
  Elements expected(odd_count, Dtype::f32, Dtype::bf16);
  OnDevice device(expected, segments);
  Scalars scalars;
  UpdateScalars begin;
  begin.learning_rate = training.learning_rate;
  begin.loss_scale = {4, 0, 1, 0};
  scalars.set(begin);
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;
  cuda::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  cuda::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "capture");
  scalars.move_scale(rule, stream);
  scalars.prepare(training, stream);
  device.step(training, scalars.of_update.data(), stream);
  cuda::check(cudaStreamEndCapture(stream, &graph), "capture");
  cuda::check(cudaGraphInstantiate(&replay, graph), "graph");
  LossScaleState state = begin.loss_scale;
  int updates = 0;
  for (const bool overflow : {false, true, false, false, false, true, false}) {
    scalars.squared_norm.set({overflow ? infinite : 16.0});
    cuda::check(cudaGraphLaunch(replay, stream), "replay");
    cuda::check(cudaStreamSynchronize(stream), "replay");
    const double scale = state.scale;
    state = after_step(rule, state, overflow);
    if (!overflow)
      step_on_cpu(training, {++updates, training.learning_rate, 1 / scale}, segments, expected);
    const Elements found = device.get(expected);
    CHECK(same_bits(found.weights, expected.weights));
    CHECK(found.working == expected.working);
  }
  CHECK(scalars.get().step == 5);
  CHECK(scalars.get().loss_scale == state);
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
}

TEST_CASE("biases of routers move on a device as on a CPU, or not where a step makes no update",
          "[exec][cuda]") {
  constexpr std::size_t elements = 700, experts = 300;
  std::vector<double> counts(experts);
  for (std::size_t e = 0; e < experts; ++e) counts[e] = double(e * e % 11 + (e == 0 ? 3 : 0));
  const DeviceArray<double> counts_there(counts);
  const std::vector<ChoiceBias> biases = {{3, 300, 0, 300, counts.data()},
                                          {310, 290, 10, 300, counts.data()}};
  std::vector<ChoiceBias> there = biases;
  for (ChoiceBias& bias : there) bias.counts = counts_there.data();
  const DeviceArray<ChoiceBias> biases_there(there);
  for (const Dtype working_type : {Dtype::f32, Dtype::f16, Dtype::bf16})
    for (const int updates : {1, 0}) {
      Elements expected(elements, Dtype::f32, working_type);
      const DeviceArray<float> weights(expected.weights);
      const DeviceArray<std::uint16_t> working(expected.working);
      const auto state = [&](float* of, std::uint16_t* copy) {
        OptimizerState made{of};
        made.working_type = working_type;
        if (working_type != Dtype::f32) made.working = copy;
        return made;
      };
      Scalars scalars;
      UpdateScalars decided = scalars.get();
      decided.updates = updates;
      scalars.set(decided);
      cuda::update_choice_biases(0.001, scalars.of_update.data(), biases_there.data(), 2,
                                 state(weights.data(), working.data()), nullptr);
      if (updates == 1)
        update_choice_biases(0.001, biases,
                             state(expected.weights.data(), expected.working.data()));
      CHECK(same_bits(weights.get(), expected.weights));
      CHECK(working.get() == expected.working);
    }
}
