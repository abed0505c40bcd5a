// A command of this program as a process of its own. Whatever a client asks for, the server itself
// computes nothing: what is given up is killed, what takes too much memory or ends badly ends
// alone, and an answer is what the command prints.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace meshwright {

struct ChildCommand {
  std::vector<std::string> words;  // the program's path first
  std::string folder;              // where it runs
  std::chrono::seconds limit;      // how long it may
};

struct ChildEnd {
  enum class How : std::uint8_t {
    exited,    // `code`: its exit code
    killed,    // `code`: by which signal
    left,      // the client went away
    late,      // it took longer than a search may
    too_long,  // it printed more than an answer may be
    stopped    // the server was told to stop
  };
  How how = How::exited;
  int code = 0;
  std::string out, err;  // what it printed; of standard error whole lines go to `line` instead
};

// Runs it to its end, or ends it when the peer of the socket `client` hangs up, or `stopping` is
// readable. RunError where no process can be started.
ChildEnd run_child(const ChildCommand& command, int client, int stopping,
                   const std::function<void(std::string_view line)>& line);

std::uint64_t most_child_bytes();  // of memory: half of this computer's, 4 GiB at least

}  // namespace meshwright
