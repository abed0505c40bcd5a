// Fibers: stacks that take turns on one processor. Threads of an emulated block run on fibers, and
// so do the ranks of tests/exec/ranks_in_turn.h. A fiber may resume others.
#pragma once

#include <cstddef>

#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace emulated {

// Runs `main`, which never returns, a part at a time.
class Fiber {
 public:
  static constexpr std::size_t small_stack = 128 << 10;
  explicit Fiber(void (*main)(), std::size_t stack_bytes = small_stack);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // Runs the fiber. Returns when it pauses, or when another one pauses to which it has passed.
  void resume();
  static void pause();  // pauses the fiber that runs
  // Pauses the fiber that runs and runs `next` in its place.
  static void pass_to(Fiber& next);
  static void begin();  // `main` must call it first

 private:
#ifdef __x86_64__
  using Place = void*;  // stack pointer; the saved registers are above it
#else
  using Place = ucontext_t;
#endif
  void arrive(void* fake);

  std::size_t stack_bytes_;
  char* memory_;
  Place own_;
  Place* resumer_ = nullptr;
  // The stack from which the fiber was resumed, for the address sanitizer.
  const void* resumer_stack_ = nullptr;
  std::size_t resumer_stack_bytes_ = 0;
};

}  // namespace emulated
