// Routes tokens to experts, and moves the tokens into the experts' slots and back
// (models/program/graph/experts.h).
#include "models/program/graph/experts.h"

#include <climits>

#include "exec/backends/cuda/device/types.cuh"
#include "exec/backends/cuda/rows/wide_rows.cuh"
#include "exec/backends/cuda/tables.h"

namespace meshwright::exec::cuda {

namespace {

// The sizes and settings of routing. There are [sequences * length] tokens, each with a logit for
// every expert.
struct Routing {
  int sequences, length, experts, chosen, capacity;
  int groups, groups_chosen;
  bool weights_of_all, sigmoid, groups_by_two;
  float weight_scale;
  // For dropless routing: the number of rows that the experts of a part share, the number of these
  // experts, whether choices beyond the rows are an error, and the first row and the number of rows
  // of each expert.
  long long rows_of_part;
  int experts_of_part;
  bool overflow_is_error;
  const int *begins = nullptr, *counts = nullptr;
  explicit Routing(const Attributes& a)
      : sequences(a.micro_batch),
        length(a.sequence_length),
        experts(a.experts),
        chosen(a.experts_per_token),
        capacity(a.expert_capacity),
        groups(a.expert_groups),
        groups_chosen(a.groups_per_token),
        weights_of_all(a.weights_of_all),
        sigmoid(a.sigmoid_scores),
        groups_by_two(a.groups_by_two),
        weight_scale(static_cast<float>(a.expert_weight_scale)),
        rows_of_part(a.expert_rows),
        experts_of_part(a.experts / a.expert_parts),
        overflow_is_error(a.overflow_is_error) {
    MESHWRIGHT_CHECK(experts > 0 && experts <= most_experts && chosen <= experts,
                     "a layer has experts to choose of, but not too many");
  }
  long long tokens() const { return static_cast<long long>(sequences) * length; }
  __device__ int expert_of(int slot) const {
    if (slot < 0) return -1 - slot;
    if (begins == nullptr) return slot / (sequences * capacity);
    int expert = static_cast<int>(slot / rows_of_part) * experts_of_part;
    while (begins[expert] + counts[expert] <= slot) ++expert;
    return expert;
  }
};

// A warp has one token, and each of its lanes has every 32nd expert.
constexpr int experts_of_lane = most_experts / 32;

struct Logits {
  float of_lane[experts_of_lane];
  float maximum, inverse_sum;  // of the softmax

  template <typename T>
  __device__ Logits(const T* row, int experts) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    maximum = -INFINITY;
#pragma unroll
    for (int i = 0; i < experts_of_lane; ++i) {
      const int e = i * 32 + lane;
      of_lane[i] = e < experts ? widened(row[e]) : -INFINITY;
      maximum = fmaxf(maximum, of_lane[i]);
    }
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
      maximum = fmaxf(maximum, __shfl_xor_sync(0xffffffffu, maximum, distance));
    float sum[1] = {0.0f};
#pragma unroll
    for (int i = 0; i < experts_of_lane; ++i)
      if (i * 32 + lane < experts) sum[0] += expf(of_lane[i] - maximum);
    add_over_row<32>(sum);
    inverse_sum = 1.0f / sum[0];
  }
  __device__ float probability(float logit) const { return expf(logit - maximum) * inverse_sum; }
  __device__ float score(float logit, bool sigmoid) const {
    return sigmoid ? 1.0f / (1.0f + expf(-logit)) : probability(logit);
  }
};

// The largest value seen so far and its expert. If values are equal, the expert with the lowest
// number counts.
struct Best {
  float value;
  int expert;
  __device__ void take(float other, int its_expert) {
    if (other > value || (other == value && its_expert < expert)) {
      value = other;
      expert = its_expert;
    }
  }
};

// Returns the best of all lanes' experts. Every lane of the warp gets it.
__device__ Best best_of_lanes(Best best) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    const float other = __shfl_xor_sync(0xffffffffu, best.value, distance);
    best.take(other, __shfl_xor_sync(0xffffffffu, best.expert, distance));
  }
  return best;
}

