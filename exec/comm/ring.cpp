#include "exec/comm/communicator.h"

namespace meshwright::exec {

void shift_around(Communicator& ring, const void* from, void* to, std::int64_t bytes) {
  const int rank = ring.rank(), size = ring.size();
  constexpr int tag = 0;
  const Request arriving = ring.irecv(to, bytes, (rank + size - 1) % size, tag);
  const Request leaving = ring.isend(from, bytes, (rank + 1) % size, tag);
  ring.wait(arriving);
  ring.wait(leaving);
}

}  // namespace meshwright::exec
