// Runs blocks one after the other. The threads of a block take turns: each runs until it waits for
// others.
#include <algorithm>
#include <array>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda_emulation/cuda_runtime.h"
#include "tests/cuda_emulation/fiber.h"
#include "tests/cuda_emulation/lock.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emulated {

namespace {

constexpr int warp_size = 32;
constexpr unsigned int most_threads = 1024;

enum class State { fresh, ready, at_barrier, in_warp, done };

struct Thread {
  State state = State::fresh;
  unsigned int mask = 0;   // in_warp: the lanes that it waits for
  uint3 place;             // in the block
  Fiber* fiber = nullptr;  // set once the thread has begun
};

using Lanes = std::array<std::uint64_t, warp_size>;

struct Warp {
  Lanes given;  // what each lane gave last
  Lanes seen;   // copy of `given` when all lanes had come
};

const std::function<void()>* body;
std::vector<Thread> threads;
std::vector<Warp> warps;
std::vector<std::unique_ptr<Fiber>> fibers;
std::vector<Fiber*> idle;
std::vector<unsigned char> dynamic_memory;
int own;  // number of the thread that runs
bool reversed;
std::exception_ptr failure;  // what a thread has thrown

// One pass over the threads of the warp that runs, in order. When no thread is left that can
// continue, the caller of resume() continues.
struct Turn {
  int begin, end;
  int next;  // the next place in the order
};
Turn turn;

int next_thread() {  // returns one that can continue, or -1
  while (turn.next < turn.end) {
    const int i = turn.next++, t = reversed ? turn.begin + turn.end - 1 - i : i;
    if (threads[t].state == State::fresh || threads[t].state == State::ready) return t;
  }
  return -1;
}

void run_threads();

// Returns the fiber of a thread and makes this thread the one that runs. A thread that has not
// begun gets an idle fiber or a new one.
Fiber& fiber_of(int t) {
  Thread& thread = threads[t];
  if (thread.state == State::fresh) {
    if (idle.empty())
      idle.push_back(fibers.emplace_back(std::make_unique<Fiber>(run_threads)).get());
    thread.fiber = idle.back();
    idle.pop_back();
  }
  own = t;
  thread.state = State::ready;
  threadIdx = thread.place;
  return *thread.fiber;
}

// Runs threads on a fiber. As long as threads never wait, one fiber runs one after the other
// without switching stacks.
void run_threads() {
  Fiber::begin();
  while (true) {
    try {
      (*body)();
    } catch (...) {
      failure = std::current_exception();
    }
    Fiber* const fiber = threads[own].fiber;
    threads[own].state = State::done;
    idle.push_back(fiber);
    const int next = failure ? -1 : next_thread();
    if (next < 0) {
      Fiber::pause();
    } else if (Fiber& other = fiber_of(next); &other != fiber) {
      Fiber::pass_to(other);
    }
  }
}

void wait(State at) {
  threads[own].state = at;
  const int next = next_thread();
  if (next < 0)
    Fiber::pause();
  else
    Fiber::pass_to(fiber_of(next));
}

void forget_threads() {
  threads.clear();
  idle.clear();
  fibers.clear();
}

int count() { return static_cast<int>(threads.size()); }

unsigned int lanes_of(int warp) {
  const int lanes = std::min(count() - warp * warp_size, warp_size);
  return lanes == warp_size ? ~0U : (1U << static_cast<unsigned int>(lanes)) - 1;
}

// Lets lanes continue whose group (the lanes of their mask) has come as a whole to an exchange.
// Returns false if there is no such group.
bool release(int warp) {
  const unsigned int lanes = lanes_of(warp);
  Thread* const first = threads.data() + warp * warp_size;
  const auto waits = [&](unsigned int lane, unsigned int mask) {
    return first[lane].state == State::in_warp && first[lane].mask == mask;
  };
  bool any = false;
  for (unsigned int lane = 0; lane < warp_size; ++lane) {
    if ((lanes >> lane & 1U) == 0 || first[lane].state != State::in_warp) continue;
    const unsigned int group = first[lane].mask & lanes;
    bool all = true;
    for (unsigned int other = 0; other < warp_size && all; ++other)
      all = (group >> other & 1U) == 0 || waits(other, first[lane].mask);
    if (!all) continue;
    any = true;
    if (group == lanes) warps[warp].seen = warps[warp].given;
    for (unsigned int other = 0; other < warp_size; ++other)
      if ((group >> other & 1U) != 0) first[other].state = State::ready;
    if (group == lanes) break;
  }
  return any;
}

// Runs a warp until all of its threads have ended or need other warps. It is then ahead of the
// other warps up to the next barrier, so that a missing barrier becomes visible.
void run_warp(int warp) {
  const int begin = warp * warp_size, end = std::min(begin + warp_size, count());
  do {
    turn = {begin, end, begin};
    if (const int t = next_thread(); t >= 0) fiber_of(t).resume();
    if (failure) {
      forget_threads();
      std::rethrow_exception(std::exchange(failure, nullptr));
    }
  } while (release(warp));
}

int in_state(State state) {
  return static_cast<int>(std::count_if(
      threads.begin(), threads.end(), [&](const Thread& thread) { return thread.state == state; }));
}

// Runs one block. A barrier does not wait for threads that have ended, as on a device.
void run_block() {
  for (Thread& thread : threads) thread.state = State::fresh;
  const int all = static_cast<int>(warps.size());
  while (true) {
    for (int i = 0; i < all; ++i) run_warp(reversed ? all - 1 - i : i);
    const int waiting = in_state(State::at_barrier), ended = in_state(State::done);
    if (ended == count()) return;
    if (waiting + ended < count()) {
      const std::string message = "threads wait for others that never come: of " +
                                  std::to_string(count()) + ", " + std::to_string(waiting) +
                                  " are at a barrier, " + std::to_string(in_state(State::in_warp)) +
                                  " inside a warp's exchange, " + std::to_string(ended) +
                                  " have ended";
      forget_threads();
      throw std::logic_error(message);
    }
    for (Thread& thread : threads)
      if (thread.state == State::at_barrier) thread.state = State::ready;
  }
}

}  // namespace