// Returns a bit for each of the lane's experts, which is set if the token may not choose the expert
// because its group is not among the best groups_chosen groups. A group is as good as its best
// expert or, with groups_by_two, as the sum of its best two. `ranks` are the lane's experts' scores
// plus biases.
__device__ unsigned int in_other_groups(const float (&ranks)[experts_of_lane],
                                        const Routing& routing) {
  const int lane = static_cast<int>(threadIdx.x % 32), size = routing.experts / routing.groups;
  float own_sum = -INFINITY;  // of group number `lane`
#pragma unroll 1
  for (int g = 0; g < routing.groups; ++g) {
    Best first{-INFINITY, INT_MAX}, second{-INFINITY, INT_MAX};
#pragma unroll
    for (int i = 0; i < experts_of_lane; ++i) {
      const int e = i * 32 + lane;
      if (e / size == g && e < routing.experts) first.take(ranks[i], e);
    }
    first = best_of_lanes(first);
#pragma unroll
    for (int i = 0; i < experts_of_lane; ++i) {
      const int e = i * 32 + lane;
      if (e / size == g && e < routing.experts && e != first.expert) second.take(ranks[i], e);
    }
    second = best_of_lanes(second);
    const bool by_two = routing.groups_by_two && size > 1;
    if (lane == g) own_sum = by_two ? first.value + second.value : first.value;
  }
  unsigned int kept = 0;
#pragma unroll 1
  for (int j = 0; j < routing.groups_chosen; ++j) {
    Best best{-INFINITY, INT_MAX};
    if (lane < routing.groups && (kept >> lane & 1u) == 0) best.take(own_sum, lane);
    kept |= 1u << best_of_lanes(best).expert;
  }
  unsigned int others = 0;
#pragma unroll
  for (int i = 0; i < experts_of_lane; ++i) {
    const int e = i * 32 + lane;
    if (e < routing.experts && (kept >> e / size & 1u) == 0) others |= 1u << i;
  }
  return others;
}

constexpr int token_threads = 128, tokens_of_block = token_threads / 32;

// Scales the weights of one token by weight_scale. Unless weights_of_all is set, they are first
// divided by `whole`, the sum of the chosen experts' scores.
__device__ void scale_weights(float* weights, float whole, const Routing& routing) {
  const float scale = routing.weight_scale;
  for (int j = 0; j < routing.chosen; ++j)
    weights[j] = (routing.weights_of_all ? weights[j] : weights[j] / whole) * scale;
}

// Writes for each token the experts with the largest logits, their weights, and the maximum and
// inverse sum of the softmax of the token's logits. The weights come from the softmax.
template <typename T>
__global__ void __launch_bounds__(token_threads)
    choose_kernel(const T* __restrict__ logits, float* __restrict__ weights,
                  int* __restrict__ choices, float2* __restrict__ softmax, Routing routing,
                  long long tokens) {
  const long long token = static_cast<long long>(blockIdx.x) * tokens_of_block + threadIdx.x / 32;
  if (token >= tokens) return;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const Logits row(logits + token * routing.experts, routing.experts);
  unsigned int taken = 0;  // bits of the lane's experts that are chosen
  float whole = 0;
  for (int j = 0; j < routing.chosen; ++j) {
    Best best{-INFINITY, INT_MAX};
#pragma unroll
    for (int i = 0; i < experts_of_lane; ++i) {
      const int e = i * 32 + lane;
      // A NaN logit counts as the smallest, so that every choice is an expert.
      const float logit = row.of_lane[i] == row.of_lane[i] ? row.of_lane[i] : -INFINITY;
      if (e < routing.experts && (taken >> i & 1u) == 0) best.take(logit, e);
    }
    best = best_of_lanes(best);
    if (best.expert % 32 == lane) taken |= 1u << best.expert / 32;
    const float p = row.probability(best.value);
    whole += p;
    if (lane != 0) continue;
    weights[token * routing.chosen + j] = p;
    choices[token * routing.chosen + j] = best.expert;
  }
  if (lane != 0) return;
  scale_weights(weights + token * routing.chosen, whole, routing);
  softmax[token] = {row.maximum, row.inverse_sum};
}

