#include "exec/launch/marks.h"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace meshwright::exec {

namespace {

// Writes a mark to standard error in one piece, so that the words of other ranks do not come
// between.
void tell(const std::string& text) {
  const std::string line = mark_begin + text + '\n';
  std::fflush(stderr);
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

}  // namespace

// The rank is read from the environment, because Open MPI's launchers set it before MPI is
// initialised.
void tell_started() {
  const char* rank = std::getenv("PMIX_RANK");
  tell(std::string(mark_started) + (rank == nullptr ? "" : rank));
}

void tell_met() { tell(std::string(mark_met)); }

void tell_ended(int exit_code) { tell(std::string(mark_ended) + std::to_string(exit_code)); }

}  // namespace meshwright::exec
