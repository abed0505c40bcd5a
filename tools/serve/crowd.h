// Limits how many connections the server keeps for clients that let it wait. Each connection holds
// a thread, so clients that begin requests and do not end them could take all threads. When one
// more connection comes than the server keeps, it gives up the one that has waited longest for its
// client: it shuts down the socket, which wakes the thread. A connection whose search runs or waits
// for its turn does not wait for its client, so it stays.
#pragma once

#include <cstddef>
#include <list>
#include <mutex>

namespace meshwright {

class Crowd {
 public:
  explicit Crowd(std::size_t most) : most_(most) {}

  // A connection, from its beginning to its end. Each is used by one thread.
  class Guest {
   public:
    Guest(Crowd& crowd, int socket);  // gives up another one if there are too many now
    ~Guest();
    Guest(const Guest&) = delete;
    Guest& operator=(const Guest&) = delete;

    // Says whether the server waits for the client's bytes, or for the client to take bytes.
    void set_waiting(bool waiting);
    // The time that the client let the server wait for its request no longer counts.
    void begin_answer();

   private:
    friend class Crowd;
    Crowd& crowd_;
    int socket_;
    bool is_waiting_ = false, is_given_up_ = false;
  };

  std::size_t waiting();  // how many guests the server waits for

 private:
  void make_room();

  const std::size_t most_;
  std::mutex mutex_;
  std::list<Guest*> guests_;  // in the order in which they began their requests or their answers
};

}  // namespace meshwright