// Writes the same as choose_kernel, but chooses by score plus bias and, if there are several
// groups, only among experts of the best groups. The weights come from the scores without biases.
template <typename T>
__global__ void __launch_bounds__(token_threads)
    choose_by_score_kernel(const T* __restrict__ logits, const T* __restrict__ bias,
                           float* __restrict__ weights, int* __restrict__ choices,
                           float2* __restrict__ softmax, Routing routing, long long tokens) {
  const long long token = static_cast<long long>(blockIdx.x) * tokens_of_block + threadIdx.x / 32;
  if (token >= tokens) return;
  const int lane = static_cast<int>(threadIdx.x % 32);
  Logits row(logits + token * routing.experts, routing.experts);
  float(&ranks)[experts_of_lane] = row.of_lane;
#pragma unroll
  for (int i = 0; i < experts_of_lane; ++i) {
    const int e = i * 32 + lane;
    if (e >= routing.experts) continue;
    const float rank =
        row.score(ranks[i], routing.sigmoid) + (bias == nullptr ? 0.0f : widened(bias[e]));
    ranks[i] = rank == rank ? rank : -INFINITY;  // a NaN counts as the smallest
  }
  unsigned int taken = routing.groups > 1 ? in_other_groups(ranks, routing) : 0;
  float whole = 0;
#pragma unroll 1
  for (int j = 0; j < routing.chosen; ++j) {
    Best best{-INFINITY, INT_MAX};
#pragma unroll
    for (int i = 0; i < experts_of_lane; ++i) {
      const int e = i * 32 + lane;
      if (e < routing.experts && (taken >> i & 1u) == 0) best.take(ranks[i], e);
    }
    best = best_of_lanes(best);
    if (best.expert % 32 == lane) taken |= 1u << best.expert / 32;
    const float p =
        row.score(widened(logits[token * routing.experts + best.expert]), routing.sigmoid);
    whole += p;
    if (lane != 0) continue;
    weights[token * routing.chosen + j] = p;
    choices[token * routing.chosen + j] = best.expert;
  }
  if (lane != 0) return;
  scale_weights(weights + token * routing.chosen, whole, routing);
  softmax[token] = {row.maximum, row.inverse_sum};
}

constexpr int place_threads = 256;

// Gives the slots of an expert to the tokens that chose it, in the order of positions. Choices
// beyond the capacity get the slot -1 - expert. Each block has one expert of one sequence, and
// writes to `products` the expert's product for the balancing loss: the share of the sequence's
// tokens that chose the expert, times the expert's mean probability.
template <typename T>
__global__ void __launch_bounds__(place_threads)
    place_kernel(const T* __restrict__ logits, const int* __restrict__ choices,
                 const float2* __restrict__ softmax, int* __restrict__ slots,
                 double* __restrict__ products, Routing routing) {
  __shared__ int takers[place_threads];
  __shared__ double sums[place_threads];
  const int sequence = static_cast<int>(blockIdx.x) / routing.experts;
  const int expert = static_cast<int>(blockIdx.x) % routing.experts;
  const int thread = static_cast<int>(threadIdx.x);
  const int share = (routing.length + place_threads - 1) / place_threads;
  const long long first = static_cast<long long>(sequence) * routing.length;
  const long long begin = first + min(thread * share, routing.length);
  const long long end = first + min((thread + 1) * share, routing.length);
  int own = 0;
  double sum = 0;
  for (long long token = begin; token < end; ++token) {
    for (int j = 0; j < routing.chosen; ++j)
      own += choices[token * routing.chosen + j] == expert ? 1 : 0;
    const float2 s = softmax[token];
    sum += expf(widened(logits[token * routing.experts + expert]) - s.x) * s.y;
  }
  takers[thread] = own;
  sums[thread] = sum;
  // Computes running totals over the threads. The last thread then has the number of all takers and
  // the sum of all probabilities.
  for (int distance = 1; distance < place_threads; distance *= 2) {
    __syncthreads();
    const int before = thread >= distance ? takers[thread - distance] : 0;
    const double sum_before = thread >= distance ? sums[thread - distance] : 0.0;
    __syncthreads();
    takers[thread] += before;
    sums[thread] += sum_before;
  }
  const int first_slot = (expert * routing.sequences + sequence) * routing.capacity;
  int place = takers[thread] - own;
  for (long long token = begin; token < end; ++token)
    for (int j = 0; j < routing.chosen; ++j) {
      if (choices[token * routing.chosen + j] != expert) continue;
      slots[token * routing.chosen + j] =
          place < routing.capacity ? first_slot + place : -1 - expert;
      ++place;
    }
  if (thread != place_threads - 1) return;
  const double tokens = routing.length;
  products[blockIdx.x] = takers[thread] / tokens * (sums[thread] / tokens);
}

