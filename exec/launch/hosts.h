// The hosts of a run over several of them: who they are, and waiting for one another.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace meshwright {

struct RunHost {
  std::string name;  // or address
  int slots = 1;     // processes that it takes
  bool operator==(const RunHost&) const = default;
};

// A line per host: `name`, `name slots=8` or `name:8`; `#` begins a comment. InputError names the
// line.
std::vector<RunHost> read_hostfile(const std::string& path);

// Until the SSH daemon of `host` can be connected to, as mpirun will; false when it cannot within
// `seconds`.
bool wait_for_ssh(const std::string& host, double seconds);

// On a host that mpirun reaches through its daemon (`orted`): until such a process has come and
// gone. False when none comes within `seconds`, or `stop` says so meanwhile.
bool wait_for_daemon(double seconds, const std::function<bool()>& stop);

}  // namespace meshwright
