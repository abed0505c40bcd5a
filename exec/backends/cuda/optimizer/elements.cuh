// Lets blocks of threads update the elements of a bucket's segments. States are converted to fp32
// and back.
#pragma once

#include "exec/backends/cuda/device/launch.h"
#include "exec/backends/cuda/optimizer/rules.h"
#include "exec/backends/cuda/optimizer/states.cuh"

namespace meshwright::exec::cuda {

constexpr int threads = threads_of_elements;

// One element of a parameter with its moments, in fp32, and the values that its segment contributes
// to the rule.
struct Element {
  float weight, gradient, first, second;
};
struct OfSegment {
  float decay, trust;
};

// The arrays that a rule reads in addition to the weights, and whether it writes the moments.
struct Reads {
  bool gradient, first, second, writes_moments;
};

inline __device__ float gradient_in(const Factors& c, const Element& e) {
  return fminf(fmaxf(e.gradient * c.gradient, -c.limit), c.limit);
}

template <Reads reads, typename A>
__device__ Element element_at(const A& a, std::int64_t i) {
  return {weight_at(a.weights, a.working, i), reads.gradient ? widened(a.gradients[i]) : 0.0f,
          reads.first ? widened(a.first[i]) : 0.0f, reads.second ? widened(a.second[i]) : 0.0f};
}

// The values that are needed to write the states of a segment's elements: how moments are rounded,
// and how far averages move.
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
  float weight[group], gradient[group] = {}, first[group] = {}, second[group] = {};
  load_weights(a.weights, a.working, i, weight);
  if (reads.gradient) load<group>(a.gradients + i, gradient);
  if (reads.first) load<group>(a.first + i, first);
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

// Returns the last segment that begins in or before the chunk.
inline __device__ const DeviceSegment& segment_of(const DeviceSegments& segments,
                                                  std::int64_t chunk) {
  int low = 0, high = segments.count;
  while (high - low > 1) {
    const int middle = low + (high - low) / 2;
    (segments.data[middle].first_chunk <= chunk ? low : high) = middle;
  }
  return segments.data[low];
}

// Calls work(element) for each element of the block's chunk. Then stores the moments if the rule
// writes them, and the weights if `weights` is set. If all arrays are aligned, groups that are
// wholly in the segment are moved at once. A chunk begins where a group does, which may be before
// its segment.
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

inline __device__ OfSegment of_segment(const DeviceSegment& segment, const Factors& factors) {
  return {segment.decay != 0 ? factors.decay : 0, 1};
}

inline Shape3 blocks_of(const DeviceSegments& segments) { return {blocks_for(segments.chunks, 1)}; }

}  // namespace meshwright::exec::cuda
