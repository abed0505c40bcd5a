// Tests the emulated device itself: what it computes, and that it detects wrong programs.
#include <csetjmp>
#include <csignal>
#include <stdexcept>
#include <string>
#include <vector>

#include "exec/backends/cuda/device/launch.h"
#include "exec/backends/cuda/device/resources.h"
#include "tests/catch.h"

using namespace meshwright::tests;
using cuda::launch;

namespace {

template <typename T>
T* device_array(std::size_t count) {
  T* memory = nullptr;
  cuda::check(cudaMalloc(&memory, count * sizeof(T)), "cudaMalloc");
  return memory;
}

template <typename T>
std::vector<T> host_copy(const T* device, std::size_t count) {
  std::vector<T> host(count);
  cuda::check(cudaMemcpy(host.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost),
              "cudaMemcpy");
  return host;
}

cudaStream_t new_stream() {
  cudaStream_t stream = nullptr;
  cuda::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  return stream;
}

cudaEvent_t new_event() {
  cudaEvent_t event = nullptr;
  cuda::check(cudaEventCreate(&event), "cudaEventCreate");
  return event;
}

template <typename Function>
std::string failure_of(Function function) {
  try {
    function();
  } catch (const std::logic_error& error) {
    return error.what();
  }
  return "none";
}

// Every block reverses its part of the numbers.
__global__ void turn_round(const int* from, int* to) {
  __shared__ int part[96];
  int* kept = reinterpret_cast<int*>(cuda::shared_memory());
  const unsigned int own = threadIdx.x, first = blockIdx.x * blockDim.x;
  part[own] = from[first + own];
  __syncthreads();
  kept[own] = part[blockDim.x - 1 - own];
  __syncthreads();
  to[first + own] = kept[own];
}

// Computes for each lane the sum up to it, and the sum over all lanes of the warp.
__global__ void sums(const float* from, float* up_to, float* of_all, unsigned int* positive) {
  const unsigned int own = threadIdx.x, lane = own % 32;
  float sum = from[own], running = from[own];
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0U, sum, distance);
  for (unsigned int distance = 1; distance < 32; distance *= 2) {
    const float before = __shfl_up_sync(~0U, running, distance);
    if (lane >= distance) running += before;
  }
  up_to[own] = running;
  of_all[own] = sum;
  positive[own] = __ballot_sync(~0U, from[own] > 0);
  // A part of a warp may exchange values without the other lanes.
  if (lane < 8) of_all[own] += __shfl_sync(0xffU, running, 7);
}

__global__ void set_to(int* to, int value) { *to = value; }
__global__ void add_one(int* to, const int* from) { *to = *from + 1; }

__global__ void wait_apart() {
  if (threadIdx.x == 0)
    __syncwarp();
  else
    __syncthreads();
}

__global__ void race(int* to) { *to = static_cast<int>(threadIdx.x); }

}  // namespace

TEST_CASE("threads of a block meet at barriers", "[exec][cuda]") {
  std::vector<int> numbers(4 * 96), expected(4 * 96);
  for (int i = 0; i < 4 * 96; ++i) {
    numbers[i] = i;
    expected[i] = i / 96 * 96 + 95 - i % 96;
  }
  int *from = device_array<int>(numbers.size()), *to = device_array<int>(numbers.size());
  cuda::check(cudaMemcpy(from, numbers.data(), numbers.size() * 4, cudaMemcpyHostToDevice), "copy");
  for (const bool reversed : {false, true}) {
    emulated::reverse_threads(reversed);
    launch(turn_round, {4}, {96}, 96 * 4, nullptr, from, to);
    CHECK(host_copy(to, numbers.size()) == expected);
  }
  emulated::reverse_threads(false);
  cudaFree(from);
  cudaFree(to);
}

