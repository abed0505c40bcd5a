// Writes what a process asks of its stand-in GPUs, in order, to a file. Its name is the value of
// MESHWRIGHT_STAND_IN_LOG with the process's number. The file is mapped, so that it is complete
// even if the process is killed.
#pragma once

#include <cstdint>
#include <string_view>

namespace meshwright::stand_in {

enum class Kind : std::uint8_t {
  launch,        // of a kernel: blocks, threads of a block, shared bytes; named by its symbol
  product,       // matmul: m, n, k, batch, types (2 x 8 bits: inputs, result), flags
  convolution,   // by cuDNN; the profiler's operation has its sizes
  collective,    // elements, bytes of one, number of the group of calls or 0, ranks, peer or root,
                 // 1 + the whole run's rank of a message's other end if it is known
  copy,          // bytes, direction (cudaMemcpyKind), 1 if the host waits
  set,           // bytes
  allocate,      // bytes, address
  release,       // bytes, address
  record_event,  // event
  wait_event,    // event; the stream waits
  wait_host,     // the host waits: 0 device, 1 stream, 2 event (its handle)
  mark,          // two numbers of the recorder, or a call of another function (others.cpp)
  refuse,        // bytes of an allocation that did not fit
};

struct Entry {
  std::uint64_t time_ns = 0;  // of the clock in host_clock.h
  std::uint64_t stream = 0;
  std::uint64_t operation = 0;  // correlation id of PyTorch's profiler (graphs.cpp); 0: none
  std::uint64_t numbers[6] = {};
  std::uint32_t name = 0;  // line of the file of names, from 1; 0: none
  std::uint16_t thread = 0;
  Kind kind = Kind::mark;
  std::uint8_t device = 0;
};
static_assert(sizeof(Entry) == 80);

// Appends an entry. Its time, thread, operation and device are filled in here. While its stream is
// captured, the entry goes to a graph instead (graphs.h).
void append(Entry entry);
// Appends an entry with the number of its operation, such as one of a graph that is launched.
void append_as(Entry entry, std::uint64_t operation);
std::uint32_t number_of(std::string_view name);
std::uint64_t now_ns();  // CLOCK_MONOTONIC

// PyTorch's profiler calls these through CUPTI when an operation begins and ends on this thread, so
// that entries of the log name the operation.
void push_operation(std::uint64_t id);
std::uint64_t pop_operation();

}  // namespace meshwright::stand_in
