// Answers a call (tools/answering.h) in a process of its own, so that the server itself computes
// nothing. A command that nobody waits for any more is killed, and one that takes too much memory
// or crashes ends alone.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace meshwright::tools {

struct ChildCommand {
  std::string program;         // its path
  std::string input;           // its standard input, the call
  std::string folder;          // where it runs
  std::chrono::seconds limit;  // the longest time it may take
};

struct ChildEnd {
  enum class How : std::uint8_t {
    exited,    // `code`: its exit code
    killed,    // `code`: by which signal
    left,      // the client went away
    late,      // it took longer than `limit`
    too_long,  // it printed more than most_answer_bytes
    stopped    // the server was told to stop
  };
  How how = How::exited;
  int code = 0;
  std::string out, err;  // its output; `err`: an incomplete last line
};

// Runs the command to its end, or kills it when the peer of the socket `client` hangs up (-1: there
// is no socket), `stopping` is readable, its time is over, or it prints too much. `line` gets each
// whole line of its standard error. Throws RunError if no process can be started.
ChildEnd run_child(const ChildCommand& command, int client, int stopping,
                   const std::function<void(std::string_view line)>& line);

std::uint64_t most_child_bytes();  // limit of its memory: half of this computer's, at least 4 GiB

}  // namespace meshwright::tools
