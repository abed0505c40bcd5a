#include "tests/cuda_emulation/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <new>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

namespace emulated {

namespace {

std::size_t page() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

// Allocates a stack with a page below it that cannot be accessed, so that code that needs a larger
// stack stops there.
char* allocate_stack(std::size_t stack_bytes) {
  void* memory = mmap(nullptr, page() + stack_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  mprotect(memory, page(), PROT_NONE);
  return static_cast<char*>(memory);
}

#ifdef __SANITIZE_ADDRESS__
constexpr std::size_t frames_grow = 4;  // the sanitizer's frames are larger
void before_switch(void** fake, const void* bottom, std::size_t bytes) {
  __sanitizer_start_switch_fiber(fake, bottom, bytes);
}
// Sets `from` and `bytes`, unless they are null, to the stack that was left.
void after_switch(void* fake, const void** from = nullptr, std::size_t* bytes = nullptr) {
  __sanitizer_finish_switch_fiber(fake, from, bytes);
}
#else
constexpr std::size_t frames_grow = 1;
void before_switch(void**, const void*, std::size_t) {}
void after_switch(void*, const void** = nullptr, std::size_t* = nullptr) {}
#endif

Fiber* running;
bool passed;  // whether the last switch to a fiber was by pass_to()

}  // namespace

// On x86-64, go() is written in assembly, because swapcontext() also saves the signal mask, which
// costs two system calls.
#ifdef __x86_64__

extern "C" void emulated_switch_stack(void** from, void* to);
asm(R"(
.pushsection .text
.globl emulated_switch_stack
.type emulated_switch_stack, @function
emulated_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size emulated_switch_stack, .-emulated_switch_stack
.popsection
)");

static void go(void*& from, void*& to) { emulated_switch_stack(&from, to); }

Fiber::Fiber(void (*main)(), std::size_t stack_bytes)
    : stack_bytes_(frames_grow * stack_bytes), memory_(allocate_stack(stack_bytes_)) {
  // The stack has six registers, the address of `main`, and a place for the return address of
  // `main`, which aligns its frame.
  auto* top = reinterpret_cast<std::uintptr_t*>(memory_ + page() + stack_bytes_);
  top[-2] = reinterpret_cast<std::uintptr_t>(main);
  own_ = top - 8;
}

#else

static void go(ucontext_t& from, ucontext_t& to) { swapcontext(&from, &to); }

Fiber::Fiber(void (*main)(), std::size_t stack_bytes)
    : stack_bytes_(frames_grow * stack_bytes), memory_(allocate_stack(stack_bytes_)) {
  getcontext(&own_);
  own_.uc_stack.ss_sp = memory_ + page();
  own_.uc_stack.ss_size = stack_bytes_;
  own_.uc_link = nullptr;
  makecontext(&own_, main, 0);
}

#endif

void Fiber::resume() {
  Fiber* resumer = running;
  Place place;
  running = this;
  resumer_ = &place;
  passed = false;
  void* fake = nullptr;
  before_switch(&fake, memory_ + page(), stack_bytes_);
  go(place, own_);
  after_switch(fake);
  running = resumer;
}

void Fiber::pause() {
  Fiber& fiber = *running;
  void* fake = nullptr;
  before_switch(&fake, fiber.resumer_stack_, fiber.resumer_stack_bytes_);
  go(fiber.own_, *fiber.resumer_);
  fiber.arrive(fake);
}

void Fiber::pass_to(Fiber& next) {
  Fiber& fiber = *running;
  running = &next;
  next.resumer_ = fiber.resumer_;
  next.resumer_stack_ = fiber.resumer_stack_;
  next.resumer_stack_bytes_ = fiber.resumer_stack_bytes_;
  passed = true;
  void* fake = nullptr;
  before_switch(&fake, next.memory_ + page(), next.stack_bytes_);
  go(fiber.own_, next.own_);
  fiber.arrive(fake);
}

void Fiber::begin() { running->arrive(nullptr); }

// Runs in the fiber after each switch to it. If resume() switched to it, notes the stack of the
// resumer. If another fiber passed to it, pass_to() has already set that stack.
void Fiber::arrive(void* fake) {
  if (passed)
    after_switch(fake);
  else
    after_switch(fake, &resumer_stack_, &resumer_stack_bytes_);
}

Fiber::~Fiber() { munmap(memory_, page() + stack_bytes_); }

}  // namespace emulated
