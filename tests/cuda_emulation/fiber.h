// Stacks that take turns on one processor: a thread of an emulated block has one.
#pragma once

#include <cstddef>

#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace emulated {

// Runs `main`, which never returns, a part at a time.
class Fiber {
 public:
  explicit Fiber(void (*main)());
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  void resume();        // until it pauses
  static void pause();  // the one that runs
  static void begin();  // the first thing in `main`

 private:
  char* memory_;
#ifdef __x86_64__
  void* stack_pointer_;
#else
  ucontext_t context_;
#endif
};

}  // namespace emulated
