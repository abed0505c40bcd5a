// The table of communicators of this build.
#include <string>

#include "exec/comm/communicator.h"
#include "exec/comm/mpi.h"
#include "exec/comm/self.h"
#include "models/core/error.h"

namespace meshwright {

namespace {
constexpr CommunicatorKind kinds[] = {
    {"self", make_self_world},
#ifdef MESHWRIGHT_HAS_MPI
    {"mpi", make_mpi_world},
#endif
};
}  // namespace

std::span<const CommunicatorKind> communicator_kinds() { return kinds; }

std::unique_ptr<World> make_world(std::string_view kind, const WorldOptions& options) {
  std::vector<std::string> names;
  for (const CommunicatorKind& row : kinds) {
    if (row.name == kind) return row.make(options);
    names.emplace_back(row.name);
  }
  throw InputError("communicator '" + std::string(kind) +
                   "' is not part of this build; known: " + list_of(names));
}

}  // namespace meshwright
