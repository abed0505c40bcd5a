// Finds out from Linux's /proc what has become of another process's children.
#pragma once

#include <sys/types.h>

#include <vector>

namespace meshwright::exec {

struct Children {
  int living = 0, ended = 0;  // ended: not waited for by their parent yet
};

// Counts the children of all threads of a process. The counts are 0 if it is gone or the system
// does not list them.
Children children_of(pid_t process);

// Returns the living children of the process, their living children, and so on.
std::vector<pid_t> descendants_of(pid_t process);

}  // namespace meshwright::exec
