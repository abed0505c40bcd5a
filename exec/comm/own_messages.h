// Messages that a rank of a device sends to itself, which happens where a pipeline turns and one
// stage has both ends. Sender and receiver use different streams, and the sender's stream does not
// wait for the receiver. Therefore the message is copied into memory that this class keeps until
// the receiver's stream takes it. The memory grows to the most that is ever in flight.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <list>

namespace meshwright::exec {

class OwnMessages {
 public:
  OwnMessages() = default;
  ~OwnMessages();
  OwnMessages(const OwnMessages&) = delete;
  OwnMessages& operator=(const OwnMessages&) = delete;

  void send(const void* from, std::int64_t bytes, int tag, cudaStream_t stream);
  // Copies the oldest message with this tag to `to`. Throws RunError if there is none, or if it has
  // another size.
  void receive(void* to, std::int64_t bytes, int tag, cudaStream_t stream);

 private:
  struct Place {
    void* memory = nullptr;
    std::int64_t capacity = 0, bytes = 0;
    int tag = -1;  // -1: free
    cudaEvent_t written = nullptr, read = nullptr;
    bool was_read = false, in_graph = false;  // in_graph: the last read was in a captured graph
  };

  Place& free_place(std::int64_t bytes);

  std::list<Place> places_;  // those in use in the order of sending
};

}  // namespace meshwright::exec