TEST_CASE("lanes of a warp exchange numbers", "[exec][cuda]") {
  std::vector<float> numbers(64);
  for (int i = 0; i < 64; ++i) numbers[i] = static_cast<float>(i % 3 - 1);
  auto *from = device_array<float>(64), *up_to = device_array<float>(64),
       *of_all = device_array<float>(64);
  auto* positive = device_array<unsigned int>(64);
  cuda::check(cudaMemcpy(from, numbers.data(), 64 * 4, cudaMemcpyHostToDevice), "copy");
  launch(sums, {1}, {64}, 0, nullptr, from, up_to, of_all, positive);
  const auto running = host_copy(up_to, 64), total = host_copy(of_all, 64);
  const auto ballots = host_copy(positive, 64);
  for (int warp = 0; warp < 2; ++warp) {
    float sum = 0;
    unsigned int ballot = 0;
    for (int lane = 0; lane < 32; ++lane) {
      sum += numbers[warp * 32 + lane];
      if (numbers[warp * 32 + lane] > 0) ballot |= 1U << lane;
      CHECK(running[warp * 32 + lane] == sum);
    }
    for (int lane = 0; lane < 32; ++lane) {
      CHECK(total[warp * 32 + lane] == sum + (lane < 8 ? running[warp * 32 + 7] : 0));
      CHECK(ballots[warp * 32 + lane] == ballot);
    }
  }
  for (void* memory : {from, up_to, of_all}) cudaFree(memory);
  cudaFree(positive);
}

TEST_CASE("what a kernel does wrong is reported", "[exec][cuda]") {
  launch(wait_apart, {1}, {32}, 0, nullptr);
  CHECK(failure_of([] { cudaDeviceSynchronize(); }) ==
        "threads wait for others that never come: of 32, 31 are at a barrier, 1 inside a warp's "
        "exchange, 0 have ended");
  int* number = device_array<int>(1);
  launch(set_to, {1}, {1}, 0, nullptr, number + 1, 5);
  CHECK(failure_of([] { cudaDeviceSynchronize(); }) ==
        "something wrote behind an allocation of 4 bytes, at its byte 4");
  launch(set_to, {1}, {1}, 0, nullptr, number + 1, -1);  // the value before
  cudaFree(number);
  CHECK(failure_of([] { launch(wait_apart, {1}, {1025}, 0, nullptr); }) ==
        "a block of 1025 threads");
}

TEST_CASE("what depends on the order of threads shows when it is turned round", "[exec][cuda]") {
  int* number = device_array<int>(1);
  launch(race, {1}, {64}, 0, nullptr, number);
  CHECK(host_copy(number, 1)[0] == 63);
  emulated::reverse_threads(true);
  launch(race, {1}, {64}, 0, nullptr, number);
  CHECK(host_copy(number, 1)[0] == 0);
  emulated::reverse_threads(false);
  cudaFree(number);
}

// A plain copy to the device is not ordered with other streams, even after the host went on.
// copy_to_device() and fill_device() also wait until the memory is written.
TEST_CASE("no stream waits for what the default one is told", "[exec][cuda]") {
  cudaStream_t own = new_stream();
  int* numbers = device_array<int>(2);  // -1, as all fresh memory
  const auto one_more = [&] {
    launch(add_one, {1}, {1}, 0, own, numbers + 1, numbers);
    int value = 0;
    cuda::check(cudaMemcpyAsync(&value, numbers + 1, 4, cudaMemcpyDeviceToHost, own), "copy");
    return value;
  };
  const int seven = 7;
  cuda::check(cudaMemset(numbers, 0, 4), "cudaMemset");
  CHECK(one_more() == 0);
  cuda::check(cudaMemcpy(numbers, &seven, 4, cudaMemcpyHostToDevice), "cudaMemcpy");
  CHECK(one_more() == 0);
  cuda::copy_to_device(numbers, &seven, 4);
  CHECK(one_more() == 8);
  cuda::fill_device(numbers, 0, 4);
  CHECK(one_more() == 1);
  cudaFree(numbers);
  cudaStreamDestroy(own);
}

