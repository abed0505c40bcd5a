// Runs CUDA kernels as plain C++, for tests without a GPU: every thread of a block is a context of
// its own (ucontext.h) that runs until it waits for others, at a barrier or a shuffle. The text of
// a kernel is the one that the device gets. Stands before the text; not part of the project's code.
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

#define __device__
#define __global__
#define __shared__ static
#define __launch_bounds__(threads)

struct Index {
  unsigned int x;
};
static Index threadIdx, blockIdx;
alignas(16) static float kept[(96 << 10) / sizeof(float)];

namespace shim {

enum class State { ready, at_barrier, at_shuffle, done };

struct Thread {
  ucontext_t context;
  std::vector<char> stack = std::vector<char>(64 << 10);
  State state = State::done;
  float given = 0;
};

static std::vector<Thread> threads;
static ucontext_t scheduler;
static std::function<void()> body;

static void wait(State at) {
  const Index own = threadIdx;
  threads[own.x].state = at;
  swapcontext(&threads[own.x].context, &scheduler);
  threadIdx = own;
}

static void run_thread() {
  body();
  wait(State::done);
}

static bool all_in(int begin, int end, State state) {
  for (int t = begin; t < end; ++t)
    if (threads[t].state != state) return false;
  return true;
}

static void set(int begin, int end, State from, State to) {
  for (int t = begin; t < end; ++t)
    if (threads[t].state == from) threads[t].state = to;
}

// As far as it comes without the other warps.
static void run_warp(int begin, bool reversed) {
  const int end = begin + 32;
  do {
    for (int i = 0; i < 32; ++i) {
      const int t = reversed ? end - 1 - i : begin + i;
      if (threads[t].state != State::ready) continue;
      threadIdx.x = static_cast<unsigned int>(t);
      swapcontext(&scheduler, &threads[t].context);
    }
    if (!all_in(begin, end, State::at_shuffle)) return;
    set(begin, end, State::at_shuffle, State::ready);
  } while (true);
}

// A warp is ahead of the others until the next barrier, so that one which is missing shows. False:
// some threads wait for others that never come.
static bool run_block(int count, bool reversed) {
  if (threads.size() < static_cast<std::size_t>(count)) threads.resize(count);
  for (int t = 0; t < count; ++t) {
    Thread& thread = threads[t];
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = thread.stack.data();
    thread.context.uc_stack.ss_size = thread.stack.size();
    thread.context.uc_link = nullptr;
    makecontext(&thread.context, run_thread, 0);
    thread.state = State::ready;
  }
  while (true) {
    for (int warp = 0; warp < count; warp += 32)
      run_warp(reversed ? count - 32 - warp : warp, reversed);
    if (!all_in(0, count, State::at_barrier)) return all_in(0, count, State::done);
    set(0, count, State::at_barrier, State::ready);
  }
}

template <typename... Parameters, std::size_t... i>
void call(void (*kernel)(Parameters...), void** arguments, std::index_sequence<i...>) {
  kernel(*static_cast<Parameters*>(arguments[i])...);
}

// Arguments as cuLaunchKernel takes them. `reversed`: threads and blocks in the opposite order,
// which must make no difference.
template <typename... Parameters>
bool launch(void (*kernel)(Parameters...), void** arguments, long long blocks, int count,
            bool reversed) {
  std::fill(std::begin(kept), std::end(kept), std::nanf(""));
  body = [=] { call(kernel, arguments, std::index_sequence_for<Parameters...>()); };
  for (long long b = 0; b < blocks; ++b) {
    blockIdx.x = static_cast<unsigned int>(reversed ? blocks - 1 - b : b);
    if (!run_block(count, reversed)) return false;
  }
  return true;
}

using Widen = float (*)(unsigned short);
using Narrow = unsigned short (*)(float);
static Widen widen_half;
static Narrow narrow_half;

}  // namespace shim

extern "C" void set_halves(shim::Widen widen, shim::Narrow narrow) {
  shim::widen_half = widen;
  shim::narrow_half = narrow;
}

inline float float_of_half(unsigned short bits) { return shim::widen_half(bits); }
inline unsigned short half_of_float(float x) { return shim::narrow_half(x); }
inline float __uint_as_float(unsigned int bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
inline unsigned int __float_as_uint(float x) {
  unsigned int bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float x) { return 1.0f / std::sqrt(x); }
template <typename T>
const T* again(const T* address) {
  return address;
}
inline void __syncthreads() { shim::wait(shim::State::at_barrier); }
inline float __shfl_xor_sync(unsigned int, float x, int distance) {
  const unsigned int own = threadIdx.x;
  shim::threads[own].given = x;
  shim::wait(shim::State::at_shuffle);
  const float other = shim::threads[own ^ static_cast<unsigned int>(distance)].given;
  shim::wait(shim::State::at_shuffle);
  return other;
}
