// AdamW and Adam with moments in blocks of 8 bits. A warp updates a block, finds the largest
// magnitude of each of its two moments, which becomes the scale of that moment's codes, and writes
// the codes (exec/core/block_codes.h).
#include "exec/backends/cuda/optimizer/adam.cuh"
#include "exec/backends/cuda/optimizer/rules.h"
#include "exec/core/block_codes.h"

namespace meshwright::exec::cuda {

namespace {

constexpr int lanes = 32, groups_per_lane = static_cast<int>(moment_block) / lanes / group;
constexpr int blocks_per_chunk = groups_per_chunk * group / static_cast<int>(moment_block);
static_assert(groups_per_lane * lanes * group == moment_block);

__device__ const BlockCodes signed_codes = block_codes(Dtype::block8),
                            unsigned_codes = block_codes(Dtype::block8u);

// The values of the codes and the limits between them, in shared memory.
struct SharedCodes {
  float values[256], limits[256];
  __device__ void copy(const BlockCodes& from) {
    for (int i = threadIdx.x; i < 256; i += threads) {
      values[i] = from.values[i];
      limits[i] = from.limits[i];
    }
  }
};

// Returns the code of x, which is the number of limits below x.
template <int codes>
__device__ unsigned int code_above(const float* limits, float x) {
  unsigned int code = 0;
#pragma unroll
  for (unsigned int step = codes / 2; step > 0; step /= 2)
    if (x > limits[code + step]) code += step;
  return code;
}

__device__ unsigned int signed_code(const float* limits, float x, float scale) {
  const unsigned int code = code_above<128>(limits, fabsf(x) / scale);
  return code + (code > 0 && x < 0 ? 128u : 0u);
}

__device__ float largest_of_warp(float x) {
#pragma unroll
  for (int distance = lanes / 2; distance > 0; distance /= 2)
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, distance));
  return x;
}

// The codes of the first and the second moments of one block, each followed by its scale. The lanes
// of a warp share a block: each has some groups of four codes.
struct Block {
  unsigned char *first, *second;
  __device__ float* scale_of(unsigned char* codes) const {
    return reinterpret_cast<float*>(codes + moment_block);
  }
  // Returns the index in the block of the first element of the lane's group g.
  static __device__ int place(int g) {
    return (g * lanes + static_cast<int>(threadIdx.x) % lanes) * group;
  }
};

// Reads the moments of a group, four codes at once. That is possible because blocks begin at
// multiples of 4 bytes.
__device__ void read_codes(const unsigned char* codes, const float* values, float scale,
                           float (&to)[group]) {
  const unsigned int four = *reinterpret_cast<const unsigned int*>(codes);
#pragma unroll
  for (int j = 0; j < group; ++j) to[j] = values[four >> 8 * j & 0xffu] * scale;
}

// Reads the elements of a group from element i on that are before the segment's end. The others
// become 0.
template <typename A>
__device__ void read_group(const A& a, std::int64_t i, std::int64_t end, Element (&e)[group]) {
  float weight[group] = {}, gradient[group] = {};
  if (a.in_groups && i + group <= end) {
    load_weights(a.weights, a.working, i, weight);
    load<group>(a.gradients + i, gradient);
  } else {
    for (int j = 0; j < group && i + j < end; ++j) {
      weight[j] = weight_at(a.weights, a.working, i + j);
      gradient[j] = widened(a.gradients[i + j]);
    }
  }
#pragma unroll
  for (int j = 0; j < group; ++j) e[j].weight = weight[j], e[j].gradient = gradient[j];
}

template <typename A>
__device__ void write_group(const A& a, std::int64_t i, std::int64_t end, float moved,
                            const Element (&e)[group]) {
  float weight[group];
#pragma unroll
  for (int j = 0; j < group; ++j) weight[j] = e[j].weight;
  if (a.in_groups && i + group <= end) {
    store_weights(a.weights, a.working, i, weight);
  } else {
    for (int j = 0; j < group && i + j < end; ++j)
      put_weight(a.weights, a.working, i + j, weight[j]);
  }
  if (a.average == nullptr) return;
  for (int j = 0; j < group && i + j < end; ++j)
    a.average[i + j] += moved * (weight[j] - a.average[i + j]);
}

