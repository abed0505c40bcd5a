// Replaces streams and events. Nothing runs on streams, and events are reached at once. The log has
// the order that a program asks for. Only the event after a communication on another stream is not
// reached until the program waits for it (in_flight.h).
#include <cuda_runtime_api.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "tools/stand_in/in_flight.h"
#include "tools/stand_in/log.h"

using namespace meshwright::stand_in;

namespace {

std::uint64_t next_handle() {
  static std::atomic<std::uint64_t> last{4096};
  return last += 64;
}

struct EventTime {
  std::uint64_t ns;
};

std::uint64_t of(const void* handle) { return reinterpret_cast<std::uint64_t>(handle); }

cudaError_t made(cudaStream_t* stream) {
  *stream = reinterpret_cast<cudaStream_t>(next_handle());
  return cudaSuccess;
}

cudaError_t made(cudaEvent_t* event) {
  *event = reinterpret_cast<cudaEvent_t>(new EventTime{now_ns()});
  return cudaSuccess;
}

cudaError_t recorded(cudaEvent_t event, cudaStream_t stream) {
  append({.stream = of(stream), .numbers = {of(event)}, .kind = Kind::record_event});
  in_flight().recorded(of(stream), of(event));
  reinterpret_cast<EventTime*>(event)->ns = now_ns();
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) { return made(stream); }
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) { return made(stream); }
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  return made(stream);
}
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaStreamGetPriority(cudaStream_t, int* priority) {
  *priority = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode*) { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  append({.stream = of(stream), .numbers = {1}, .kind = Kind::wait_host});
  in_flight().ended_on(of(stream));
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  append({.numbers = {0}, .kind = Kind::wait_host});
  in_flight().all_ended();
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  append({.stream = of(stream), .numbers = {of(event)}, .kind = Kind::wait_event});
  in_flight().waited(of(stream), of(event));
  return cudaSuccess;
}
cudaError_t cudaLaunchHostFunc(cudaStream_t, cudaHostFn_t function, void* data) {
  function(data);
  return cudaSuccess;
}
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* data,
                                  unsigned) {
  callback(stream, cudaSuccess, data);
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) { return made(event); }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return made(event); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  in_flight().ended(of(event));
  delete reinterpret_cast<EventTime*>(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return recorded(event, stream);
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  return recorded(event, stream);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return in_flight().holds(of(event)) ? cudaErrorNotReady : cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  append({.numbers = {2, of(event)}, .kind = Kind::wait_host});
  in_flight().ended(of(event));
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  // Nothing ran between two events. The time is never short, because an autotuner repeats short
  // work for some tenths of a second, for each of its choices.
  constexpr float least = 100;
  const auto from = reinterpret_cast<const EventTime*>(begin)->ns,
             to = reinterpret_cast<const EventTime*>(end)->ns;
  *milliseconds = std::max(least, to > from ? static_cast<float>(to - from) * 1e-6F : 0);
  return cudaSuccess;
}
}
