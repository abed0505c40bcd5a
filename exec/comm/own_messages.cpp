#include "exec/comm/own_messages.h"

#include <algorithm>

#include "exec/backends/cuda/device/check.h"
#include "models/core/error.h"

namespace meshwright::exec {

namespace {

bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cuda::check(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing");
  return status == cudaStreamCaptureStatusActive;
}

void copy(void* to, const void* from, std::int64_t bytes, cudaStream_t stream) {
  cuda::check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream),
              "cudaMemcpyAsync");
}

}  // namespace

OwnMessages::~OwnMessages() {
  for (const Place& place : places_) {
    cudaEventDestroy(place.written);
    cudaEventDestroy(place.read);
    cudaFree(place.memory);
  }
}

OwnMessages::Place& OwnMessages::free_place(std::int64_t bytes) {
  auto place = std::ranges::find_if(
      places_, [&](const Place& each) { return each.tag < 0 && each.capacity >= bytes; });
  if (place == places_.end()) {
    place = places_.emplace(places_.end());
    place->capacity = bytes;
    cuda::check(cudaMalloc(&place->memory, bytes), "cudaMalloc");
    for (cudaEvent_t* event : {&place->written, &place->read})
      cuda::check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "cudaEventCreate");
  }
  places_.splice(places_.end(), places_, place);
  return *place;
}

// Copies the message into free memory. If that memory was read before, the copy waits for the read,
// but only if both are in a graph or both are not. Otherwise the read was in an earlier step, which
// is over when the next one begins.
void OwnMessages::send(const void* from, std::int64_t bytes, int tag, cudaStream_t stream) {
  Place& place = free_place(bytes);
  place.tag = tag;
  place.bytes = bytes;
  if (place.was_read && place.in_graph == is_capturing(stream))
    cuda::check(cudaStreamWaitEvent(stream, place.read), "cudaStreamWaitEvent");
  copy(place.memory, from, bytes, stream);
  cuda::check(cudaEventRecord(place.written, stream), "cudaEventRecord");
}

void OwnMessages::receive(void* to, std::int64_t bytes, int tag, cudaStream_t stream) {
  const auto place = std::ranges::find(places_, tag, &Place::tag);
  if (place == places_.end()) throw RunError("a message to oneself is received but was not sent");
  if (place->bytes != bytes) throw RunError("a message to oneself is received with another size");
  cuda::check(cudaStreamWaitEvent(stream, place->written), "cudaStreamWaitEvent");
  copy(to, place->memory, bytes, stream);
  cuda::check(cudaEventRecord(place->read, stream), "cudaEventRecord");
  place->was_read = true;
  place->in_graph = is_capturing(stream);
  place->tag = -1;
}

}  // namespace meshwright::exec
