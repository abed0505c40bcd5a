// What has become of another process's children, as Linux's /proc says it.
#pragma once

#include <sys/types.h>

#include <vector>

namespace meshwright {

struct Children {
  int living = 0, ended = 0;  // ended: not waited for by their parent yet
};

// Of all threads of a process; none where it is gone or the system does not say.
Children children_of(pid_t process);

// Its living children, theirs, and so on.
std::vector<pid_t> descendants_of(pid_t process);

}  // namespace meshwright
