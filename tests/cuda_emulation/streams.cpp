// Streams are queues. Work is done when a host waits for it or asks whether it is done, after the
// work that it needs.
#include "tests/cuda_emulation/streams.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <thread>
#include <utility>

#include "tests/cuda_emulation/lock.h"

namespace emulated {

namespace {

std::vector<CUstream_st*>& streams() {
  static auto* all = new std::vector<CUstream_st*>{new CUstream_st};  // the default one first
  return *all;
}

// Ends a turn of the device. The destructor makes device memory inaccessible to the host again.
// end() checks that nothing was written beside allocations.
struct DeviceTurn {
  DeviceTurn() = default;
  DeviceTurn(const DeviceTurn&) = delete;
  DeviceTurn& operator=(const DeviceTurn&) = delete;
  ~DeviceTurn() { open_memory(false); }
  static void end() {
    open_memory(true);
    check_memory();
  }
};

// Does the first item of the stream, or an item for which the first one waits. Returns false if
// that item waits for another rank.
bool step(CUstream_st& stream) {
  Item& front = stream.queue.front();
  if (front.kind == Item::Kind::wait && front.event->done < front.version)
    return step(*front.recorded_in);
  if (front.kind == Item::Kind::work && front.work.until) {
    if (!try_work(front.work)) return false;
    stream.queue.pop_front();
    return true;
  }
  const Item item = std::move(front);
  stream.queue.pop_front();
  if (item.kind == Item::Kind::work) return try_work(item.work);
  if (item.kind == Item::Kind::record) {
    item.event->done = std::max(item.event->done, item.version);
    item.event->time = std::chrono::steady_clock::now();
  }
  return true;
}

// Does an item of the stream. While that waits for another rank, the other streams continue,
// because that rank may be waiting for them.
void advance(CUstream_st& stream) {
  if (step(stream)) return;
  bool moved = false;
  for (CUstream_st* other : std::vector(streams()))
    if (!other->queue.empty()) moved = step(*other) || moved;
  if (!moved) std::this_thread::yield();
}

cudaError_t drain(CUstream_st& stream) {
  if (stream.capture) return failed(stream.capture->failure = cudaErrorStreamCaptureUnsupported);
  if (stream.queue.empty()) return cudaSuccess;
  const DeviceTurn turn;
  while (!stream.queue.empty()) advance(stream);
  DeviceTurn::end();
  return cudaSuccess;
}

}  // namespace

std::recursive_mutex& mutex() {
  static auto* one = new std::recursive_mutex;
  return *one;
}

CUstream_st& stream_of(CUstream_st* stream) { return stream != nullptr ? *stream : *streams()[0]; }

bool try_work(const Work& work) {
  open_memory(work.on_device);
  if (work.until) return work.until();
  work.run();
  return true;
}

void append(CUstream_st* to, Work work) {
  CUstream_st& stream = stream_of(to);
  if (!stream.capture) {
    stream.queue.push_back({Item::Kind::work, std::move(work), nullptr, 0, nullptr});
    return;
  }
  Nodes& nodes = *stream.capture->nodes;
  nodes.push_back({std::move(work), std::exchange(stream.last, {nodes.size()})});
}

void enqueue(CUstream_st* stream, std::function<void()> work) {
  const Lock lock;
  append(stream, {std::move(work), true});
}

void enqueue_until(CUstream_st* stream, std::function<bool()> done) {
  const Lock lock;
  append(stream, {nullptr, true, std::move(done)});
}

bool is_capturing() {
  return std::any_of(streams().begin(), streams().end(),
                     [](const CUstream_st* stream) { return stream->capture != nullptr; });
}

std::shared_ptr<const void> capture_of(CUstream_st* stream) { return stream_of(stream).capture; }

}  // namespace emulated

using namespace emulated;

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int, int) {
  const Lock lock;
  *stream = streams().emplace_back(new CUstream_st);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const Lock lock;
  const auto found = std::find(streams().begin(), streams().end(), stream);
  if (stream == nullptr || found == streams().end()) return failed(cudaErrorInvalidResourceHandle);
  const cudaError_t result = drain(*stream);
  streams().erase(found);
  delete stream;
  return result;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const Lock lock;
  return drain(stream_of(stream));
}

cudaError_t cudaDeviceSynchronize() {
  const Lock lock;
  cudaError_t result = cudaSuccess;
  for (CUstream_st* stream : std::vector(streams()))
    if (const cudaError_t own = drain(*stream); own != cudaSuccess) result = own;
  return result;
}