// Counts the choices of each expert, for dropless routing. Each block has one expert.
__global__ void __launch_bounds__(place_threads)
    count_choices_kernel(const int* __restrict__ choices, int* __restrict__ counts, long long all) {
  __shared__ int sums[place_threads];
  const int expert = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  int own = 0;
  for (long long i = thread; i < all; i += place_threads) own += choices[i] == expert ? 1 : 0;
  sums[thread] = own;
  for (int half = place_threads / 2; half > 0; half /= 2) {
    __syncthreads();
    if (thread < half) sums[thread] += sums[thread + half];
  }
  if (thread == 0) counts[expert] = sums[0];
}

// Finds where each expert's rows begin. Unless they are null, `counts_with_room` gets the counts
// limited to the available rows, and `overflow` is cleared. One thread does this, because experts
// are few.
__global__ void begin_kernel(const int* counts, int* counts_with_room, int* begins, int* overflow,
                             Routing routing) {
  for (int s = 0; overflow != nullptr && s < routing.sequences; ++s) overflow[s] = 0;
  long long begin = 0, end = 0;
  for (int e = 0; e < routing.experts; ++e) {
    if (e % routing.experts_of_part == 0) {
      begin = e / routing.experts_of_part * routing.rows_of_part;
      end = begin + routing.rows_of_part;
    }
    const long long count = min(static_cast<long long>(counts[e]), end - begin);
    begins[e] = static_cast<int>(begin);
    if (counts_with_room != nullptr) counts_with_room[e] = static_cast<int>(count);
    begin += count;
  }
}

// Gives each choice of an expert one of the expert's rows, in the order of tokens, for dropless
// routing. If no row is left, the choice gets the slot -1 - expert, and `overflow` of its sequence
// becomes 1. Each block has one expert.
__global__ void __launch_bounds__(place_threads)
    place_in_rows_kernel(const int* __restrict__ choices, const int* __restrict__ counts,
                         const int* __restrict__ begins, int* __restrict__ slots,
                         int* __restrict__ overflow, Routing routing, long long all) {
  __shared__ int takers[place_threads];
  const int expert = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  const long long share = (all + place_threads - 1) / place_threads;
  const long long first = min(thread * share, all), last = min((thread + 1) * share, all);
  int own = 0;
  for (long long i = first; i < last; ++i) own += choices[i] == expert ? 1 : 0;
  takers[thread] = own;
  for (int distance = 1; distance < place_threads; distance *= 2) {
    __syncthreads();
    const int before = thread >= distance ? takers[thread - distance] : 0;
    __syncthreads();
    takers[thread] += before;
  }
  int place = takers[thread] - own;
  const long long of_sequence = static_cast<long long>(routing.length) * routing.chosen;
  for (long long i = first; i < last; ++i) {
    if (choices[i] != expert) continue;
    const bool has_room = place < counts[expert];
    slots[i] = has_room ? begins[expert] + place : -1 - expert;
    if (!has_room) overflow[i / of_sequence] = 1;
    ++place;
  }
}

__global__ void balance_kernel(const double* __restrict__ products,
                               const int* __restrict__ overflow, float* __restrict__ balance,
                               double factor, Routing routing) {
  const int sequence = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (sequence >= routing.sequences) return;
  double sum = 0;
  for (int e = 0; e < routing.experts; ++e) sum += products[sequence * routing.experts + e];
  const bool is_error = overflow != nullptr && routing.overflow_is_error && overflow[sequence] != 0;
  balance[sequence] = is_error ? NAN : static_cast<float>(factor * sum);
}

