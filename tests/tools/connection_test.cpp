// Tests how the server checks and reads the head of a request, and which client it drops when there
// are too many.
#include "tools/serve/connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>

#include "tests/catch.h"
#include "tools/serve/request_head.h"

using namespace meshwright::tests;
using namespace std::chrono_literals;

namespace {

std::string head_with(const std::string& headers) {
  return "POST /api/plan HTTP/1.1\r\nHost: localhost:8080\r\n" + headers + "\r\n";
}

bool is_taken(const std::string& headers) {
  CAPTURE(headers);
  return fault_of_head(head_with(headers)).empty();
}

// Holds both ends of a connection, the client's and the server's.
struct Ends {
  Ends() { REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0); }
  ~Ends() {
    close(sockets[0]);
    close(sockets[1]);
  }
  int client() const { return sockets[0]; }
  int server() const { return sockets[1]; }
  void send(const std::string& text) const {
    REQUIRE(::send(client(), text.data(), text.size(), MSG_NOSIGNAL) == std::ssize(text));
  }
  bool is_ended() const {  // by the server
    char byte;
    return recv(client(), &byte, 1, MSG_DONTWAIT) == 0;
  }

  int sockets[2] = {};
};

}  // namespace

TEST_CASE("a head that can be read in two ways is refused", "[serve]") {
  CHECK(is_taken(""));
  CHECK(is_taken("Content-Length: 5\r\n"));
  CHECK(is_taken("content-length:5\r\n"));
  CHECK(is_taken("Content-Length: \t 5 \r\n"));
  CHECK(is_taken("Content-Length: 0\r\nAccept: */*\r\nX-Empty:\r\n"));
  CHECK(is_taken("Transfer-Encoding: chunked\r\n"));
  CHECK(is_taken("transfer-encoding: Chunked\r\n"));
  for (const std::string length : {"+5", "-5", "5 5", "5, 5", "5,5", "0x5", "5;", "", "five", "5.0",
                                   "5\t5", "1e3", "18446744073709551621", "\"5\""})
    CHECK_FALSE(is_taken("Content-Length: " + length + "\r\n"));
  for (const std::string both :
       {"Content-Length: 5\r\nContent-Length: 6\r\n", "Content-Length: 5\r\nContent-Length: 5\r\n",
        "Content-Length: 5\r\nX: y\r\ncontent-length: 7\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"})
    CHECK_FALSE(is_taken(both));
  for (const std::string encoding :
       {"identity", "chunked, identity", "gzip, chunked", "identity, chunked", "xchunked",
        "chunked;q=1", "", "chunked,"})
    CHECK_FALSE(is_taken("Transfer-Encoding: " + encoding + "\r\n"));
  for (const std::string line :
       {"Content-Length : 5\r\n", " Content-Length: 5\r\n", "X: y\r\n Content-Length: 5\r\n",
        "X: y\r\n\tz\r\n", "Content-Length: 5\n", "X: y\rContent-Length: 5\r\n", "X: y\r\r\n",
        "no colon\r\n", ": no name\r\n", "a b: c\r\n", "Content-Length\x0b: 5\r\n", "X: \x01\r\n",
        "X: \x7f\r\n", "Content\xc3\xa4: 5\r\n"})
    CHECK_FALSE(is_taken(line));
  CHECK_FALSE(is_taken(std::string("X: \0\r\n", 6)));
  CHECK_FALSE(fault_of_head("").empty());
  CHECK_FALSE(fault_of_head("\r\n\r\n").empty());
  CHECK_FALSE(fault_of_head("\r\nGET / HTTP/1.1\r\n\r\n").empty());
  CHECK_FALSE(fault_of_head("GET / HTTP/1.1\n\n").empty());
  CHECK_FALSE(fault_of_head("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n").empty());
  CHECK(fault_of_head("GET / HTTP/1.0\r\n\r\n").empty());
  CHECK(fault_of_head("GET / HTTP/1.1\r\nX: caf\xc3\xa9\r\n\r\n").empty());
}

TEST_CASE("headers that ask for a part of the answer are left out", "[serve]") {
  CHECK(without_ranges("GET /range: HTTP/1.1\r\nHost: a\r\nRange: bytes=0-1\r\nif-range: x\r\n"
                       "X-Range: y\r\n\r\n") ==
        "GET /range: HTTP/1.1\r\nHost: a\r\nX-Range: y\r\n\r\n");
}

TEST_CASE("too many unfinished requests: the oldest gives way", "[serve]") {
  Crowd crowd(1);
  Ends ends[3];
  const Ends never;  // the server never stops
  const auto connect = [&](int i) {
    return std::make_unique<Connection>(ends[i].server(), never.server(), crowd, 3600s);
  };
  const auto reading = [&](Connection& connection, bool& whole) {
    const std::size_t before = crowd.waiting();
    std::thread thread([&] { whole = connection.read_head(); });
    while (crowd.waiting() == before) std::this_thread::sleep_for(1ms);
    return thread;
  };
  bool whole[3] = {};
  const auto working = connect(0);  // it has sent its request, and its search runs
  const auto slow = connect(1);
  ends[1].send("POST /api/plan HTTP/1.1\r\nHost:");
  std::thread of_slow = reading(*slow, whole[1]);
  const auto third = connect(2);
  ends[2].send("GET / HTTP/1.1\r\n");
  std::thread of_third([&] { whole[2] = third->read_head(); });
  of_slow.join();
  CHECK_FALSE(whole[1]);
  CHECK(ends[1].is_ended());
  CHECK_FALSE(ends[0].is_ended());
  CHECK_FALSE(ends[2].is_ended());

  ends[2].send("Host: a\r\n\r\nbody");
  of_third.join();
  CHECK(whole[2]);
  CHECK(third->fault().empty());
  char text[64] = {};
  std::string got;
  for (std::size_t i = 0; i < 2; ++i) {
    const ssize_t n = third->read(text, sizeof text);
    REQUIRE(n > 0);
    got.append(text, static_cast<std::size_t>(n));
  }
  CHECK(got == "GET / HTTP/1.1\r\nHost: a\r\n\r\nbody");
  for (const int i : {0, 2}) CHECK_FALSE(ends[i].is_ended());
}

namespace {

// Holds the connections of three clients to a server that waits for two clients at most.
struct ThreeGuests {
  Crowd crowd{2};
  Ends ends[3];
  Crowd::Guest first{crowd, ends[0].server()}, second{crowd, ends[1].server()},
      third{crowd, ends[2].server()};
  bool are_ended(bool one, bool two, bool three) const {
    return ends[0].is_ended() == one && ends[1].is_ended() == two && ends[2].is_ended() == three;
  }
};

}  // namespace

TEST_CASE("a client that takes its answer is younger than one that began its request before",
          "[serve]") {
  ThreeGuests guests;
  guests.first.set_waiting(POLLIN);
  guests.second.set_waiting(POLLIN);
  guests.first.begin_answer();
  guests.third.set_waiting(POLLIN);
  CHECK(guests.are_ended(false, true, false));
}

TEST_CASE("a client that has done what its thread waits for is not given up", "[serve]") {
  ThreeGuests guests;
  guests.first.set_waiting(POLLIN);
  guests.second.set_waiting(POLLIN);
  guests.ends[0].send("GET");  // its thread has not seen it yet
  guests.third.set_waiting(POLLIN);
  CHECK(guests.are_ended(false, false, false));
}