TEST_CASE("work is done when it is waited for, and what it needs", "[exec][cuda]") {
  cudaStream_t first = new_stream(), second = new_stream();
  cudaEvent_t made = new_event();
  int* numbers = device_array<int>(2);
  launch(set_to, {1}, {1}, 0, first, numbers, 7);
  const auto result = [&] {
    launch(add_one, {1}, {1}, 0, second, numbers + 1, numbers);
    int value = 0;
    cuda::check(cudaMemcpyAsync(&value, numbers + 1, 4, cudaMemcpyDeviceToHost, second), "copy");
    return value;
  };
  CHECK(result() == 0);  // fresh memory is -1: the stream was not waited for
  cuda::check(cudaEventRecord(made, first), "cudaEventRecord");
  cuda::check(cudaStreamWaitEvent(second, made), "cudaStreamWaitEvent");
  launch(set_to, {1}, {1}, 0, first, numbers, 70);  // after the event
  CHECK(result() == 8);
  cuda::check(cudaStreamSynchronize(first), "cudaStreamSynchronize");
  CHECK(result() == 71);
  CHECK(cudaEventQuery(made) == cudaSuccess);
  cudaEventDestroy(made);
  cudaStreamDestroy(first);
  cudaStreamDestroy(second);
  cudaFree(numbers);
}

TEST_CASE("a captured graph is run again and again", "[exec][cuda]") {
  cudaStream_t origin = new_stream(), side = new_stream();
  cudaEvent_t fork = new_event(), join = new_event();
  int* numbers = device_array<int>(3);
  const auto capture = [&](bool joins) {
    cuda::check(cudaStreamBeginCapture(origin, cudaStreamCaptureModeGlobal), "begin");
    launch(add_one, {1}, {1}, 0, origin, numbers, numbers);
    cuda::check(cudaEventRecord(fork, origin), "cudaEventRecord");
    cuda::check(cudaStreamWaitEvent(side, fork), "cudaStreamWaitEvent");
    launch(add_one, {1}, {1}, 0, side, numbers + 1, numbers);
    cuda::check(cudaEventRecord(join, side), "cudaEventRecord");
    if (joins) cuda::check(cudaStreamWaitEvent(origin, join), "cudaStreamWaitEvent");
    launch(add_one, {1}, {1}, 0, origin, numbers + 2, numbers + 1);
    cudaGraph_t graph = nullptr;
    const cudaError_t result = cudaStreamEndCapture(origin, &graph);
    CHECK(result == (joins ? cudaSuccess : cudaErrorStreamCaptureUnjoined));
    return graph;
  };
  CHECK(capture(false) == nullptr);
  CHECK(cudaGetLastError() == cudaErrorStreamCaptureUnjoined);
  cudaGraph_t graph = capture(true);
  cudaGraphExec_t exec = nullptr;
  cuda::check(cudaGraphInstantiate(&exec, graph), "cudaGraphInstantiate");
  cudaGraphDestroy(graph);
  launch(set_to, {1}, {1}, 0, origin, numbers, 10);
  for (int i = 0; i < 3; ++i) cuda::check(cudaGraphLaunch(exec, origin), "cudaGraphLaunch");
  cuda::check(cudaStreamSynchronize(origin), "cudaStreamSynchronize");
  CHECK(host_copy(numbers, 3) == std::vector<int>{13, 14, 15});
  // While streams are captured, other calls are refused.
  cuda::check(cudaStreamBeginCapture(origin, cudaStreamCaptureModeGlobal), "begin");
  CHECK(cudaStreamSynchronize(origin) == cudaErrorStreamCaptureUnsupported);
  CHECK(cudaStreamEndCapture(origin, &graph) == cudaErrorStreamCaptureInvalidated);
  cudaGetLastError();  // clears the error that the next launch would report
  cudaGraphExecDestroy(exec);
  cudaEventDestroy(fork);
  cudaEventDestroy(join);
  cudaStreamDestroy(origin);
  cudaStreamDestroy(side);
  cudaFree(numbers);
}

namespace {
sigjmp_buf before_access;
}

TEST_CASE("the host cannot reach device memory", "[exec][cuda]") {
  int* number = device_array<int>(1);
  launch(set_to, {1}, {1}, 0, nullptr, number, 3);
  cudaDeviceSynchronize();
  struct sigaction jump = {}, old = {};
  jump.sa_handler = [](int) { siglongjmp(before_access, 1); };
  REQUIRE(sigaction(SIGSEGV, &jump, &old) == 0);
  volatile bool reached = false;
  if (sigsetjmp(before_access, 1) == 0) reached = *const_cast<volatile int*>(number) == 3;
  sigaction(SIGSEGV, &old, nullptr);
  CHECK_FALSE(reached);
  CHECK(host_copy(number, 1)[0] == 3);
  cudaFree(number);
}