void route(const KernelCall& k) {
  const Routing routing(k.attributes());
  const RouteScratch scratch(k.attributes());
  auto* choices = k.workspace<int>();
  auto* softmax = reinterpret_cast<float2*>(k.workspace<std::byte>() + scratch.choices);
  auto* products =
      reinterpret_cast<double*>(k.workspace<std::byte>() + scratch.choices + scratch.softmax);
  const double factor = k.attributes().balance * routing.experts;
  with_type(k.call.inputs[0].dtype, [&]<typename T>(T) {
    const Shape3 blocks{blocks_for(routing.tokens(), tokens_of_block)}, threads{token_threads};
    const T* bias = k.call.inputs.size() > 1 ? k.in<T>(1) : nullptr;
    if (ranks_by_logits(k.call))
      launch(choose_kernel<T>, blocks, threads, 0, k.stream, k.in<T>(0), k.out<float>(0), choices,
             softmax, routing, routing.tokens());
    else
      launch(choose_by_score_kernel<T>, blocks, threads, 0, k.stream, k.in<T>(0), bias,
             k.out<float>(0), choices, softmax, routing, routing.tokens());
    launch(place_kernel<T>, {blocks_for(routing.sequences * routing.experts, 1)}, {place_threads},
           0, k.stream, k.in<T>(0), choices, softmax, k.out<int>(1), products, routing);
  });
  int* overflow = nullptr;
  if (is_dropless(k.attributes())) {
    MESHWRIGHT_CHECK(k.attributes().expert_parts * routing.rows_of_part <= INT_MAX,
                     "rows are counted in 32 bits");
    const long long all = routing.tokens() * routing.chosen;
    int* const begins =
        reinterpret_cast<int*>(reinterpret_cast<std::byte*>(products) + scratch.products);
    overflow = begins + routing.experts;
    int* const counts = k.out<int>(3);
    const unsigned int experts = blocks_for(routing.experts, 1);
    launch(count_choices_kernel, {experts}, {place_threads}, 0, k.stream, choices, counts, all);
    launch(begin_kernel, {1}, {1}, 0, k.stream, counts, counts, begins, overflow, routing);
    launch(place_in_rows_kernel, {experts}, {place_threads}, 0, k.stream, choices, counts, begins,
           k.out<int>(1), overflow, routing, all);
  }
  launch(balance_kernel, {blocks_for(routing.sequences, 64)}, {64}, 0, k.stream, products, overflow,
         k.out<float>(2), factor, routing);
}

// Counts how many tokens of each sequence chose each expert, including choices that got no slot.
__global__ void __launch_bounds__(place_threads)
    count_kernel(const int* __restrict__ slots, int* __restrict__ counts, Routing routing) {
  __shared__ int of_expert[most_experts];
  for (int e = threadIdx.x; e < routing.experts; e += place_threads) of_expert[e] = 0;
  __syncthreads();
  const long long choices = static_cast<long long>(routing.length) * routing.chosen;
  const int* own = slots + blockIdx.x * choices;
  for (long long i = threadIdx.x; i < choices; i += place_threads)
    atomicAdd(&of_expert[routing.expert_of(own[i])], 1);
  __syncthreads();
  for (int e = threadIdx.x; e < routing.experts; e += place_threads)
    counts[blockIdx.x * routing.experts + e] = of_expert[e];
}

