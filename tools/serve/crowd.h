// Limits for how many clients the server waits at once. Each connection holds a thread, so clients
// that begin requests and do not end them could take all threads. If the server waits for more than
// `most` clients, the one that it has waited for longest is given up: its socket is shut down,
// which wakes its thread. A connection whose command runs or waits for its turn does not wait for
// its client, so it stays.
//
// On a busy computer a thread may still sleep although its client has already sent or taken bytes.
// Such a client is not given up either and does not count, so no connection is lost as long as the
// server waits for at most `most` clients.
#pragma once

#include <cstddef>
#include <list>
#include <mutex>

namespace meshwright::tools {

class Crowd {
 public:
  // `most` is the number of clients that the server waits for at once.
  explicit Crowd(std::size_t most) : most_(most) {}

  // Stands for a connection, from its beginning to its end. Each guest is used by one thread.
  class Guest {
   public:
    Guest(Crowd& crowd, int socket);
    ~Guest();
    Guest(const Guest&) = delete;
    Guest& operator=(const Guest&) = delete;

    // Sets for what the server waits now: POLLIN for the client to send, POLLOUT for it to take
    // bytes, 0 for nothing. If the server waits for too many clients now, one of them is given up.
    void set_waiting(short events);
    // Moves the guest to the end of the order of waiting, because the time before its response no
    // longer counts.
    void begin_answer();

   private:
    friend class Crowd;
    bool lets_wait() const;
    Crowd& crowd_;
    int socket_;
    short events_ = 0;
    bool is_given_up_ = false;
  };

  std::size_t waiting();  // the number of guests whose threads wait

 private:
  void make_room();

  const std::size_t most_;
  std::mutex mutex_;
  std::list<Guest*> guests_;  // in the order in which their requests or responses began
};

}  // namespace meshwright::tools
