#include "exec/backends/cuda/optimizer/elements.cuh"
#include "exec/backends/cuda/optimizer/norms.cuh"

namespace meshwright::exec::cuda {

namespace {

// The elements of a matrix that a segment holds, with 64-bit indices as on the host. `rows` and
// `columns` are those of the whole matrix. A row of this rank's part has `width` elements, and the
// segment holds the part's elements [begin, begin + count). Element i of the part is element i +
// shift of the bucket.
struct Part {
  std::int64_t rows, columns, width, begin, count, shift;
  WholePlaces places;
  __device__ std::int64_t first_row() const { return begin / width; }
  // Returns whether the segment holds the element at `column` in row `row` of the part.
  __device__ bool holds(std::int64_t row, std::int64_t column) const {
    const std::int64_t i = row * width + column;
    return i >= begin && i < begin + count;
  }
};

__device__ double squared(const Factors& c, float gradient) {
  const float g = gradient_in(c, {0, gradient, 0, 0});
  return static_cast<double>(g) * g;
}

// Returns, in thread 0, the sum over the threads of the block. The order of additions depends only
// on `threads`.
__device__ double sum_over_block(double own) { return add_over_block({own, 0}).weights; }

// Sums the squared gradients of each row. Each block has one row.
template <typename G>
__global__ void __launch_bounds__(threads)
    sum_rows_kernel(const UpdateScalars* scalars, Part part, const G* gradients, double* sums) {
  if (scalars->updates == 0) return;
  const std::int64_t row = part.first_row() + blockIdx.x;
  const std::int64_t place = whole_place(part.places, row * part.width).place;
  if (place >= part.rows * part.columns) return;  // padding
  double sum = 0;
  for (std::int64_t column = threadIdx.x; column < part.width; column += threads)
    if (part.holds(row, column))
      sum += squared(scalars->factors, widened(gradients[row * part.width + column + part.shift]));
  sum = sum_over_block(sum);
  if (threadIdx.x == 0) sums[place / part.columns] += sum;
}

// A block sums columns_of_block columns. Each of its rows of threads takes every rows_of_threads-th
// of the rows that the segment holds elements of.
constexpr int columns_of_block = 32, rows_of_threads = threads / columns_of_block;

template <typename G>
__global__ void __launch_bounds__(threads)
    sum_columns_kernel(const UpdateScalars* scalars, Part part, std::int64_t rows,
                       const G* gradients, double* sums) {
  if (scalars->updates == 0) return;
  const int lane = threadIdx.x % columns_of_block, own = threadIdx.x / columns_of_block;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.x) * columns_of_block + lane;
  double sum = 0;
  for (std::int64_t row = part.first_row() + own; row < part.first_row() + rows;
       row += rows_of_threads) {
    if (column >= part.width || !part.holds(row, column)) continue;
    sum += squared(scalars->factors, widened(gradients[row * part.width + column + part.shift]));
  }
  __shared__ double of_thread[threads];
  of_thread[threadIdx.x] = sum;
  __syncthreads();
  if (own > 0 || column >= part.width) return;
  for (int other = 1; other < rows_of_threads; ++other)
    sum += of_thread[other * columns_of_block + lane];
  const std::int64_t begin = whole_place(part.places, 0).place / part.columns * part.columns;
  const std::int64_t whole = whole_place(part.places, column).place - begin;
  if (whole < part.columns) sums[part.rows + whole] += sum;  // other columns are padding
}

// Moves the factors towards the new mean squares and prepares the update's row and column factors,
// as move_factors in exec/optimizer/adafactor.cpp does. It runs in one block.
__global__ void __launch_bounds__(threads)
    move_factors_kernel(const UpdateScalars* scalars, std::int64_t rows, std::int64_t columns,
                        double eps1, float* factors, double* sums) {
  if (scalars->updates == 0) return;
  const float moves = scalars->factors.factor_moves;
  double of_rows = 0;
  for (std::int64_t i = threadIdx.x; i < rows + columns; i += threads) {
    const std::int64_t summed = i < rows ? columns : rows;
    const double square = sums[i] / static_cast<double>(summed) + eps1;
    factors[i] += moves * (static_cast<float>(square) - factors[i]);
    if (i < rows) of_rows += factors[i];
  }
  __shared__ double mean;
  of_rows = sum_over_block(of_rows);
  if (threadIdx.x == 0) mean = of_rows / static_cast<double>(rows);
  __syncthreads();
  for (std::int64_t i = threadIdx.x; i < rows + columns; i += threads)
    sums[i] = i < rows ? sqrt(mean / factors[i]) : 1 / sqrt(static_cast<double>(factors[i]));
}

// Returns Adafactor's update of element i of the bucket, before it is scaled to its size. With
// `moves`, updates the element's second moment if the parameter has no factors. Returns 0 for
// padding.
template <typename A>
__device__ float update_of(const A& a, const DeviceSegment& segment, const Factors& c, float eps1,
                           bool moves, std::int64_t i) {
  const float g = gradient_in(c, {0, widened(a.gradients[i]), 0, 0});
  const AdafactorParameter& of = segment.adafactor;
  if (of.rows > 0) {
    const std::int64_t place = whole_place(of.places, segment.first + (i - segment.begin)).place;
    const std::int64_t row = place / of.columns;
    if (row >= of.rows) return 0;  // padding
    return g * (static_cast<float>(segment.factor_sums[row]) *
                static_cast<float>(segment.factor_sums[of.rows + place % of.columns]));
  }
  float second = a.second[i];
  if (moves) {
    second += c.factor_moves * (g * g + eps1 - second);
    a.second[i] = second;
  }
  return second > 0 ? g / sqrtf(second) : 0;
}

// Calls work(i) for each element i of the block's chunk that is in the segment.
template <typename Work>
__device__ void for_each_place(const DeviceSegment& segment, const Work& work) {
  const std::int64_t chunk = blockIdx.x - segment.first_chunk;
  const std::int64_t first = (segment.begin / group + chunk * groups_per_chunk) * group;
  for (int place = threadIdx.x; place < groups_per_chunk * group; place += threads)
    if (const std::int64_t i = first + place; i >= segment.begin && i < segment.end) work(i);
}

template <typename A>
__global__ void __launch_bounds__(threads)
    adafactor_norms_kernel(const UpdateScalars* scalars, DeviceSegments segments, A arrays,
                           float eps1, SquaredNorms* partial) {
  if (scalars->updates == 0) return;
  const DeviceSegment& segment = segment_of(segments, blockIdx.x);
  const Factors factors = scalars->factors;
  SquaredNorms sum{0, 0};
  for_each_place(segment, [&](std::int64_t i) {
    const double w = weight_at(arrays.weights, arrays.working, i),
                 u = update_of(arrays, segment, factors, eps1, true, i);
    sum.weights += w * w;
    sum.update += u * u;
  });
  sum = add_over_block(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

template <typename A>
__global__ void __launch_bounds__(threads)
    adafactor_step_kernel(const UpdateScalars* scalars, DeviceSegments segments, A arrays,
                          Adafactor settings) {
  if (scalars->updates == 0) return;
  const DeviceSegment& segment = segment_of(segments, blockIdx.x);
  const Factors factors = scalars->factors;
  const AdafactorSizes sizes = sizes_of(settings, factors.factor_rate, segment.norms,
                                        static_cast<double>(segment.adafactor.elements));
  const float shrink = 1 - sizes.rate * of_segment(segment, factors).decay;
  for_each_place(segment, [&](std::int64_t i) {
    const float u =
        update_of(arrays, segment, factors, static_cast<float>(settings.eps1), false, i);
    const float w = weight_at(arrays.weights, arrays.working, i) * shrink - sizes.update * u;
    put_weight(arrays.weights, arrays.working, i, w);
    if (arrays.average != nullptr) arrays.average[i] += factors.average * (w - arrays.average[i]);
  });
}

// Calls work(arrays) with the arrays of a bucket whose second moments are in fp32.
template <typename Work>
void with_fp32_moments(const OptimizerState& state, const Work& work) {
  with_masters(state, [&]<typename P, typename W>() {
    with_type(state.gradient_type, [&]<typename G>(G) { work(arrays_of<G, P, W, float>(state)); });
  });
}

}  // namespace

void adafactor_sums(const UpdateScalars* scalars, std::span<const DeviceSegment> segments,
                    const OptimizerState& state, cudaStream_t stream) {
  with_type(state.gradient_type, [&]<typename G>(G) {
    const auto* gradients = static_cast<const G*>(state.gradients);
    for (const DeviceSegment& segment : segments) {
      const AdafactorParameter& of = segment.adafactor;
      if (of.rows == 0 || segment.counted == 0) continue;
      const std::int64_t count = segment.end - segment.begin;
      const Part part{of.rows,       of.columns, of.width,
                      segment.first, count,      segment.begin - segment.first,
                      of.places};
      const std::int64_t rows =
          (segment.first + count + of.width - 1) / of.width - segment.first / of.width;
      launch(sum_rows_kernel<G>, {blocks_for(rows, 1)}, {threads}, 0, stream, scalars, part,
             gradients, segment.factor_sums);
      launch(sum_columns_kernel<G>, {blocks_for(of.width, columns_of_block)}, {threads}, 0, stream,
             scalars, part, rows, gradients, segment.factor_sums);
    }
  });
}

void adafactor_norms(const StepSettings& training, const UpdateScalars* scalars,
                     std::span<const DeviceSegment> host_segments, const DeviceSegments& segments,
                     const OptimizerState& state, void* partial, cudaStream_t stream) {
  for (const DeviceSegment& segment : host_segments)
    if (const AdafactorParameter& of = segment.adafactor; of.rows > 0)
      launch(move_factors_kernel, {1}, {threads}, 0, stream, scalars, of.rows, of.columns,
             training.adafactor.eps1, segment.factors, segment.factor_sums);
  auto* sums = static_cast<SquaredNorms*>(partial);
  with_fp32_moments(state, [&]<typename A>(const A& arrays) {
    launch(adafactor_norms_kernel<A>, blocks_of(segments), {threads}, 0, stream, scalars, segments,
           arrays, static_cast<float>(training.adafactor.eps1), sums);
  });
  launch(add_norms_kernel, {blocks_for(segments.count, 1)}, {threads}, 0, stream, scalars, segments,
         static_cast<const SquaredNorms*>(sums));
}

void step_adafactor(const Adafactor& settings, const UpdateScalars* scalars,
                    const DeviceSegments& segments, const OptimizerState& state,
                    cudaStream_t stream) {
  with_fp32_moments(state, [&]<typename A>(const A& arrays) {
    launch(adafactor_step_kernel<A>, blocks_of(segments), {threads}, 0, stream, scalars, segments,
           arrays, settings);
  });
}

}  // namespace meshwright::exec::cuda