void reverse_threads(bool wanted) { reversed = wanted; }

unsigned char* shared_memory() {
  const auto address = reinterpret_cast<std::uintptr_t>(dynamic_memory.data());
  return dynamic_memory.data() + (128 - address % 128) % 128;
}

void barrier() { wait(State::at_barrier); }

unsigned int lane() { return static_cast<unsigned int>(own % warp_size); }

std::span<const std::uint64_t, 32> exchange(unsigned int mask, std::uint64_t given) {
  const int warp = own / warp_size;
  const unsigned int lanes = lanes_of(warp);
  if ((mask >> lane() & 1U) == 0)
    throw std::logic_error("a lane is not in the mask of its exchange");
  warps[warp].given[lane()] = given;
  threads[own].mask = mask;
  wait(State::in_warp);
  return (mask & lanes) == lanes ? warps[warp].seen : warps[warp].given;
}

// If `mask` is only a part of the warp, waits until all of its lanes have read the values, because
// the next exchange overwrites them.
void exchanged(unsigned int mask) {
  const unsigned int lanes = lanes_of(own / warp_size);
  if ((mask & lanes) == lanes) return;
  threads[own].mask = mask;
  wait(State::in_warp);
}

void run_grid(Extent blocks, Extent extent, std::size_t shared_bytes,
              const std::function<void()>& one_thread) {
  body = &one_thread;
  gridDim = {blocks.x, blocks.y, blocks.z};
  blockDim = {extent.x, extent.y, extent.z};
  threads.resize(std::size_t{extent.x} * extent.y * extent.z);
  for (std::size_t t = 0; t < threads.size(); ++t) {
    const auto index = static_cast<unsigned int>(t);
    threads[t].place = {index % extent.x, index / extent.x % extent.y, index / extent.x / extent.y};
  }
  warps.resize((threads.size() + warp_size - 1) / warp_size);
  dynamic_memory.resize(shared_bytes + 128);
  const std::uint64_t all = std::uint64_t{blocks.x} * blocks.y * blocks.z;
  for (std::uint64_t i = 0; i < all; ++i) {
    const std::uint64_t block = reversed ? all - 1 - i : i;
    blockIdx.x = static_cast<unsigned int>(block % blocks.x);
    blockIdx.y = static_cast<unsigned int>(block / blocks.x % blocks.y);
    blockIdx.z = static_cast<unsigned int>(block / blocks.x / blocks.y);
    std::fill(dynamic_memory.begin(), dynamic_memory.end(), static_cast<unsigned char>(0xff));
    for (Warp& warp : warps) warp.given.fill(~std::uint64_t{0});
    run_block();
  }
}

void launch(Extent blocks, Extent extent, std::int64_t shared_bytes, CUstream_st* stream,
            std::function<void()> one_thread) {
  const std::uint64_t count = std::uint64_t{extent.x} * extent.y * extent.z;
  if (blocks.x == 0 || blocks.y == 0 || blocks.z == 0) return;
  if (blocks.x > 0x7fffffffU || blocks.y > 65535 || blocks.z > 65535)
    throw std::logic_error("a grid of " + std::to_string(blocks.x) + " x " +
                           std::to_string(blocks.y) + " x " + std::to_string(blocks.z) + " blocks");
  if (count == 0 || count > most_threads || extent.z > 64)
    throw std::logic_error("a block of " + std::to_string(count) + " threads");
  if (shared_bytes < 0 || shared_bytes > static_cast<std::int64_t>(hardware().shared_bytes))
    throw std::logic_error(std::to_string(shared_bytes) + " bytes of shared memory");
  if (!hardware().has_kernels) {
    failed(cudaErrorNoKernelImageForDevice);
    return;
  }
  if (listing() != nullptr) {
    listing()->asked.push_back({.kind = Asked::Kind::kernel,
                                .blocks = blocks,
                                .threads = extent,
                                .shared_bytes = shared_bytes});
    return;
  }
  enqueue(stream, [=, work = std::move(one_thread)] {
    run_grid(blocks, extent, static_cast<std::size_t>(shared_bytes), work);
  });
}

}  // namespace emulated
