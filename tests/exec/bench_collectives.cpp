// Prints the bandwidth of collectives on buffers in the communicator's arena, and of Open MPI's own
// for comparison. It is not a test.
//   mpirun -n RANKS bench_collectives [MEBIBYTES]
#define OMPI_SKIP_MPICXX  // the C interface is enough
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "exec/comm/communicator.h"

using namespace meshwright::tests;

namespace {

constexpr int rounds = 9;

// Returns the median over the rounds of the slowest rank's time, in seconds.
template <typename Work>
double seconds(const Work& work) {
  std::vector<double> times;
  for (int round = -1; round < rounds; ++round) {  // round -1 touches the memory
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    work();
    double own = MPI_Wtime() - begin, slowest = 0;
    MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (round >= 0) times.push_back(slowest);
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[rounds / 2];
}

}  // namespace

int main(int argc, char* argv[]) {
  const std::int64_t bytes = std::int64_t{argc > 1 ? std::max(1, std::atoi(argv[1])) : 64} << 20;
  const auto world = make_world("mpi");
  std::vector<int> everybody(static_cast<std::size_t>(world->size()));
  std::iota(everybody.begin(), everybody.end(), 0);
  const auto all = world->group(GroupKind::world, everybody);
  const std::int64_t elements = bytes / 4, part = elements / world->size();
  auto* arena = static_cast<float*>(world->allocate(2 * bytes));
  std::vector<float> plain(static_cast<std::size_t>(elements), 1), sum(plain.size());
  const auto line = [&](const char* name, double ours, double theirs) {
    if (world->rank() != 0) return;
    std::printf("%-15s %4lld MiB, %d ranks: %6.2f GB/s, Open MPI %6.2f GB/s, ratio %.2f\n", name,
                static_cast<long long>(bytes >> 20), world->size(),
                1e-9 * static_cast<double>(bytes) / ours,
                1e-9 * static_cast<double>(bytes) / theirs, theirs / ours);
  };
  line("all_reduce", seconds([&] { all->all_reduce(arena, elements, Dtype::f32, false); }),
       seconds([&] {
         MPI_Allreduce(MPI_IN_PLACE, plain.data(), static_cast<int>(elements), MPI_FLOAT, MPI_SUM,
                       MPI_COMM_WORLD);
       }));
  line("reduce_scatter",
       seconds([&] { all->reduce_scatter(arena, arena + elements, part, Dtype::f32, false); }),
       seconds([&] {
         MPI_Reduce_scatter_block(plain.data(), sum.data(), static_cast<int>(part), MPI_FLOAT,
                                  MPI_SUM, MPI_COMM_WORLD);
       }));
  line("all_gather", seconds([&] { all->all_gather(arena + elements, arena, part * 4); }),
       seconds([&] {
         MPI_Allgather(sum.data(), static_cast<int>(part), MPI_FLOAT, plain.data(),
                       static_cast<int>(part), MPI_FLOAT, MPI_COMM_WORLD);
       }));
  return 0;
}