template <typename Rule, typename A>
__device__ void step_block(const A& a, const Block& block, std::int64_t begin, std::int64_t end,
                           const SharedCodes& of_first, const SharedCodes& of_second,
                           const Factors& factors, const OfSegment& own) {
  Element e[groups_per_lane][group];
  const float first_scale = *block.scale_of(block.first),
              second_scale = *block.scale_of(block.second);
  float largest_first = 0, largest_second = 0;
#pragma unroll
  for (int g = 0; g < groups_per_lane; ++g) {
    const int place = Block::place(g);
    float first[group], second[group];
    read_codes(block.first + place, of_first.values, first_scale, first);
    read_codes(block.second + place, of_second.values, second_scale, second);
    read_group(a, begin + place, end, e[g]);
#pragma unroll
    for (int j = 0; j < group; ++j) {
      Element& each = e[g][j];
      each.first = first[j], each.second = second[j];
      if (begin + place + j < end) Rule::apply(factors, own, each);
      largest_first = fmaxf(largest_first, fabsf(each.first));
      largest_second = fmaxf(largest_second, each.second);
    }
    write_group(a, begin + place, end, factors.average, e[g]);
  }
  largest_first = largest_of_warp(largest_first);  // after which every lane has read the scales
  largest_second = largest_of_warp(largest_second);
#pragma unroll
  for (int g = 0; g < groups_per_lane; ++g) {
    unsigned int first = 0, second = 0;
#pragma unroll
    for (int j = 0; j < group; ++j) {
      const Element& each = e[g][j];
      first |= signed_code(of_first.limits, each.first, largest_first) << 8 * j;
      second |= code_above<256>(of_second.limits, each.second / largest_second) << 8 * j;
    }
    *reinterpret_cast<unsigned int*>(block.first + Block::place(g)) = first;
    *reinterpret_cast<unsigned int*>(block.second + Block::place(g)) = second;
  }
  if (threadIdx.x % lanes != 0) return;
  *block.scale_of(block.first) = largest_first;
  *block.scale_of(block.second) = largest_second;
}

// Updates the elements of a bucket whose segments begin where blocks do. Chunks consist of whole
// blocks. If a moment is 0 in a whole block, each of its elements divided by the largest one is 0 /
// 0 = NaN. A NaN is above no limit, so it gets code 0.
template <typename Rule, typename A>
__global__ void __launch_bounds__(threads)
    step_in_blocks_kernel(const UpdateScalars* scalars, DeviceSegments segments, A arrays) {
  __shared__ SharedCodes of_first, of_second;
  if (scalars->updates == 0) return;
  of_first.copy(signed_codes);
  of_second.copy(unsigned_codes);
  __syncthreads();
  const DeviceSegment segment = segment_of(segments, blockIdx.x);
  const OfSegment own = of_segment(segment, scalars->factors);
  const std::int64_t chunk = blockIdx.x - segment.first_chunk;
  for (int b = threadIdx.x / lanes; b < blocks_per_chunk; b += threads / lanes) {
    const std::int64_t begin = segment.begin + (chunk * blocks_per_chunk + b) * moment_block;
    if (begin >= segment.end) return;
    const std::int64_t at = begin / moment_block * moment_block_bytes;
    step_block<Rule>(arrays, {arrays.first + at, arrays.second + at}, begin, segment.end, of_first,
                     of_second, scalars->factors, own);
  }
}

template <typename Rule>
void step_in_blocks(const UpdateScalars* scalars, const DeviceSegments& segments,
                    const OptimizerState& state, cudaStream_t stream) {
  with_masters(state, [&]<typename P, typename W>() {
    with_type(state.gradient_type, [&]<typename G>(G) {
      using A = Arrays<G, P, W, unsigned char>;
      launch(step_in_blocks_kernel<Rule, A>, blocks_of(segments), {threads}, 0, stream, scalars,
             segments, arrays_of<G, P, W, unsigned char>(state));
    });
  });
}

}  // namespace

void step_adamw_in_blocks(const UpdateScalars* scalars, const DeviceSegments& segments,
                          const OptimizerState& state, cudaStream_t stream) {
  step_in_blocks<AdamW>(scalars, segments, state, stream);
}

void step_adam_in_blocks(const UpdateScalars* scalars, const DeviceSegments& segments,
                         const OptimizerState& state, cudaStream_t stream) {
  step_in_blocks<Adam>(scalars, segments, state, stream);
}

}  // namespace meshwright::exec::cuda
