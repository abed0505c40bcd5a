// What a rank of a device sends to itself: where a pipeline turns, one stage has both ends. Sender
// and receiver are on streams of their own, and the sender's goes on at once: what it sent is
// copied into memory that is kept here, as much as is ever under way, until the receiver's stream
// takes it.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <list>

namespace meshwright {

class OwnMessages {
 public:
  OwnMessages() = default;
  ~OwnMessages();
  OwnMessages(const OwnMessages&) = delete;
  OwnMessages& operator=(const OwnMessages&) = delete;

  void send(const void* from, std::int64_t bytes, int tag, cudaStream_t stream);
  // The oldest of this tag. RunError: there is none, or it has another size.
  void receive(void* to, std::int64_t bytes, int tag, cudaStream_t stream);

 private:
  struct Place {
    void* memory = nullptr;
    std::int64_t capacity = 0, bytes = 0;
    int tag = -1;  // -1: free
    cudaEvent_t written = nullptr, read = nullptr;
    bool was_read = false, in_graph = false;  // so was it read: in a graph, or not
  };

  Place& free_place(std::int64_t bytes);

  std::list<Place> places_;  // those in use in the order of sending
};

}  // namespace meshwright
