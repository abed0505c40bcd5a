// Stacks that take turns on one processor: a thread of an emulated block has one, and so has a rank
// of tests/exec/ranks_in_turn.h. A fiber may resume others.
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

  void resume();                     // until it pauses, or one that it passes to
  static void pause();               // the one that runs
  static void pass_to(Fiber& next);  // pauses the one that runs; `next` goes on in its place
  static void begin();               // the first thing in `main`

 private:
#ifdef __x86_64__
  using Place = void*;  // the stack pointer, with the registers above it
#else
  using Place = ucontext_t;
#endif
  void arrive(void* fake);

  std::size_t stack_bytes_;
  char* memory_;
  Place own_;
  Place* resumer_ = nullptr;
  // The stack of the caller that resumed it, for the sanitizer.
  const void* resumer_stack_ = nullptr;
  std::size_t resumer_stack_bytes_ = 0;
};

}  // namespace emulated