// Computes the gradients of the router's logits. For each token, p are the probabilities of all
// experts, w are the weights of the chosen ones before they are multiplied by weight_scale, and dw
// are the gradients of w. With E experts, s tokens in a sequence, and c = loss_scale * scale *
// balance * E * (tokens of the sequence that chose the expert) / s^2 for each expert, dlogits is
// the sum of two parts: w (dw - dot(w, dw)) on the chosen experts, and p (c - dot(p, c)) on all.
//
// If weights_of_all is set, w = p, dw = 0 on the experts that were not chosen, and the first part
// is on all experts. With sigmoid scores there is no second part, and the first is multiplied by 1
// - score. If weights_of_all is set as well, it is w dw (1 - score) on the chosen experts.
template <typename T>
__global__ void __launch_bounds__(token_threads)
    route_grad_kernel(const T* __restrict__ logits, const int* __restrict__ slots,
                      const float* __restrict__ dweights, const float* __restrict__ loss_scale,
                      const int* __restrict__ counts, T* __restrict__ dlogits, float factor,
                      Routing routing, long long tokens) {
  const long long token = static_cast<long long>(blockIdx.x) * tokens_of_block + threadIdx.x / 32;
  if (token >= tokens) return;
  const int lane = static_cast<int>(threadIdx.x % 32);
  const T* own = logits + token * routing.experts;
  const Logits row(own, routing.experts);
  const int* own_counts = counts + token / routing.length * routing.experts;
  if (loss_scale != nullptr) factor *= loss_scale[0];
  float d[experts_of_lane], balanced[1] = {0.0f};
#pragma unroll
  for (int i = 0; i < experts_of_lane; ++i) {
    const int e = i * 32 + lane;
    d[i] = e < routing.experts ? factor * static_cast<float>(own_counts[e]) : 0.0f;
    if (e < routing.experts) balanced[0] += row.probability(row.of_lane[i]) * d[i];
  }
  add_over_row<32>(balanced);
  float whole = 0, along = 0;
  for (int j = 0; j < routing.chosen; ++j) {
    const int e = routing.expert_of(slots[token * routing.chosen + j]);
    const float p = row.score(widened(own[e]), routing.sigmoid);
    whole += p;
    along += p * routing.weight_scale * dweights[token * routing.chosen + j];
  }
  if (routing.weights_of_all) whole = 1;
  along /= whole;
  const float along_all = routing.weights_of_all ? along : 0.0f;
#pragma unroll
  for (int i = 0; i < experts_of_lane; ++i)
    d[i] =
        routing.sigmoid ? 0.0f : row.probability(row.of_lane[i]) * (d[i] - balanced[0] - along_all);
  for (int j = 0; j < routing.chosen; ++j) {
    const int e = routing.expert_of(slots[token * routing.chosen + j]);
    const float p = row.score(widened(own[e]), routing.sigmoid);
    const float weight = p / whole * (routing.sigmoid ? 1.0f - p : 1.0f);
    const float dweight = routing.weight_scale * dweights[token * routing.chosen + j];
    const float change = weight * (dweight - (routing.weights_of_all ? 0.0f : along));
#pragma unroll
    for (int i = 0; i < experts_of_lane; ++i)
      if (e == i * 32 + lane) d[i] += change;
  }
#pragma unroll
  for (int i = 0; i < experts_of_lane; ++i) {
    const int e = i * 32 + lane;
    if (e < routing.experts) narrow(d[i], dlogits[token * routing.experts + e]);
  }
}

void route_grad(const KernelCall& k) {
  const Attributes& a = k.attributes();
  Routing routing(a);
  const bool dropless = is_dropless(a);
  if (dropless) {
    int* const begins = k.workspace<int>() + routing.sequences * routing.experts;
    launch(begin_kernel, {1}, {1}, 0, k.stream, k.in<int>(3), nullptr, begins, nullptr, routing);
    routing.begins = begins;
    routing.counts = k.in<int>(3);
  }
  const double length = routing.length;
  const auto factor = static_cast<float>(a.scale * a.balance * routing.experts / (length * length));
  const std::size_t scale_at = dropless ? 4 : 3;
  const float* loss_scale = k.call.inputs.size() > scale_at ? k.in<float>(scale_at) : nullptr;
  launch(count_kernel, {blocks_for(routing.sequences, 1)}, {place_threads}, 0, k.stream,
         k.in<int>(1), k.workspace<int>(), routing);
  with_type(k.call.inputs[0].dtype, [&]<typename T>(T) {
    launch(route_grad_kernel<T>, {blocks_for(routing.tokens(), tokens_of_block)}, {token_threads},
           0, k.stream, k.in<T>(0), k.in<int>(1), k.in<float>(2), loss_scale, k.workspace<int>(),
           k.out<T>(0), factor, routing, routing.tokens());
  });
}

constexpr int count_threads = 1024;

// Adds to each expert's counter the number of tokens that chose it. A choice that found no room
// counts for the chosen expert. If routing is dropless, `placed` has the number of choices of each
// expert that found room. Otherwise it is null. One block does this, because there are few choices.
__global__ void __launch_bounds__(count_threads)
    add_choices_kernel(const int* __restrict__ slots, const int* __restrict__ placed,
                       double* __restrict__ counts, Routing routing, long long choices) {
  __shared__ int of_expert[most_experts];
  for (int e = threadIdx.x; e < routing.experts; e += count_threads)
    of_expert[e] = placed == nullptr ? 0 : placed[e];
  __syncthreads();
#pragma unroll 4
  for (long long i = threadIdx.x; i < choices; i += count_threads)
    if (placed == nullptr || slots[i] < 0) atomicAdd(&of_expert[routing.expert_of(slots[i])], 1);
  __syncthreads();
  for (int e = threadIdx.x; e < routing.experts; e += count_threads) counts[e] += of_expert[e];
}

