// Runs independent pieces of work on several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace meshwright::sim {

// Calls `work` once with each piece from 0 to count - 1, and with the number of the thread that
// does it, from 0. Returns when all pieces are done. If pieces throw, the exception of the piece
// with the lowest number is then thrown again.
void in_parallel(std::size_t count, int threads,
                 const std::function<void(std::size_t piece, std::size_t thread)>& work);

}  // namespace meshwright::sim