// Does some of the work at each call, so that a host that asks repeatedly comes to an end.
cudaError_t cudaStreamQuery(cudaStream_t handle) {
  const Lock lock;
  CUstream_st& stream = stream_of(handle);
  if (stream.capture) return drain(stream);
  if (stream.queue.empty()) return cudaSuccess;
  const DeviceTurn turn;
  advance(stream);
  DeviceTurn::end();
  return cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned int flags) {
  const Lock lock;
  CUstream_st& stream = stream_of(handle);
  const std::shared_ptr<EventState>& state = event->state;
  if (state->is_captured && flags != cudaEventWaitExternal) {
    const std::shared_ptr<Capture> capture = state->capture.lock();
    if (!capture) return failed(cudaErrorCapturedEvent);
    if (stream.capture && stream.capture != capture) return failed(cudaErrorStreamCaptureMerge);
    if (!stream.capture) {
      stream.capture = capture;
      capture->joined.push_back(&stream);
    }
    stream.last.insert(state->last.begin(), state->last.end());
    return cudaSuccess;
  }
  if (stream.capture) return failed(stream.capture->failure = cudaErrorStreamCaptureIsolation);
  if (state->done < state->recorded)
    stream.queue.push_back({Item::Kind::wait, {}, state, state->recorded, state->stream});
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  const Lock lock;
  append(stream, {[=] { function(argument); }, false});
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Lock lock;
  delete event;
  return cudaSuccess;
}

// With cudaEventRecordExternal, a capturing stream gets a node that records the event's time
// whenever the graph runs.
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t handle, unsigned int flags) {
  const Lock lock;
  CUstream_st& stream = stream_of(handle);
  const std::shared_ptr<EventState>& state = event->state;
  if (stream.capture && flags == cudaEventRecordExternal) {
    append(handle, {[state] { state->time = std::chrono::steady_clock::now(); }, true});
    return cudaSuccess;
  }
  state->is_captured = stream.capture != nullptr;
  if (stream.capture) {
    state->capture = stream.capture;
    state->last = stream.last;
    return cudaSuccess;
  }
  state->stream = &stream;
  stream.queue.push_back({Item::Kind::record, {}, state, ++state->recorded, nullptr});
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, cudaEventRecordDefault);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const Lock lock;
  const EventState& state = *event->state;
  if (state.is_captured) return failed(cudaErrorCapturedEvent);
  if (state.done >= state.recorded) return cudaSuccess;
  const DeviceTurn turn;
  while (state.done < state.recorded) advance(*state.stream);
  DeviceTurn::end();
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const Lock lock;
  const EventState& state = *event->state;
  if (state.is_captured) return failed(cudaErrorCapturedEvent);
  if (state.done >= state.recorded) return cudaSuccess;
  const DeviceTurn turn;
  advance(*state.stream);
  DeviceTurn::end();
  return cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  const Lock lock;
  for (const EventState* state : {begin->state.get(), end->state.get()}) {
    if (state->is_captured || state->time.time_since_epoch().count() == 0)
      return failed(cudaErrorInvalidResourceHandle);
    if (state->done < state->recorded) return cudaErrorNotReady;
  }
  *milliseconds =
      std::chrono::duration<float, std::milli>(end->state->time - begin->state->time).count();
  return cudaSuccess;
}

// ---- copies and memsets, which are done when their stream comes to them

namespace {

bool is_listed(std::size_t bytes) {
  if (listing() == nullptr) return false;
  listing()->asked.push_back(
      {.kind = Asked::Kind::memory, .bytes = static_cast<std::int64_t>(bytes)});
  return true;
}

}  // namespace

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t handle) {
  const Lock lock;
  if (bytes == 0) return cudaSuccess;
  if (is_listed(bytes)) return cudaSuccess;
  const Space source = space_of(from, bytes), target = space_of(to, bytes);
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  if (source == Space::nowhere || target == Space::nowhere ||
      (kind != cudaMemcpyDefault &&
       (from_device != (source == Space::device) || to_device != (target == Space::device))))
    return failed(cudaErrorInvalidValue);
  CUstream_st& stream = stream_of(handle);
  const bool pageable = source == Space::pageable || target == Space::pageable;
  if (pageable && stream.capture)
    return failed(stream.capture->failure = cudaErrorStreamCaptureUnsupported);
  if (source == Space::pageable) {
    const char* first = static_cast<const char*>(from);
    append(handle, {[=, staged = std::vector<char>(first, first + bytes)] {
             std::memcpy(to, staged.data(), bytes);
           }});
  } else {
    append(handle, {[=] { std::memmove(to, from, bytes); }});
  }
  return target == Space::pageable ? drain(stream) : cudaSuccess;
}

// Follows the manual ("API synchronization behavior"). The host waits if the copy is to host memory
// or from pinned memory. Pageable memory is staged at once, and its copy to the device may be done
// later, as may a copy inside the device.
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  const Lock lock;
  const bool waits = space_of(to, bytes) != Space::device || space_of(from, bytes) == Space::pinned;
  const cudaError_t result = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return result == cudaSuccess && waits ? cudaStreamSynchronize(nullptr) : result;
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  const Lock lock;
  if (bytes == 0) return cudaSuccess;
  if (is_listed(bytes)) return cudaSuccess;
  const Space target = space_of(to, bytes);
  if (target != Space::device && target != Space::pinned) return failed(cudaErrorInvalidValue);
  append(stream, {[=] { std::memset(to, value, bytes); }});
  return cudaSuccess;
}
// The host waits only if the memory is the host's.
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  const Lock lock;
  const cudaError_t result = cudaMemsetAsync(to, value, bytes, nullptr);
  const bool waits = space_of(to, bytes) != Space::device;
  return result == cudaSuccess && waits ? cudaStreamSynchronize(nullptr) : result;
}