void count_choices(const KernelCall& k) {
  const Routing routing(k.attributes());
  launch(add_choices_kernel, {1}, {count_threads}, 0, k.stream, k.in<int>(0),
         is_dropless(k.attributes()) ? k.in<int>(1) : nullptr, k.out<double>(0), routing,
         k.in_shape(0).elements());
}

// Sets choice_of_slot to -1 for every slot, which means that no choice has the slot. A choice has
// the number token * chosen + j.
__global__ void __launch_bounds__(256) no_choices_kernel(int* choice_of_slot, long long slots) {
  const long long slot = blockIdx.x * 256LL + threadIdx.x;
  if (slot < slots) choice_of_slot[slot] = -1;
}

// Writes the number of each choice to choice_of_slot at its slot. If a choice has no slot, the
// gradient of its weight becomes 0, unless `dweights` is null.
__global__ void __launch_bounds__(256)
    choices_kernel(const int* __restrict__ slots, int* __restrict__ choice_of_slot,
                   float* __restrict__ dweights, long long choices) {
  const long long i = blockIdx.x * 256LL + threadIdx.x;
  if (i >= choices) return;
  if (slots[i] >= 0)
    choice_of_slot[slots[i]] = static_cast<int>(i);
  else if (dweights != nullptr)
    dweights[i] = 0.0f;
}

void find_choices(const KernelCall& k, const int* slots, long long choices, long long slot_count,
                  float* dweights) {
  MESHWRIGHT_CHECK(choices <= INT_MAX, "choices are counted in 32 bits");
  int* choice_of_slot = k.workspace<int>();
  launch(no_choices_kernel, {blocks_for(slot_count, 256)}, {256}, 0, k.stream, choice_of_slot,
         slot_count);
  launch(choices_kernel, {blocks_for(choices, 256)}, {256}, 0, k.stream, slots, choice_of_slot,
         dweights, choices);
}

template <int row_threads, typename T>
__global__ void __launch_bounds__(threads_of_block<row_threads>)
    dispatch_kernel(const T* __restrict__ x, const int* __restrict__ choice_of_slot,
                    T* __restrict__ y, long long slots, int width, int chosen, bool in_groups) {
  const long long slot = own_row<row_threads>();
  if (slot >= slots) return;
  const int choice = choice_of_slot[slot];
  const T* from = x + static_cast<long long>(choice / chosen) * width;
  T* to = y + slot * width;
  for_columns<row_threads, vector_of<T>>(width, in_groups, [&](int c, auto count) {
    constexpr int n = decltype(count)::value;
    float moved[n] = {};
    if (choice >= 0) load<n>(from + c, moved);
    store<n>(to + c, moved);
  });
}

// Sums the results in a token's slots, times the weights if `weights` is not null. A choice without
// a slot, which has a negative number because its expert was full, adds nothing.
template <int row_threads, typename T>
__global__ void __launch_bounds__(threads_of_block<row_threads>)
    sum_of_slots_kernel(const T* __restrict__ of_slots, const float* __restrict__ weights,
                        const int* __restrict__ slots, T* __restrict__ y, long long rows, int width,
                        int chosen, bool in_groups) {
  const long long row = own_row<row_threads>();
  if (row >= rows) return;
  for_columns<row_threads, vector_of<T>>(width, in_groups, [&](int c, auto count) {
    constexpr int n = decltype(count)::value;
    float sum[n] = {};
#pragma unroll 1
    for (int j = 0; j < chosen; ++j) {
      const long long slot = slots[row * chosen + j];
      if (slot < 0) continue;
      const float weight = weights == nullptr ? 1.0f : weights[row * chosen + j];
      float x[n];
      load<n>(of_slots + slot * width + c, x);
#pragma unroll
      for (int i = 0; i < n; ++i) sum[i] += weight * x[i];
    }
    store<n>(y + row * width + c, sum);
  });
}

