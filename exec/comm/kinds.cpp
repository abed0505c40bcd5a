// The table of communicators of this build.
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "exec/comm/communicator.h"
#include "exec/comm/mpi.h"
#include "exec/comm/self.h"
#include "models/core/error.h"
#include "models/core/names_in.h"

namespace meshwright::exec {

namespace {
constexpr CommunicatorKind kinds[] = {
    {"self", make_self_world},
#ifdef MESHWRIGHT_HAS_MPI
    {"mpi", make_mpi_world},
#endif
};

std::string waited_text(double seconds, std::span<const int> whom) {
  std::vector<std::string> ranks;
  for (int rank : whom) ranks.push_back(std::to_string(rank));
  const double tenths = std::round(seconds * 10);
  std::string text = std::to_string(static_cast<std::int64_t>(tenths / 10));
  if (std::fmod(tenths, 10) != 0)
    text += "." + std::to_string(static_cast<int>(std::fmod(tenths, 10)));
  return "waited " + text + " s for " + (whom.size() == 1 ? "rank " : "ranks ") +
         list_of(ranks, "and");
}

}  // namespace

WaitedTooLong::WaitedTooLong(double seconds, std::span<const int> whom)
    : RunError(waited_text(seconds, whom)) {}

std::unique_ptr<Communicator> group_of_all(World& world) {
  std::vector<int> everybody(world.size());
  std::iota(everybody.begin(), everybody.end(), 0);
  return world.group(GroupKind::world, everybody);
}

void share_text(Communicator& all, std::string& text) {
  auto bytes = static_cast<std::int64_t>(text.size());
  all.broadcast(&bytes, sizeof bytes, 0);
  text.resize(static_cast<std::size_t>(bytes));
  if (bytes > 0) all.broadcast(text.data(), bytes, 0);
}

std::span<const CommunicatorKind> communicator_kinds() { return kinds; }

std::unique_ptr<World> make_world(std::string_view kind, const WorldOptions& options) {
  for (const CommunicatorKind& row : kinds)
    if (row.name == kind) return row.make(options);
  throw InputError("communicator '" + std::string(kind) +
                   "' is not part of this build; known: " + list_of(names_in(kinds)));
}

}  // namespace meshwright::exec
