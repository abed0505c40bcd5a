#include "exec/backends/cuda/optimizer/optimizer.h"

#include "exec/backends/cuda/device/launch.h"
#include "exec/backends/cuda/optimizer/states.cuh"
#include "models/core/error.h"

namespace meshwright::cuda {

namespace {

constexpr int threads = 256;
// A thread moves four neighbours at a time: 16 bytes of fp32, and a warp's are 512 in a row.
constexpr int groups_per_chunk = threads * 4;

__device__ bool is_finite(double x) { return x - x == 0; }

__global__ void update_loss_scale_kernel(LossScale rule, const double* loss,
                                         const double* squared_norm, UpdateScalars* scalars,
                                         float* loss_scale) {
  const LossScaleState state = scalars->loss_scale;
  scalars->inverse_scale = 1 / state.scale;
  scalars->skips = 0;
  if (!is_finite(*loss)) return;
  const bool overflow = !is_finite(*squared_norm);
  if (overflow) scalars->skips = 1;
  scalars->loss_scale = after_step(rule, state, overflow);
  *loss_scale = static_cast<float>(scalars->loss_scale.scale);
}

// What of a step's settings the factors are made of.
struct Rates {
  double beta1, beta2, epsilon, decay, momentum, average;
  float limit;
};

__global__ void prepare_update_kernel(Rates rates, const double* loss, const double* squared_norm,
                                      UpdateScalars* scalars) {
  const double inverse = scalars->inverse_scale * scalars->of_mean,
               norm = sqrt(*squared_norm) * inverse;
  const bool updates = scalars->skips == 0 && is_finite(*loss) && is_finite(norm);
  scalars->updates = updates ? 1 : 0;
  if (!updates) return;
  const double clip = scalars->gradient_clip, fitting = clip / (norm + 1e-6);
  const double factor = (clip <= 0 || fitting > 1 ? 1 : fitting) * inverse;
  const double step = static_cast<double>(++scalars->step), rate = scalars->learning_rate;
  const double correction_1 = 1 - pow(rates.beta1, step), correction_2 = 1 - pow(rates.beta2, step);
  scalars->gradient_factor = factor;
  Factors& f = scalars->factors;
  f.gradient = static_cast<float>(factor);
  f.beta1 = static_cast<float>(rates.beta1);
  f.beta2 = static_cast<float>(rates.beta2);
  f.one_minus_beta1 = static_cast<float>(1 - rates.beta1);
  f.one_minus_beta2 = static_cast<float>(1 - rates.beta2);
  f.inverse_correction = static_cast<float>(1 / correction_1);
  f.step_size = static_cast<float>(rate / correction_1);
  f.inverse_root_2 = static_cast<float>(1 / sqrt(correction_2));
  f.epsilon = static_cast<float>(rates.epsilon);
  f.decay = static_cast<float>(rates.decay);
  f.learning_rate = static_cast<float>(rate);
  f.momentum = static_cast<float>(rates.momentum);
  f.limit = rates.limit;
  f.average = static_cast<float>(rates.average);
}

// One element, and what its segment adds to the factors.
struct Element {
  float weight, gradient, first, second;
};
struct OfSegment {
  float decay, trust;
};

// What a rule reads beside weights and the first moment, and whether the moments are written.
struct Reads {
  bool gradient, second, writes_moments;
};

__device__ float gradient_in(const Factors& c, const Element& e) {
  return fminf(fmaxf(e.gradient * c.gradient, -c.limit), c.limit);
}

// `coupled`: decay is part of the gradient (adam); otherwise `shrink` multiplies the weights.
__device__ void adam(const Factors& c, float coupled, float shrink, Element& e) {
  const float g = gradient_in(c, e) + coupled * e.weight;
  e.first = c.beta1 * e.first + c.one_minus_beta1 * g;
  e.second = c.beta2 * e.second + c.one_minus_beta2 * g * g;
  e.weight =
      e.weight * shrink - c.step_size * e.first / (sqrtf(e.second) * c.inverse_root_2 + c.epsilon);
}

struct AdamW {
  static constexpr Reads reads{true, true, true};
  static __device__ void apply(const Factors& c, const OfSegment& s, Element& e) {
    adam(c, 0, 1 - c.learning_rate * s.decay, e);
  }
};

struct Adam {
  static constexpr Reads reads{true, true, true};
  static __device__ void apply(const Factors& c, const OfSegment& s, Element& e) {
    adam(c, s.decay, 1, e);
  }
};

struct Sgd {
  static constexpr Reads reads{true, false, true};
  static __device__ void apply(const Factors& c, const OfSegment& s, Element& e) {
    e.first = c.momentum * e.first + gradient_in(c, e) + s.decay * e.weight;
    e.weight -= c.learning_rate * e.first;
  }
};

struct Lion {
  static constexpr Reads reads{true, false, true};
  static __device__ void apply(const Factors& c, const OfSegment& s, Element& e) {
    const float g = gradient_in(c, e);
    const float update = c.beta1 * e.first + c.one_minus_beta1 * g;
    const float sign = static_cast<float>(update > 0) - static_cast<float>(update < 0);
    e.first = c.beta2 * e.first + c.one_minus_beta2 * g;
    e.weight = e.weight * (1 - c.learning_rate * s.decay) - c.learning_rate * sign;
  }
};

// What lamb would subtract, but for the learning rate and the trust.
__device__ float lamb_update(const Factors& c, const OfSegment& s, const Element& e) {
  return e.first * c.inverse_correction / (sqrtf(e.second) * c.inverse_root_2 + c.epsilon) +
         s.decay * e.weight;
}

// The moments are up to date.
struct Lamb {
  static constexpr Reads reads{false, true, false};
  static __device__ void apply(const Factors& c, const OfSegment& s, Element& e) {
    e.weight -= c.learning_rate * s.trust * lamb_update(c, s, e);
  }
};

// The update is orthogonal already, and takes the gradient's place.
struct Muon {
  static constexpr Reads reads{true, false, false};
  static __device__ void apply(const Factors& c, const OfSegment& s, Element& e) {
    e.weight = e.weight * (1 - c.learning_rate * s.decay) - c.learning_rate * s.trust * e.gradient;
  }
};

struct LambMoments {
  static constexpr Reads reads{true, true, true};
  static __device__ void apply(const Factors& c, Element& e) {
    const float g = gradient_in(c, e);
    e.first = c.beta1 * e.first + c.one_minus_beta1 * g;
    e.second = c.beta2 * e.second + c.one_minus_beta2 * g * g;
  }
};

template <Reads reads, typename A>
__device__ Element element_at(const A& a, std::int64_t i) {
  return {weight_at(a.weights, a.working, i), reads.gradient ? widened(a.gradients[i]) : 0.0f,
          widened(a.first[i]), reads.second ? widened(a.second[i]) : 0.0f};
}

// What the states of a segment's elements are written with: what moments are rounded by, and how
// far averages move.
struct Writing {
  const DeviceSegment& segment;
  std::int64_t update;
  float average;
};

template <Reads reads, typename A>
__device__ void put(const A& a, std::int64_t i, const Element& e, bool weights,
                    const Writing& writing) {
  if constexpr (reads.writes_moments) {
    float first[1] = {e.first}, second[1] = {e.second};
    Roundings<typename A::Moment, 1>(writing.segment, writing.update, i).apply(first, second);
    narrow(first[0], a.first[i]);
    if (reads.second) narrow(second[0], a.second[i]);
  }
  if (weights) put_weight(a.weights, a.working, i, e.weight);
  if (weights && a.average != nullptr) a.average[i] += writing.average * (e.weight - a.average[i]);
}

template <Reads reads, typename A>
__device__ void elements_at(const A& a, std::int64_t i, Element (&e)[group]) {
  float weight[group], gradient[group] = {}, first[group], second[group] = {};
  load_weights(a.weights, a.working, i, weight);
  if (reads.gradient) load<group>(a.gradients + i, gradient);
  load<group>(a.first + i, first);
  if (reads.second) load<group>(a.second + i, second);
#pragma unroll
  for (int j = 0; j < group; ++j) e[j] = {weight[j], gradient[j], first[j], second[j]};
}

template <Reads reads, typename A>
__device__ void put(const A& a, std::int64_t i, const Element (&e)[group], bool weights,
                    const Writing& writing) {
  float weight[group], first[group], second[group];
#pragma unroll
  for (int j = 0; j < group; ++j)
    weight[j] = e[j].weight, first[j] = e[j].first, second[j] = e[j].second;
  if constexpr (reads.writes_moments) {
    Roundings<typename A::Moment, group>(writing.segment, writing.update, i).apply(first, second);
    store<group>(a.first + i, first);
    if (reads.second) store<group>(a.second + i, second);
  }
  if (weights) store_weights(a.weights, a.working, i, weight);
  if (!weights || a.average == nullptr) return;
  float average[group];
  load<group>(a.average + i, average);
#pragma unroll
  for (int j = 0; j < group; ++j) average[j] += writing.average * (weight[j] - average[j]);
  store<group>(a.average + i, average);
}

// The last segment that does not begin after the chunk.
__device__ const DeviceSegment& segment_of(const DeviceSegments& segments, std::int64_t chunk) {
  int low = 0, high = segments.count;
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (segments.data[middle].first_chunk <= chunk ? low : high) = middle;
  }
  return segments.data[low];
}

// Calls work(element) on those of the block's chunk and puts them back, in groups where it can. A
// chunk begins where a group does, perhaps before its segment.
template <Reads reads, typename A, typename Work>
__device__ void for_each_element(const DeviceSegment& segment, const A& arrays, bool weights,
                                 const UpdateScalars& scalars, const Work& work) {
  const Writing writing{segment, scalars.step, scalars.factors.average};
  const std::int64_t chunk = blockIdx.x - segment.first_chunk;
  const std::int64_t first_group = segment.begin / group + chunk * groups_per_chunk;
  if (arrays.in_groups) {
    for (int g = threadIdx.x; g < groups_per_chunk; g += threads) {
      const std::int64_t i = (first_group + g) * group;
      if (i >= segment.begin && i + group <= segment.end) {
        Element e[group];
        elements_at<reads>(arrays, i, e);
#pragma unroll
        for (int j = 0; j < group; ++j) work(e[j]);
        put<reads>(arrays, i, e, weights, writing);
      } else {
        for (std::int64_t j = i; j < i + group; ++j) {
          if (j < segment.begin || j >= segment.end) continue;
          Element e = element_at<reads>(arrays, j);
          work(e);
          put<reads>(arrays, j, e, weights, writing);
        }
      }
    }
  } else {
    for (int place = threadIdx.x; place < groups_per_chunk * group; place += threads) {
      const std::int64_t i = first_group * group + place;
      if (i < segment.begin || i >= segment.end) continue;
      Element e = element_at<reads>(arrays, i);
      work(e);
      put<reads>(arrays, i, e, weights, writing);
    }
  }
}

// A parameter that is all zeros, or is not to move, is stepped as Adam does.
__device__ float trust_of(const DeviceSegment& segment) {
  if (segment.norms == nullptr || segment.norms[0] <= 0 || segment.norms[1] <= 0) return 1;
  return static_cast<float>(sqrt(segment.norms[0] / segment.norms[1]));
}

__device__ OfSegment of_segment(const DeviceSegment& segment, const Factors& factors) {
  return {segment.decay != 0 ? factors.decay : 0, 1};
}

template <typename Rule, typename A>
__global__ void __launch_bounds__(threads)
    step_kernel(const UpdateScalars* scalars, DeviceSegments segments, A arrays) {
  if (scalars->updates == 0) return;
  const DeviceSegment segment = segment_of(segments, blockIdx.x);
  const Factors factors = scalars->factors;
  OfSegment own = of_segment(segment, factors);
  own.trust = Rule::reads.gradient ? segment.scale : trust_of(segment);
  for_each_element<Rule::reads>(segment, arrays, true, *scalars,
                                [&](Element& e) { Rule::apply(factors, own, e); });
}

template <typename G, typename M>
__global__ void __launch_bounds__(threads)
    muon_momentum_kernel(const UpdateScalars* scalars, DeviceSegments segments, const G* gradients,
                         M* first, float* update) {
  if (scalars->updates == 0) return;
  const DeviceSegment segment = segment_of(segments, blockIdx.x);
  const Factors c = scalars->factors;
  const std::int64_t chunk = blockIdx.x - segment.first_chunk;
  const std::int64_t begin = (segment.begin / group + chunk * groups_per_chunk) * group;
  for (int place = threadIdx.x; place < groups_per_chunk * group; place += threads) {
    const std::int64_t i = begin + place;
    if (i < segment.begin || i >= segment.end) continue;
    Element e{0, widened(gradients[i]), widened(first[i]), 0};
    const float g = gradient_in(c, e);
    e.first = c.momentum * e.first + g;
    float kept[1] = {e.first}, none[1] = {0};
    Roundings<M, 1>(segment, scalars->step, i).apply(kept, none);
    narrow(kept[0], first[i]);
    update[i] = g + c.momentum * e.first;
  }
}

struct SquaredNorms {
  double weights, update;
};

// In an order that depends on `threads` alone; thread 0 has the sum.
__device__ SquaredNorms add_over_block(SquaredNorms own) {
  __shared__ SquaredNorms of_thread[threads];
  of_thread[threadIdx.x] = own;
  for (int half = threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (static_cast<int>(threadIdx.x) >= half) continue;
    of_thread[threadIdx.x].weights += of_thread[threadIdx.x + half].weights;
    of_thread[threadIdx.x].update += of_thread[threadIdx.x + half].update;
  }
  return of_thread[0];
}

template <typename A>
__global__ void __launch_bounds__(threads)
    lamb_moments_kernel(const UpdateScalars* scalars, DeviceSegments segments, A arrays,
                        SquaredNorms* partial) {
  if (scalars->updates == 0) return;
  const DeviceSegment segment = segment_of(segments, blockIdx.x);
  const Factors factors = scalars->factors;
  const OfSegment own = of_segment(segment, factors);
  SquaredNorms sum{0, 0};
  for_each_element<LambMoments::reads>(segment, arrays, false, *scalars, [&](Element& e) {
    LambMoments::apply(factors, e);
    const double w = e.weight, u = lamb_update(factors, own, e);
    sum.weights += w * w;
    sum.update += u * u;
  });
  sum = add_over_block(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// A block for each segment; the first of a parameter adds those of the others.
__global__ void __launch_bounds__(threads)
    lamb_norms_kernel(const UpdateScalars* scalars, DeviceSegments segments,
                      const SquaredNorms* partial) {
  if (scalars->updates == 0) return;
  const DeviceSegment& first = segments.data[blockIdx.x];
  if (first.norms == nullptr || first.is_first == 0) return;
  SquaredNorms sum{0, 0};
  for (int s = blockIdx.x; s >= 0; s = segments.data[s].next_of_parameter) {
    if (segments.data[s].counted == 0) continue;
    const std::int64_t end =
        s + 1 < segments.count ? segments.data[s + 1].first_chunk : segments.chunks;
    for (std::int64_t c = segments.data[s].first_chunk + threadIdx.x; c < end; c += threads) {
      sum.weights += partial[c].weights;
      sum.update += partial[c].update;
    }
  }
  sum = add_over_block(sum);
  if (threadIdx.x != 0) return;
  first.norms[0] += sum.weights;
  first.norms[1] += sum.update;
}

// A block for each bias.
template <typename P, typename W>
__global__ void __launch_bounds__(threads)
    choice_biases_kernel(const UpdateScalars* scalars, const ChoiceBias* biases, P* weights,
                         W* working, float rate) {
  if (scalars->updates == 0) return;
  const ChoiceBias bias = biases[blockIdx.x];
  double all = 0;  // whole numbers: of any order the same
  for (std::int64_t e = 0; e < bias.experts; ++e) all += bias.counts[e];
  for (std::int64_t i = threadIdx.x; i < bias.count; i += threads) {
    const double missing = all - static_cast<double>(bias.experts) * bias.counts[bias.first + i];
    const float sign = static_cast<float>(missing > 0) - static_cast<float>(missing < 0);
    const std::int64_t at = bias.begin + i;
    put_weight(weights, working, at, weight_at(weights, working, at) + rate * sign);
  }
}

// Counted from the group in which the segment begins.
std::int64_t chunks_of(std::int64_t begin, std::int64_t end) {
  const std::int64_t groups = (end + group - 1) / group - begin / group;
  return (groups + groups_per_chunk - 1) / groups_per_chunk;
}

Shape3 blocks_of(const DeviceSegments& segments) { return {blocks_for(segments.chunks, 1)}; }

template <typename Rule>
void step_by(const UpdateScalars* scalars, const DeviceSegments& segments,
             const OptimizerState& state, cudaStream_t stream) {
  with_arrays<Rule::reads.writes_moments>(state, [&]<typename A>(const A& arrays) {
    launch(step_kernel<Rule, A>, blocks_of(segments), {threads}, 0, stream, scalars, segments,
           arrays);
  });
}

}  // namespace

std::vector<DeviceSegment> device_segments(std::span<const OptimizerSegment> segments) {
  std::vector<DeviceSegment> made;
  std::int64_t chunks = 0;
  for (const OptimizerSegment& segment : segments) {
    if (segment.count == 0) continue;
    const std::int64_t end = segment.begin + segment.count;
    DeviceSegment& last = made.emplace_back(DeviceSegment{
        segment.begin, end, chunks, segment.norms, -1, segment.decay, segment.counted, true,
        segment.matrix == nullptr ? 1.0F : static_cast<float>(muon_scale(*segment.matrix)),
        segment.rounding == nullptr ? RandomRounding{} : *segment.rounding, segment.first});
    chunks += chunks_of(segment.begin, end);
    for (std::size_t i = made.size() - 1; i-- > 0 && segment.norms != nullptr;) {
      if (made[i].norms != segment.norms) continue;
      made[i].next_of_parameter = static_cast<std::int32_t>(made.size() - 1);
      last.is_first = false;
      break;
    }
  }
  return made;
}

DeviceSegments segments_at(const DeviceSegment* copy, const std::vector<DeviceSegment>& segments) {
  if (segments.empty()) return {};
  const DeviceSegment& last = segments.back();
  return {copy, static_cast<int>(segments.size()),
          last.first_chunk + chunks_of(last.begin, last.end)};
}

void update_loss_scale(const LossScale& rule, const double* loss, const double* squared_norm,
                       UpdateScalars* scalars, float* loss_scale, cudaStream_t stream) {
  launch(update_loss_scale_kernel, {1}, {1}, 0, stream, rule, loss, squared_norm, scalars,
         loss_scale);
}

void prepare_update(const StepSettings& training, const double* loss, const double* squared_norm,
                    UpdateScalars* scalars, cudaStream_t stream) {
  const Rates rates{training.beta1,
                    training.beta2,
                    training.epsilon,
                    training.weight_decay,
                    training.momentum,
                    1 - training.ema_decay,
                    limit_of(training.gradient_clip_value)};
  launch(prepare_update_kernel, {1}, {1}, 0, stream, rates, loss, squared_norm, scalars);
}

void muon_momentum(const UpdateScalars* scalars, const DeviceSegments& segments,
                   const OptimizerState& state, cudaStream_t stream) {
  with_type(state.gradient_type, [&]<typename G>(G) {
    with_moments<true>(state, [&]<typename M>(M) {
      launch(muon_momentum_kernel<G, M>, blocks_of(segments), {threads}, 0, stream, scalars,
             segments, static_cast<const G*>(state.gradients), static_cast<M*>(state.first_moment),
             state.update);
    });
  });
}

void optimizer_step(const StepSettings& training, const UpdateScalars* scalars,
                    const DeviceSegments& segments, const OptimizerState& state,
                    cudaStream_t stream) {
  if (state.update != nullptr) {
    OptimizerState with_update = state;  // nothing is written to the moments
    with_update.gradients = with_update.first_moment = with_update.second_moment = state.update;
    with_update.gradient_type = with_update.moment_type = Dtype::f32;
    with_update.update = nullptr;
    return step_by<Muon>(scalars, segments, with_update, stream);
  }
  switch (training.optimizer) {
    case OptimizerKind::muon:  // what is no matrix
    case OptimizerKind::adamw:
      return step_by<AdamW>(scalars, segments, state, stream);
    case OptimizerKind::adam:
      return step_by<Adam>(scalars, segments, state, stream);
    case OptimizerKind::sgd:
      return step_by<Sgd>(scalars, segments, state, stream);
    case OptimizerKind::lion:
      return step_by<Lion>(scalars, segments, state, stream);
    case OptimizerKind::lamb:
      return step_by<Lamb>(scalars, segments, state, stream);
  }
}

void lamb_norms(const StepSettings&, const UpdateScalars* scalars, const DeviceSegments& segments,
                const OptimizerState& state, void* partial, cudaStream_t stream) {
  auto* sums = static_cast<SquaredNorms*>(partial);
  with_arrays<true>(state, [&]<typename A>(const A& arrays) {
    launch(lamb_moments_kernel<A>, blocks_of(segments), {threads}, 0, stream, scalars, segments,
           arrays, sums);
  });
  launch(lamb_norms_kernel, {blocks_for(segments.count, 1)}, {threads}, 0, stream, scalars,
         segments, sums);
}

void update_choice_biases(double rate, const UpdateScalars* scalars, const ChoiceBias* biases,
                          std::int64_t count, const OptimizerState& state, cudaStream_t stream) {
  with_masters(state, [&]<typename P, typename W>() {
    launch(choice_biases_kernel<P, W>, {blocks_for(count, 1)}, {threads}, 0, stream, scalars,
           biases, static_cast<P*>(state.weights), static_cast<W*>(state.working),
           static_cast<float>(rate));
  });
}

std::int64_t lamb_scratch_bytes(const DeviceSegments& segments) {
  return segments.chunks * static_cast<std::int64_t>(sizeof(SquaredNorms));
}

}  // namespace meshwright::cuda