template <int row_threads, typename T>
__global__ void __launch_bounds__(threads_of_block<row_threads>)
    combine_grad_kernel(const T* __restrict__ y, const float* __restrict__ weights,
                        const int* __restrict__ choice_of_slot, const T* __restrict__ dz,
                        T* __restrict__ dy, float* __restrict__ dweights, long long slots,
                        int width, int chosen, bool in_groups) {
  const long long slot = own_row<row_threads>();
  if (slot >= slots) return;
  const int choice = choice_of_slot[slot];
  const float weight = choice >= 0 ? weights[choice] : 0.0f;
  const T* of_token = dz + static_cast<long long>(choice / chosen) * width;
  float sum = 0;
  for_columns<row_threads, vector_of<T>>(width, in_groups, [&](int c, auto count) {
    constexpr int n = decltype(count)::value;
    float d[n] = {}, x[n];
    if (choice >= 0) {
      load<n>(of_token + c, d);
      load<n>(y + slot * width + c, x);
#pragma unroll
      for (int i = 0; i < n; ++i) {
        sum += x[i] * d[i];
        d[i] *= weight;
      }
    }
    store<n>(dy + slot * width + c, d);
  });
  if (choice < 0) return;  // the whole row returns
  sum = sum_over_row<row_threads>(sum);
  if (place_in_row<row_threads>() == 0) dweights[choice] = sum;
}

void dispatch(const KernelCall& k) {
  const long long slots = k.out_shape(0)[0], chosen = k.in_shape(1)[1];
  const int width = width_of(k.in_shape(0)[1]);
  find_choices(k, k.in<int>(1), k.in_shape(1).elements(), slots, nullptr);
  with_type(k.call.inputs[0].dtype, [&]<typename T>(T) {
    const bool in_groups = moves_groups<vector_of<T>>(k.in<T>(0), width) &&
                           moves_groups<vector_of<T>>(k.out<T>(0), width);
    for_rows(slots, width, [&](auto row_threads, Shape3 blocks, Shape3 threads) {
      launch(dispatch_kernel<decltype(row_threads)::value, T>, blocks, threads, 0, k.stream,
             k.in<T>(0), k.workspace<int>(), k.out<T>(0), slots, width, chosen, in_groups);
    });
  });
}

void sum_slots(const KernelCall& k, std::size_t from, const float* weights, std::size_t slots) {
  const long long rows = k.in_shape(slots)[0], chosen = k.in_shape(slots)[1];
  const int width = width_of(k.in_shape(from)[1]);
  with_type(k.call.inputs[from].dtype, [&]<typename T>(T) {
    const bool in_groups = moves_groups<vector_of<T>>(k.in<T>(from), width) &&
                           moves_groups<vector_of<T>>(k.out<T>(0), width);
    for_rows(rows, width, [&](auto row_threads, Shape3 blocks, Shape3 threads) {
      launch(sum_of_slots_kernel<decltype(row_threads)::value, T>, blocks, threads, 0, k.stream,
             k.in<T>(from), weights, k.in<int>(slots), k.out<T>(0), rows, width, chosen, in_groups);
    });
  });
}

void dispatch_grad(const KernelCall& k) { sum_slots(k, 1, nullptr, 0); }
void combine(const KernelCall& k) {
  const bool weighs = k.call.inputs.size() > 2;
  sum_slots(k, 0, weighs ? k.in<float>(1) : nullptr, weighs ? 2 : 1);
}

void combine_grad(const KernelCall& k) {
  const long long slots = k.out_shape(0)[0], chosen = k.in_shape(1)[1];
  const int width = width_of(k.in_shape(0)[1]);
  find_choices(k, k.in<int>(2), k.in_shape(2).elements(), slots, k.out<float>(1));
  with_type(k.call.inputs[0].dtype, [&]<typename T>(T) {
    constexpr int n = vector_of<T>;
    const bool in_groups = moves_groups<n>(k.in<T>(0), width) &&
                           moves_groups<n>(k.in<T>(3), width) &&
                           moves_groups<n>(k.out<T>(0), width);
    for_rows(slots, width, [&](auto row_threads, Shape3 blocks, Shape3 threads) {
      launch(combine_grad_kernel<decltype(row_threads)::value, T>, blocks, threads, 0, k.stream,
             k.in<T>(0), k.in<float>(1), k.workspace<int>(), k.in<T>(3), k.out<T>(0),
             k.out<float>(1), slots, width, chosen, in_groups);
    });
  });
}

constexpr Row rows[] = {
    {Op::route, route},
    {Op::route_grad, route_grad},
    {Op::dispatch, dispatch},
    {Op::dispatch_grad, dispatch_grad},
    {Op::combine, combine},
    {Op::combine_grad, combine_grad},
    {Op::count_choices, count_choices},
};

}  // namespace

std::span<const Row> experts_rows() { return rows; }

}  // namespace meshwright::exec::cuda
