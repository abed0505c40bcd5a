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

// Frames with red zones, and without optimisation, are large.
#ifdef __SANITIZE_ADDRESS__
constexpr std::size_t stack_bytes = 512 << 10;
#else
constexpr std::size_t stack_bytes = 128 << 10;
#endif

std::size_t page() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

// A page below the stack that is out of reach: a kernel that needs more stops there.
char* allocate_stack() {
  void* memory = mmap(nullptr, page() + stack_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  mprotect(memory, page(), PROT_NONE);
  return static_cast<char*>(memory);
}

#ifdef __SANITIZE_ADDRESS__
// The stack that resumes fibers, as the sanitizer sees it.
const void* scheduler_stack;
std::size_t scheduler_stack_bytes;

void before_switch(void** fake, const void* bottom, std::size_t bytes) {
  __sanitizer_start_switch_fiber(fake, bottom, bytes);
}
void after_switch(void* fake) { __sanitizer_finish_switch_fiber(fake, nullptr, nullptr); }
void after_first_switch() {
  __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack, &scheduler_stack_bytes);
}
#else
constexpr const void* scheduler_stack = nullptr;
constexpr std::size_t scheduler_stack_bytes = 0;
void before_switch(void**, const void*, std::size_t) {}
void after_switch(void*) {}
void after_first_switch() {}
#endif

Fiber* running;

}  // namespace

// swapcontext saves the signal mask, too, which costs two system calls.
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

static void* scheduler;

Fiber::Fiber(void (*main)()) : memory_(allocate_stack()) {
  // Six registers, where to return to, and a return address of `main` itself that aligns its frame.
  auto* top = reinterpret_cast<std::uintptr_t*>(memory_ + page() + stack_bytes);
  top[-2] = reinterpret_cast<std::uintptr_t>(main);
  stack_pointer_ = top - 8;
}

void Fiber::resume() {
  running = this;
  void* fake = nullptr;
  before_switch(&fake, memory_ + page(), stack_bytes);
  emulated_switch_stack(&scheduler, stack_pointer_);
  after_switch(fake);
}

void Fiber::pause() {
  void* fake = nullptr;
  before_switch(&fake, scheduler_stack, scheduler_stack_bytes);
  emulated_switch_stack(&running->stack_pointer_, scheduler);
  after_switch(fake);
}

#else

static ucontext_t scheduler;

Fiber::Fiber(void (*main)()) : memory_(allocate_stack()) {
  getcontext(&context_);
  context_.uc_stack.ss_sp = memory_ + page();
  context_.uc_stack.ss_size = stack_bytes;
  context_.uc_link = nullptr;
  makecontext(&context_, main, 0);
}

void Fiber::resume() {
  running = this;
  void* fake = nullptr;
  before_switch(&fake, memory_ + page(), stack_bytes);
  swapcontext(&scheduler, &context_);
  after_switch(fake);
}

void Fiber::pause() {
  void* fake = nullptr;
  before_switch(&fake, scheduler_stack, scheduler_stack_bytes);
  swapcontext(&running->context_, &scheduler);
  after_switch(fake);
}

#endif

void Fiber::begin() { after_first_switch(); }

Fiber::~Fiber() { munmap(memory_, page() + stack_bytes); }

}  // namespace emulated
