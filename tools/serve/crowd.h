// Limits how many connections the server keeps. Each connection holds a thread, so clients that
// begin requests and do not end them could take all threads. If there is one connection too many,
// the one that has waited longest for its client is given up: its socket is shut down, which wakes
// its thread. A connection whose search runs or waits for its turn does not wait for its client, so
// it stays.
#pragma once

#include <cstddef>
#include <list>
#include <mutex>

namespace meshwright {

class Crowd {
 public:
  explicit Crowd(std::size_t most) : most_(most) {}

  // A connection, from its beginning to its end. Each guest is used by one thread.
  class Guest {
   public:
    Guest(Crowd& crowd, int socket);  // gives up another one if there are too many now
    ~Guest();
    Guest(const Guest&) = delete;
    Guest& operator=(const Guest&) = delete;

    // Sets whether the server waits for the client, to send or to take bytes.
    void set_waiting(bool waiting);
    // Moves the guest behind the others in the order of waiting: the time before its response no
    // longer counts.
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
